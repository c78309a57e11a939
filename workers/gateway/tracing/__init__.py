"""Spans of requests, sent to a collector over OTLP/HTTP. Off unless a collector is named, and then it costs nothing.

context.py    which trace a request belongs to     spans.py      from a usage record to spans
tracer.py     what the gateway calls               exporter.py   the thread that sends
"""
