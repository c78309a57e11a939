"""The scheduler's driver: tells it what happens, carries out what it decides, and remembers why.

driver.py      commands out, events in                roster.py      the engines it may choose from
terms.py       on what terms a request is scheduled   estimates.py   what is expected of it
flights.py     requests in the scheduler's hands       place.py       the place of one of them
watching.py    what engines say of themselves         batching.py    batches that the scheduler forms
workflows.py   programs of several requests           flows.py       fair shares inside a tenant
trails.py      what happened to each, and why         explaining.py  the same in words
"""
