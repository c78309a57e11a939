"""The hot path as machine code, where the machine has a C compiler: the same modules, compiled by mypyc.

`python -m workers.compiled` builds into the user's cache; `prefer_compiled` makes this process import what was built
from exactly the sources that it would import otherwise. Without a build everything runs interpreted, with the same
results.
"""
