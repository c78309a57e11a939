"""The engines of this node: what they are, whether they live, and what is to be done about each.

reconcile.py   state and time in, actions out         memory.py      its values
processes.py   engine processes, known again          identity.py    which process a pid means
probes.py      asks an engine how it is               liveness.py    whether it lives
starts.py      who may start now                      leaving.py     how one ends
sleeping.py    put to sleep, and woken                parts.py       one engine over several nodes
offers.py      what the gateway may use               pauses.py      time in which the agent stood still
"""
