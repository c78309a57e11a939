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
        return [endpoint.state(now) for endpoint in self._endpoints.values()]

    def length_states(self) -> list[LengthState]:
        return self._queues.lengths.states()

    def workflow_waste(self) -> Waste:
        return self._queues.workflows.waste
