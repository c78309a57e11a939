"""What is asked of an engine for a request: which bytes, at which engine, and how its answer is to be read.

engines.py     the engines, and how they are reached  asking.py      the request that goes to one
attempt.py     one attempt at one engine              reading.py     how its stream is read
counting.py    tokens, asked for first                combining.py   several questions as one
degrading.py   which cheaper versions may answer
"""
