"""The decision library: which request runs next, and where. Pure: no clock, no I/O, no logging, no global randomness.

One `Scheduler` object serves every driver: the gateway, the simulator, replay. Events are its methods, commands are the
values they return; docs/scheduling.md says how it decides and what it scores.

    interface.py    requests, reports, commands: read this first
    scheduler.py    events in, commands out: accounts, bounds, refusals            state.py  what it tells of itself
    pool.py         one model version: plan, order and endpoints together              next_ticket.py  what goes next
    tuning.py       every constant
    appraisal.py    what a request takes, what it is worth, when it must start     latency/  lengths and step times
    planning/       what can still be done in time, and what is let go
    ordering/       shares of classes and tenants, urgency within them
    fleet.py        which endpoint suits best                                      openings.py  which are open
    holding.py      slots held back for higher classes
    endpoint.py     the model of one          kv_reports.py  its word on its cache      prefix/  what it has cached
    workflows.py    calls that depend on each other     counts.py       how much waits, and whose
    decision.py     why, for the console
    peers/          policies of other routers, as options and as the mark to beat
    split.py        which version of a route
"""
