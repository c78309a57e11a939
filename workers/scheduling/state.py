"""What a scheduler tells of itself, for reports: none of it changes anything but `take_decisions`."""

from workers.scheduling.decision import Decision, Draft
from workers.scheduling.endpoint import EndpointModel
from workers.scheduling.endpoint_spec import EndpointState, LengthState
from workers.scheduling.interface import SchedulerConfig
from workers.scheduling.queues import Queues
from workers.scheduling.tuning import Tuning
from workers.scheduling.workflows import Waste


class SchedulerState:
    def __init__(self, config: SchedulerConfig, tuning: Tuning) -> None:
        self._queues = Queues(config, tuning)
        self._endpoints: dict[str, EndpointModel] = {}

    def queued_by_rank(self) -> dict[int, int]:
        return dict(self._queues.queued.by_rank)

    def queued_total(self) -> int:
        return self._queues.queued.total

    def running_total(self) -> int:
        return len(self._queues.tickets) - self._queues.queued.total

    def is_idle(self, endpoint_id: str) -> bool:
        return not self._endpoints[endpoint_id].running

    def take_decisions(self) -> list[Decision]:
        """Since the last call, the latest `max_decisions`."""
        return [draft.decision() for draft in self.take_drafts()]

    def take_drafts(self) -> list[Draft]:
        """The same for who may never look at them."""
        taken = list(self._queues.drafts)
        self._queues.drafts.clear()
        return taken

    def endpoint_states(self, now: float) -> list[EndpointState]:
        return [_state_of(endpoint, now) for endpoint in self._endpoints.values()]

    def length_states(self) -> list[LengthState]:
        return self._queues.lengths.states()

    def workflow_waste(self) -> Waste:
        return self._queues.workflows.waste


def _state_of(endpoint: EndpointModel, now: float) -> EndpointState:
    return EndpointState(
        endpoint_id=endpoint.endpoint_id,
        version_id=endpoint.version_id,
        running=len(endpoint.running),
        prefilling=len(endpoint.prefilling),
        warmth=endpoint.warmth,
        is_draining=endpoint.is_draining,
        breaker=endpoint.breaker.state(now),
        is_stalled=endpoint.watchdog.is_stalled,
        silent_s=endpoint.watchdog.silent_s(now) if endpoint.running else None,
        kv_usage=endpoint.kv_used(now) / endpoint.kv_capacity,
        report_age_s=endpoint.said.age_s(now),
        prefill_tokens_per_s=1 / endpoint.prefill_s_per_token if endpoint.prefill_speed.is_learned else None,
        prefill_error=endpoint.prefill_speed.deviation,
        prefill_observations=endpoint.prefill_speed.observations,
        step_s=endpoint.pace.step_s,
        step_error=endpoint.pace.deviation,
        step_observations=endpoint.pace.observations,
    )
