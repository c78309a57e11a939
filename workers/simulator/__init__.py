"""A simulated fleet that replays traces through the scheduler that serves.

engine.py kv_cache.py   one engine, in steps          job.py       one request and what happened to it
replay.py               the event loop                 report.py    scores
traces.py workloads/    public traces as workloads     lab.py       one run, from a workload and a policy's name
"""
