"""The snapshot as this gateway holds it.

directory.py   indexed for the look-ups of a request  files.py       as it changes on disk
networks.py    ranges of addresses
"""
