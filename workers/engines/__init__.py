"""Engines: the processes that answer, and how to start, probe and read them."""
