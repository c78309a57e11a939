"""Weights on this node's disk, and on their way to it.

fetches.py     one process for each source           sources.py     where weights come from
fetching.py    from a hub                             store_fetching.py from an object store
downloads.py   what both have in common               parent.py      a download ends with its agent
weights.py     which lie here                         disk.py        how much room there is
"""
