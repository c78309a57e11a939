"""Who asks for what, and who answers: the gateway itself, an engine of this node, or another node.

surface.py     every path                             introduction.py who asks, and what a head says
intake.py      from a request to its exchange         scopes.py      what a key may be used for
forwarding.py  what another node keeps or runs        stored.py      what engines would keep, refused
outcomes.py    whether a task succeeded               leaving.py     how a gateway stops
"""
