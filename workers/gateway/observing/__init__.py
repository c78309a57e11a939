"""What a gateway shows of itself: health, readiness, metrics, and lines for logs and telemetry.

admin_port.py  a port and thread of their own         admin.py       what is shown there
metrics.py     counts of settled requests             exposition.py  the same as Prometheus text
report.py      what telemetry reads                   beliefs.py     estimates with their error
access_log.py  a line per request, if wanted          fullness.py    how full KV caches are
"""
