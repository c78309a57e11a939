"""One request for an engine, from its arrival to its record and the last byte of its answer.

exchange.py    the request as a whole                 attempting.py  its attempts, one after the other
answering.py   the answer to its client               ending.py      how it ends: record, last byte, place
continuing.py  a stream that another engine goes on with (continuing_named.py for named events)
"""
