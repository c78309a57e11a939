"""OpenAI's Files and Batch: requests that are handed in as a file, run when there is room, and fetched as a file.

shapes.py     files, batches, items: as they are kept, and as clients see them
lines.py      what is wrong with a line of an input file; the lines of output files
store.py      where all of it is kept: SQLite and a folder        threads.py   the one thread that touches it
pace.py       how many items may run beside everybody else
loopback.py   an item is a client in this process                 errands.py  asks for it, in the name of its key
runner.py     takes every batch from its creation to its end      progress.py what is known of one that runs
api.py        the paths                                           forms.py    what clients send there
"""
