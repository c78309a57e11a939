"""The decision library: which request runs next, and where. Pure: no clock, no I/O, no logging, no global randomness.

One `Scheduler` object (scheduler.py) serves every driver. Events are its methods, commands are the values they return:

    request_arrived  request_finished  request_failed  request_withdrawn  endpoint_updated  endpoint_lost  tick
        → Dispatch | Reject

    interface.py   commands, requests and limits: read this first
    queues.py      order: strict by class, tenants in turn, first in first out
    pickers.py     which endpoint
    split.py       which version of a route
"""
