"""What happened to each request and why, for those who ask: every step with its time, every choice with its reasons."""

from collections import OrderedDict, deque
from collections.abc import Iterator

from msgspec import Struct

from workers.scheduling.decision import Draft
from workers.scheduling.interface import Request

MAX_TRAILS = 2000
MAX_STEPS = 32
MAX_DECISIONS = 8

Step = tuple[str, float, str]


class Trail(Struct, eq=False):
    """`steps` are (what, when, detail): the endpoint of what was sent, the code of what was refused.

    Of each choice only a draft is kept: few are ever asked for.
    """

    label: str
    tenant_id: str
    service_class: str
    request: Request
    steps: list[Step]
    drafts: list[Draft] = []
    is_over: bool = False

    def add(self, what: str, at: float, detail: str = "") -> None:
        if len(self.steps) < MAX_STEPS:
            self.steps.append((what, at, detail))

    def decide(self, draft: Draft) -> None:
        if len(self.drafts) < MAX_DECISIONS:
            self.drafts.append(draft)


class Trails:
    """The newest MAX_TRAILS requests by the id that clients know, and those that have ended since the last look."""

    def __init__(self) -> None:
        self._by_label: OrderedDict[str, Trail] = OrderedDict()
        self._ended: deque[Trail] = deque(maxlen=MAX_TRAILS)

    def open(self, trail: Trail) -> None:
        self._by_label[trail.label] = trail
        if len(self._by_label) > MAX_TRAILS:
            self._by_label.popitem(last=False)

    def close(self, trail: Trail) -> None:
        trail.is_over = True
        self._ended.append(trail)

    def find(self, label: str) -> Trail | None:
        return self._by_label.get(label)

    def take_ended(self) -> Iterator[Trail]:
        while self._ended:
            yield self._ended.popleft()
