"""What is known of one request until it becomes a usage record (workers/contracts/recording.py)."""

from msgspec import Struct

from workers.contracts.snapshot import Price
from workers.contracts.usage import UsageSource

# English text in current tokenizers; only for requests whose engine did not get to say.
BYTES_PER_TOKEN = 4


class Used(Struct, frozen=True, kw_only=True):
    source: UsageSource = "none"
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


NOTHING = Used()


class Origin(Struct, frozen=True, kw_only=True):
    """Which gateway process a record comes from."""

    gateway_id: str
    boot_id: str
    node_id: str


class Settlement(Struct, kw_only=True, omit_defaults=True):
    """All that a record needs of one request; times in seconds of the same monotonic clock, but for `arrived_unix_s`.

    `record_id` and `arrived_unix_s` are fixed before anything is sent to an engine, so that a record that is written
    twice is known by them. `on_engine_since` is None while no engine has it; `spent_engine_s` is the time on engines
    of the attempts before. `is_kept`: the record goes to who keeps the answer, by its id, and is written when that is
    safe; so it stands in no journal. `awaits_delivery`: another gateway asked, and it counts when that has heard of the
    answer. `was_let_in` by its limits: it counts as a request once, wherever it goes on. `expected_input_tokens`,
    `output_limit` and `pace_tokens_per_s` are for an estimate.
    """

    request_id: str
    arrived_at: float
    tenant_id: str
    key_id: str
    user_id: str
    service_class: str
    path: str
    record_id: str = ""
    is_kept: bool = False
    awaits_delivery: bool = False
    was_let_in: bool = False
    arrived_unix_s: float = 0.0
    end_user: str = ""
    public_model: str = ""
    version_id: str = ""
    deployment_id: str = ""
    endpoint_id: str = ""
    is_stream: bool = False
    is_metered: bool = True
    price: Price = Price()
    dispatched_at: float | None = None
    on_engine_since: float | None = None
    first_token_at: float | None = None
    attempts: int = 0
    tags: dict[str, str] = {}
    workflow_id: str = ""
    wasted_tokens: int = 0
    spent_engine_s: float = 0.0
    expected_input_tokens: int = 0
    output_limit: int | None = None
    pace_tokens_per_s: float = 0.0

    def estimate(self, output_tokens: int, input_tokens: int | None = None) -> Used:
        """`input_tokens` None is unknown: it is as many as were expected."""
        if self.output_limit is not None:
            output_tokens = min(output_tokens, self.output_limit)
        if input_tokens is None:
            input_tokens = self.expected_input_tokens
        return Used(source="estimated", input_tokens=input_tokens, output_tokens=max(output_tokens, 0))
