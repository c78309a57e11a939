import itertools

from apps.usage.services.ingest import Incoming, ingest_batches
from workers.contracts.decisions import Choice, DecisionStep, EndpointScore, RequestDecision
from workers.contracts.ids import uuid7
from workers.contracts.usage import UsageRecord

ARRIVED_AT_S = 1_795_953_600.0  # 2026-11-29T12:00:00Z
_sequence = itertools.count(1)


def make_record(**fields):
    """A completed request of nobody in particular; ids are valid and its own."""
    sequence = next(_sequence)
    arrived_at = fields.get("arrived_at", ARRIVED_AT_S)
    defaults = {
        "record_id": uuid7(ARRIVED_AT_S, sequence),
        "gateway_id": "gateway-1",
        "boot_id": "boot-1",
        "sequence": sequence,
        "request_id": f"req-{sequence}",
        "arrived_at": arrived_at,
        "tenant_id": uuid7(1.0, 1),
        "key_id": uuid7(1.0, 2),
        "user_id": uuid7(1.0, 3),
        "end_user": "",
        "path": "/v1/chat/completions",
        "public_model": "demo-chat",
        "version_id": "",
        "deployment_id": "",
        "endpoint_id": "",
        "node_id": "",
        "service_class": "gold",
        "is_stream": True,
        "status": 200,
        "outcome": "completed",
        "usage_source": "engine",
        "input_tokens": 12,
        "cached_input_tokens": 4,
        "output_tokens": 7,
        "queue_ms": 1.5,
        "ttft_ms": 80.0,
        "total_ms": 900.0,
        "cost_pico_usd": 0,
    }
    return UsageRecord(**(defaults | fields))


def decision_on(record):
    """Why the request of a record ran as it did: it waited, and the better of two engines took it."""
    at = record.arrived_at
    return RequestDecision(
        request_id=record.request_id,
        tenant_id=record.tenant_id,
        service_class=record.service_class,
        version_id=record.version_id,
        arrived_at=at,
        is_over=True,
        prompt_tokens=record.input_tokens,
        predicted_output_tokens=20.0,
        ttft_slo_s=2.0,
        workflow_id="nightly",
        steps=[
            DecisionStep(what="arrived", at=at),
            DecisionStep(what="queued", at=at),
            DecisionStep(what="sent", at=at + 0.5, detail="engine-b"),
            DecisionStep(what="completed", at=at + 1.0),
        ],
        choices=[
            Choice(
                at=at + 0.5,
                outcome="sent",
                endpoint_id="engine-b",
                start_by=at + 1.5,
                waited_as="kept",
                considered=[
                    EndpointScore(endpoint_id="engine-a", reason="no slot"),
                    EndpointScore(endpoint_id="engine-b", score_s=0.02, prefill_s=0.01, hit_tokens=4),
                ],
            )
        ],
    )


def ingest_records(*, records, node_id, now, undecodable=()):
    """One batch of one node."""
    (counts,) = ingest_batches([Incoming(node_id=node_id, records=records, undecodable=undecodable)], now=now)
    return counts
