"""Agent of a node: makes what runs what should run, and tells the control plane what it sees.

core.py      its loops                            care.py            looks at the engines once a turn
engines/     what each is, and what it needs      hardware/          GPUs, CPU and memory
storage/     weights on disk, and on their way    reporting/         what the control plane hears
lease.py     whether this node still may serve    gateway_keeper.py  keeps its gateway running
node_files.py the node's directory                join.py            makes a machine a node

The loop runs once a second and when nudged, so whatever message is lost, the next turn heals it. With the control
plane gone it goes on from desired.json; with the broker gone it goes on without nudges.
"""
