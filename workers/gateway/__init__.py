"""The data plane of a node: an OpenAI-compatible server with the scheduler in it.

server.py      HTTP/1.1 towards clients           upstream.py   HTTP/1.1 towards engines
surface.py     who asks for what                  exchange.py   one request, from arrival to its usage record
paths.py       which path does what               apis/         whose shapes a path speaks
labels.py      what headers say of a request      forms.py      what is read from and changed in a form
directory.py   the snapshot, indexed for look-up  driver.py     carries out the scheduler's commands
bodies.py      what is read and changed in a body streams.py    the same for event streams
metering.py    usage → record and cost            spool.py      records → disk, before the last byte leaves
errors.py      our own errors, in OpenAI's shape  files.py      snapshot and endpoints, as they change on disk
report.py      what telemetry reads               admin.py      health, readiness and metrics on a port of its own
metrics.py     counts of settled requests         exposition.py the same as Prometheus text
access_log.py  a line per request, if wanted
"""
