"""Agent of a node: makes what runs what should run, and tells the control plane what it sees.

    reconcile.py    pure: desired state and what was seen → actions and reports     memory.py    its values
    offers.py       pure: reports → the endpoints a gateway may use
    processes.py    starts and signals engines, knows them again after a restart    identity.py  which process a pid is
    probes.py       health, a real completion, metrics                              accelerators.py  GPUs, CPU, memory
    node_files.py   the node's directory                                            usage_shipper.py usage spool → link
    link.py         the websocket                                                   telemetry.py what is sent each turn
    nudges.py       Celery worker on the queue node.<id>                            core.py      the loop
    settings.py     environment                                                     __main__.py  entry point

The loop runs once a second and when nudged, so whatever message is lost, the next turn heals it. With the control
plane gone it goes on from desired.json; with the broker gone it goes on without nudges.
"""
