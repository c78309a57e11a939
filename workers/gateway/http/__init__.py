"""HTTP/1.1 as the gateway speaks it: strict towards clients, pooled towards engines.

server.py      a client's connection                requests.py    requests out of its bytes, strictly
heads.py       heads, and how they are known again   chunked.py     bodies in chunks
connections.py how many there may be                handover.py    the listening sockets, to the next process
upstream.py    connections to engines                call.py        one question over one of them
turns.py       reads before writes, once a turn
"""
