"""A discrete-event model of a vLLM engine behind vLLM's HTTP API.

model/        pure: step times, KV blocks, continuous batching; no clock, no I/O (the simulator uses it too)
words.py      tokens are words, so that anybody can count them; text follows from prompt, seed and temperature
plan.py       the whole answer of one choice, known when the request arrives
calls.py      request bodies, checked as vLLM checks them        errors.py   vLLM's error bodies
answers.py    whole answers                                      chunks.py   stream events
exposition.py /metrics with vLLM's names                         ledger.py   what was really generated
faults.py     faults that can be switched on at run time
clockwork.py  drives the model by the wall clock
generation.py one request: from the call to the last byte        routes.py   paths
http.py       HTTP/1.1 on asyncio                                options.py  command line
"""
