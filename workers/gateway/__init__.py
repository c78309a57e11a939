"""The data plane of a node: an OpenAI-compatible server with the scheduler in it.

On the way of a request, from the outside in; none knows of those above it (pyproject.toml):

front/      who asks for what, and who answers       exchanges/  one request, until the last byte of its answer
driving/    the scheduler's driver                   records/    what was used: journal, record, spool
attempts/   what is asked of an engine               apis/       whose shapes a path speaks
events/     event streams                            payload/    bodies and labels
http/       HTTP/1.1 towards clients and engines

Beside it:

limits/     reserve, settle, release                 snapshots/  the snapshot, indexed for look-up
kv_events/  what engines say of their caches         tracing/    spans
batches/    Files and Batch                          sisters/    several processes as one gateway
observing/  health, metrics, logs                    service.py  all of it, put together and run
"""
