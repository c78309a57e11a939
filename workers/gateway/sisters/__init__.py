"""Several processes of one gateway: they share the port, and each decides alone for the deployments that it owns.

ownership.py  which versions go together, and whose they are     parent.py    starts, watches and ends the processes
passing.py    a connection goes to the owner of what it asks for child.py     one process, as the parent sees it
channel.py    how it goes: a message with its descriptor         overview.py  one admin port for all of them
adopting.py   how it is gone on with                             merging.py   their metrics and reports, added up
control.py    what parent and processes tell each other          news.py      the decisions that they tell of
member.py     what makes a process one of several                errands.py   a batch's items, at the model's owner

docs/adr/0024 says why.
"""
