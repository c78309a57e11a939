"""What clients say of a request beside the prompt: who, for what, and in which trace."""

import re
from collections.abc import Callable, Mapping

from workers.contracts.settlement import Settlement
from workers.gateway.http.heads import Headers
from workers.gateway.payload.bodies import Peek
from workers.gateway.payload.peeks import end_user_of, first_text, wants_stream

# The most that OpenAI's own API takes as metadata.
MAX_METADATA = 16
MAX_NAME = 64
MAX_VALUE = 512
MAX_WORKFLOW_ID = 128

NO_TAGS: dict[str, str] = {}

OBJECTIVE = b"x-gateway-inference-objective"
FAIRNESS = b"x-gateway-inference-fairness-id"
DEADLINE = b"x-request-deadline-ms"
SLO_TTFT = b"x-slo-ttft-ms"
SLO_TPOT = b"x-slo-tpot-ms"
DEGRADE = b"x-degrade"
WORKFLOW_ID = b"x-workflow-id"
WORKFLOW_STEP = b"x-workflow-step"
WORKFLOW_STEPS = b"x-workflow-steps-expected"
WORKFLOW_DEADLINE = b"x-workflow-deadline-ms"
WORKFLOW_TOKENS = b"x-workflow-token-budget"
WORKFLOW_COST = b"x-workflow-cost-budget-usd"
WORKFLOW_TRAITS = (WORKFLOW_STEP, WORKFLOW_STEPS, WORKFLOW_DEADLINE, WORKFLOW_TOKENS, WORKFLOW_COST)
TERMS_HEADERS = frozenset((OBJECTIVE, FAIRNESS, DEADLINE, SLO_TTFT, SLO_TPOT, WORKFLOW_ID, *WORKFLOW_TRAITS))

# Between gateways: a request that came from another one, the version that was chosen there, that it was a gateway,
# that a limit of requests has counted it already, and what its record is known by. Of others only the first is heard,
# and only of requests for engines: such a one stays where it is asked for.
FORWARDED = b"x-tokenyard-forwarded"
# The value of that where it is to be answered here, whatever comes.
STAYS = b"1"
# The value where whoever asks could ask another node, too: one that runs nothing of it says so, by a 421.
HAS_OTHERS = b"others"
# Of one that all nodes have sent back: it waits where it is asked for, until that knows better.
LAST = b"last"
CHOSEN_VERSION = b"x-tokenyard-version"
PROOF = b"x-tokenyard-peer"
COUNTED = b"x-tokenyard-counted"
RECORD = b"x-tokenyard-record"

REQUEST_ID = b"x-request-id"
_STICKY_HEADERS = (WORKFLOW_ID, b"x-session-id")
_TAG_HEADERS = frozenset((OBJECTIVE, FAIRNESS, WORKFLOW_ID, WORKFLOW_STEP))
_OF_THE_MESSAGE = {b"x-session-id", REQUEST_ID, b"traceparent", b"content-type"}
_NOTED = TERMS_HEADERS | _OF_THE_MESSAGE | {DEGRADE, FORWARDED, CHOSEN_VERSION, PROOF, COUNTED, RECORD}
# https://www.w3.org/TR/trace-context/: version, trace id, parent id, flags; none of the ids all zeros.
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_MADE_ID = re.compile(rb"(?=.*[1-9a-f])[0-9a-f]{16}(?=.*[1-9a-f])[0-9a-f]{16}")
_TAG_FIELDS = ("service_tier", "safety_identifier", "prompt_cache_key")


def note_headers(headers: Headers) -> dict[bytes, bytes]:
    """Those that are read here, by name."""
    return {name: value for name, value in headers if name in _NOTED}


def read_tags(noted: dict[bytes, bytes], found: Peek) -> dict[str, str]:
    """Under the names that the client used; its metadata comes first, and gives way where a name is taken."""
    has_fields = found.metadata or found.service_tier or found.safety_identifier or found.prompt_cache_key
    if not has_fields and _TAG_HEADERS.isdisjoint(noted):
        return NO_TAGS  # as most requests
    tags = _metadata_tags(found.metadata) if found.metadata is not None else {}
    for name in _TAG_HEADERS:
        if name in noted:
            tags[name.decode()] = noted[name].decode("utf-8", "replace")[:MAX_VALUE]
    for field in _TAG_FIELDS:
        value = getattr(found, field)
        if value and isinstance(value, str):
            tags[field] = value[:MAX_VALUE]
    return tags


def note_who(settlement: Settlement, noted: dict[bytes, bytes], found: Peek) -> None:
    settlement.is_stream = wants_stream(found)
    end_user = end_user_of(found)
    if end_user:
        settlement.end_user = end_user
    tags = read_tags(noted, found)
    if tags:
        settlement.tags = tags | settlement.tags if settlement.tags else tags
    if settlement.tags:
        settlement.workflow_id = settlement.tags.get("x-workflow-id", "")[:MAX_WORKFLOW_ID]


def _metadata_tags(metadata: object) -> dict[str, str]:
    """What is no map of strings is the engine's to refuse."""
    if not isinstance(metadata, dict):
        return {}
    texts = [(name, value) for name, value in metadata.items() if isinstance(value, str)]
    return {name[:MAX_NAME]: value[:MAX_VALUE] for name, value in texts[:MAX_METADATA]}


def sticky_id(noted: Mapping[bytes, bytes], found: Peek) -> str:
    """What must stay on one version: a workflow or session before a user; nothing without a name."""
    for name in _STICKY_HEADERS:
        value = noted.get(name)
        if value:
            return value.decode("utf-8", "replace")
    return first_text(found.prompt_cache_key, found.safety_identifier, found.user)


def trace_parent(noted: dict[bytes, bytes], request_id: str, random_bits: Callable[[int], int]) -> bytes:
    """The client's own, or a new one, marked as sampled so that the engine decides as if it were asked directly.

    A request id that we made is the new trace's id, so that one finds the other.
    """
    given = noted.get(b"traceparent")
    if given is not None and _TRACEPARENT.fullmatch(given):
        return given
    trace_id = request_id.encode()
    if not _MADE_ID.fullmatch(trace_id):
        trace_id = b"%032x" % (random_bits(128) | 1 << 64 | 1)
    return new_trace(trace_id)


def new_trace(trace_id: bytes) -> bytes:
    return b"00-" + trace_id + b"-" + trace_id[16:] + b"-01"
