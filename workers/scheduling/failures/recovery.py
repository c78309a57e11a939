"""What happens to a request that its endpoint failed, and to the endpoint."""

from collections import OrderedDict

from workers.scheduling.failures.breaker import Breaker
from workers.scheduling.failures.retry_budget import RetryBudgets
from workers.scheduling.interface import RejectCode, RejectReason, SchedulerConfig
from workers.scheduling.ticket import Ticket

MAX_BREAKERS = 1000
Refusal = tuple[RejectCode, RejectReason]


class Recovery:
    """Breakers outlive their endpoints: one that comes and goes keeps its record."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._breakers: OrderedDict[str, Breaker] = OrderedDict()
        self._of_tenants = RetryBudgets(config.retry_share, config.retry_tokens_of_tenant)
        self._of_versions = RetryBudgets(config.retry_share, config.retry_tokens_of_version)

    def breaker_of(self, endpoint_id: str) -> Breaker:
        breaker = self._breakers.pop(endpoint_id, None)
        if breaker is None:
            breaker = Breaker(self._config.suspend_s, self._config.max_suspend_s)
            if len(self._breakers) >= MAX_BREAKERS:
                self._breakers.popitem(last=False)
        self._breakers[endpoint_id] = breaker
        return breaker

    def answered(self, ticket: Ticket) -> None:
        """What is answered earns the right to try some of it again."""
        tokens = ticket.request.prompt_tokens
        self._of_tenants.earn(ticket.request.tenant_id, tokens)
        self._of_versions.earn(ticket.version_id, tokens)

    def try_again(self, ticket: Ticket, now: float) -> Refusal | None:
        """Charges for another attempt, or says why there is none."""
        request = ticket.request
        if ticket.attempts >= self._config.max_attempts:
            return "attempts_exhausted", ""
        if request.deadline_at is not None and request.deadline_at <= now:
            return "cannot_meet_deadline", "deadline_passed"
        tokens = ticket.prompt_tokens
        if not (
            self._of_tenants.may_spend(request.tenant_id, tokens)
            and self._of_versions.may_spend(ticket.version_id, tokens)
        ):
            return "attempts_exhausted", "retry_budget"
        self._of_tenants.spend(request.tenant_id, tokens)
        self._of_versions.spend(ticket.version_id, tokens)
        return None
