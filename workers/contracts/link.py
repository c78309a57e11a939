"""Frames of the agent's websocket, `GET /ws/agent/` with `Authorization: Bearer <agent token>`; each one JSON text.

    agent → control plane          control plane → agent
    Hello      once, first         Welcome      answers Hello
    Telemetry  each second         SnapshotPush when the agent's generation is not the newest
    UsageBatch until acknowledged  DesiredPush  likewise
                                   UsageAck     after the transaction that stored the batch
    PromptBatch until acknowledged PromptAck    likewise

Each push is repeated until telemetry shows that it has arrived, so losing any frame costs at most the next second.
Either end may be newer than the other: fields and frames that it does not know are passed over.
"""

from typing import Any, get_args

from msgspec import DecodeError, Raw, Struct, field
from msgspec.json import Decoder

from workers.contracts.desired import DesiredState
from workers.contracts.prompts import SealedPrompt
from workers.contracts.telemetry import NodeTelemetry
from workers.contracts.usage import UsageRecord

PROTOCOL_VERSION = 1
CLOSE_UNAUTHORISED = 4401
CLOSE_BAD_FRAME = 4400
CLOSE_REPLACED = 4409
CLOSE_REMOVED = 4410  # an operator has removed the node; an unknown token alone does not say so


class Hello(Struct, frozen=True, kw_only=True, tag="hello"):
    """`inventory` is what the node has: cpu_count, memory_bytes, hostname, gpus, engines that can run here."""

    protocol: int = PROTOCOL_VERSION
    node_id: str
    boot_id: str
    agent_version: str
    gateway_url: str = ""
    inventory: dict[str, Any] = field(default_factory=dict)


class Telemetry(Struct, frozen=True, kw_only=True, tag="telemetry"):
    body: NodeTelemetry


class UsageBatch(Struct, frozen=True, kw_only=True, tag="usage"):
    """`batch_id` is the agent's own; the acknowledgement returns it.

    `damaged` are lines of the spool that are no records: they go into the control plane's quarantine.
    """

    batch_id: str
    records: list[UsageRecord]
    damaged: list[str] = field(default_factory=list)


class PromptBatch(Struct, frozen=True, kw_only=True, tag="prompts"):
    batch_id: str
    prompts: list[SealedPrompt]


class LooseUsageBatch(Struct, frozen=True, kw_only=True, tag="usage"):
    """The same frame as the control plane reads it where a record is damaged: each record by itself, unread."""

    batch_id: str
    records: list[Raw]
    damaged: list[str] = field(default_factory=list)


class Welcome(Struct, frozen=True, kw_only=True, tag="welcome"):
    """`node_id` is the id that the token belongs to; `snapshot_public_key` is base64 of 32 raw Ed25519 bytes.

    `limits_url` is where gateways share their limits, with the password; "" where each keeps its own.
    """

    node_id: str
    node_name: str
    snapshot_public_key: str
    server_time: float
    limits_url: str = ""


class SnapshotPush(Struct, frozen=True, kw_only=True, tag="snapshot"):
    """`envelope` is a signed envelope (signing.py), passed on byte for byte."""

    generation: int
    envelope: Raw


class DesiredPush(Struct, frozen=True, kw_only=True, tag="desired"):
    body: DesiredState


class UsageAck(Struct, frozen=True, kw_only=True, tag="usage_ack"):
    """`stored` and `duplicate` add up to the batch's records and damaged lines."""

    batch_id: str
    stored: int
    duplicate: int


class PromptAck(Struct, frozen=True, kw_only=True, tag="prompts_ack"):
    batch_id: str


FromAgent = Hello | Telemetry | UsageBatch | PromptBatch
ToAgent = Welcome | SnapshotPush | DesiredPush | UsageAck | PromptAck


class _AnyFrame(Struct):
    type: str


def is_unknown(text: str | bytes) -> bool:
    """A frame of a kind that this end has never heard of; False for what is no frame at all."""
    try:
        return _decode_any(text).type not in _KNOWN
    except (DecodeError, RecursionError):
        return False


_decode_any = Decoder(_AnyFrame).decode
_KNOWN = {str(each.__struct_config__.tag) for each in (*get_args(FromAgent), *get_args(ToAgent))}
decode_from_agent = Decoder(FromAgent).decode
decode_loose_usage = Decoder(LooseUsageBatch).decode
decode_to_agent = Decoder(ToAgent).decode
