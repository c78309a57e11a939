"""Messages between the planes, and the files of a node. msgspec structs and file formats, no clock.

    snapshot.py   who may ask for what, and what it costs: control plane → gateway
    limits.py     what tenants, users and keys may use (part of the snapshot), and how use is named in Valkey
    limit_periods.py  days and months of limits
    endpoints.py  which engines of this node may be sent to: agent → gateway
    desired.py    which replicas a node should run: control plane → agent
    telemetry.py  what a node looks like now: node → control plane
    usage.py      one record per request: gateway → control plane
    link.py       the frames of the agent's websocket that carry the above
    signing.py    Ed25519 envelope of a snapshot
    spool.py      format of the usage records on disk
    layout.py     names of the files through which agent and gateway talk

Unknown fields are ignored when decoding, so either side may be upgraded first.
"""
