"""On what terms a request is scheduled: its class, limits and expected size, from headers, policy and what was learned.

docs/howto/call-the-gateway.md says to clients what each header does.
"""

from collections.abc import Mapping

from workers.contracts.snapshot import Price, TenantPolicy, Version
from workers.gateway.attempts.degrading import Alternative, alternatives_for
from workers.gateway.driving.driver import Driver
from workers.gateway.driving.estimates import UNMEASURED, Prompt, prompt_text
from workers.gateway.driving.prefixes import BLOCK_BYTES, MIN_BYTES, number_blocks
from workers.gateway.driving.workflows import read_workflow
from workers.gateway.http.numbers import read_number
from workers.gateway.payload.bodies import Peek
from workers.gateway.payload.labels import DEADLINE, FAIRNESS, OBJECTIVE, SLO_TPOT, SLO_TTFT, TERMS_HEADERS
from workers.gateway.payload.peeks import choices_of, output_limit_of, prompts_of
from workers.gateway.snapshots.directory import Directory, Grant
from workers.scheduling.interface import Request
from workers.scheduling.ranks import by_rank
from workers.scheduling.tuning import CLASS_WEIGHTS

MAX_DEADLINE_MS = 7 * 24 * 3600 * 1000
# Of `service_tier: priority`: what it is worth, and how much sooner it is due, than the tenant's other requests.
PRIORITY_WEIGHT = 2.0
PRIORITY_TTFT = 0.5

Noted = Mapping[bytes, bytes]


class Caller:
    """Who asks, with which headers, and where that leads."""

    __slots__ = ("arrived_at", "directory", "grant", "noted", "version")

    def __init__(self, grant: Grant, noted: Noted, directory: Directory, version: Version, arrived_at: float) -> None:
        self.grant = grant
        self.noted = noted
        self.directory = directory
        self.version = version
        self.arrived_at = arrived_at


class Terms:
    """From `prompt` and what was used it is learned how many tokens prompts have.

    `version_id` and `price` are of the version that answers: the request's own until it is degraded.
    """

    __slots__ = (
        "alternatives",
        "choices",
        "fairness_id",
        "output_limit",
        "price",
        "prompt",
        "request",
        "tenant",
        "version_id",
    )

    def __init__(
        self,
        request: Request,
        tenant: TenantPolicy,
        price: Price,
        version_id: str,
        *,
        choices: int = 1,
        prompt: Prompt = UNMEASURED,
        output_limit: int | None = None,
        alternatives: tuple[Alternative, ...] = (),
    ) -> None:
        self.request = request
        self.tenant = tenant
        self.price = price
        self.version_id = version_id
        self.choices = choices
        self.output_limit = output_limit
        self.fairness_id = b""
        self.prompt = prompt
        self.alternatives = alternatives

    def degrade(self, version_id: str) -> str:
        """Returns the name of the alternative that answers from now on."""
        chosen = next(other for other in self.alternatives if other.version.version_id == version_id)
        self.version_id, self.price = version_id, chosen.price
        return chosen.name


def read_terms(driver: Driver, caller: Caller, found: Peek, body_bytes: int, limit_fields: tuple[str, ...]) -> Terms:
    """Raises a 400 that names the header when a value is unsound, and an error when the workflow is past its limits."""
    grant, version_id = caller.grant, caller.version.version_id
    choices, limit = choices_of(found) * prompts_of(found), _output_limit(caller, found, limit_fields)
    text = prompt_text(found)
    prompt = driver.estimates.measure(version_id, found, text, body_bytes)
    request = Request(
        request_id=0,
        version_id=version_id,
        tenant_id=grant.tenant_id,
        rank=grant.rank,
        max_queued_of_tenant=grant.max_queued_requests,
        arrived_at=caller.arrived_at,
        prompt_tokens=prompt.tokens,
        predicted_output_tokens=_expected_output(driver, caller, limit, choices, prompt.tokens),
        ttft_slo_s=grant.ttft_slo_s,
        tpot_slo_s=grant.tpot_slo_s,
        tenant_weight=grant.weight,
    )
    if found.service_tier is not None:
        _apply_tier(request, found.service_tier, caller.directory.lowest_rank)
    if text and driver.has_choice(version_id) and body_bytes >= MIN_BYTES:
        seed = f"{caller.version.served_name}\0{found.cache_salt or ''}".encode()
        request.prefix_blocks = number_blocks(text, seed)
        request.block_tokens = max(1, round(BLOCK_BYTES * prompt.tokens / sum(map(len, text))))
    terms = Terms(
        request,
        grant.tenant,
        caller.version.price,
        version_id,
        choices=choices,
        prompt=prompt,
        output_limit=limit,
    )
    if not TERMS_HEADERS.isdisjoint(caller.noted):
        _apply_headers(terms, driver, caller)
    offered = caller.directory.alternatives.get((found.model, version_id)) if caller.directory.alternatives else None
    if offered:
        _apply_alternatives(terms, caller, found, offered, limit or 0)
    return terms


def _output_limit(caller: Caller, found: Peek, fields: tuple[str, ...]) -> int | None:
    """No answer is longer than the model's context, whatever the client would take."""
    limit, context = output_limit_of(found, fields), caller.version.max_context_tokens
    return limit if limit is None or context is None else min(limit, context)


def _apply_alternatives(terms: Terms, caller: Caller, found: Peek, offered: list[Version], output_tokens: int) -> None:
    request = terms.request
    tokens = request.prompt_tokens + output_tokens
    terms.alternatives = alternatives_for(offered, terms.tenant, caller.noted, found, tokens)
    request.alternatives = tuple([other.version.version_id for other in terms.alternatives])


def _expected_output(driver: Driver, caller: Caller, limit: int | None, choices: int, prompt_tokens: int) -> float:
    version = caller.version
    if version.task != "generate":
        return 1.0
    if version.max_context_tokens is not None:
        room = max(1, version.max_context_tokens - prompt_tokens)
        limit = room if limit is None else min(limit, room)
    return choices * driver.estimates.output_tokens(caller.grant.tenant_id, version.version_id, limit)


def _apply_tier(request: Request, tier: object, lowest_rank: int) -> None:
    """`flex` waits behind every class and is never refused for an SLO; `priority` goes first within its own tenant."""
    if tier == "flex":
        request.rank = max(request.rank, lowest_rank)
        request.ttft_slo_s = request.tpot_slo_s = None
    elif tier == "priority":
        request.weight = PRIORITY_WEIGHT * by_rank(CLASS_WEIGHTS, request.rank)
        if request.ttft_slo_s is not None:
            request.ttft_slo_s *= PRIORITY_TTFT


def _apply_headers(terms: Terms, driver: Driver, caller: Caller) -> None:
    request, noted = terms.request, caller.noted
    if OBJECTIVE in noted:
        _apply_objective(request, caller.directory.find_rank(noted[OBJECTIVE].decode("utf-8", "replace")))
    if DEADLINE in noted:
        request.deadline_at = caller.arrived_at + read_number(noted, DEADLINE, MAX_DEADLINE_MS) / 1000
    request.ttft_slo_s = _loosened(request.ttft_slo_s, noted, SLO_TTFT)
    request.tpot_slo_s = _loosened(request.tpot_slo_s, noted, SLO_TPOT)
    asked = read_workflow(noted)
    if asked is not None:
        driver.workflows.join(request, asked)
    terms.fairness_id = noted.get(FAIRNESS, b"")


def _apply_objective(request: Request, rank: int | None) -> None:
    """The name of a class that is not above the tenant's own; any other name is a label and nothing more."""
    if rank is not None and rank > request.rank:
        request.rank = rank


def _loosened(limit_s: float | None, noted: Noted, name: bytes) -> float | None:
    """A client may ask for less than it is promised; asking for more would be a way past its neighbours."""
    if name not in noted:
        return limit_s
    asked_s = read_number(noted, name, MAX_DEADLINE_MS) / 1000
    return None if limit_s is None else max(limit_s, asked_s)
