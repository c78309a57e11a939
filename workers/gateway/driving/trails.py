"""What happened to each request and why, for those who ask: every step with its time, every choice with its reasons."""

from collections import deque
from collections.abc import Iterator
from itertools import chain

from workers.contracts.settlement import Settlement
from workers.scheduling.decision import Draft
from workers.scheduling.interface import Request

MAX_TRAILS = 2000
MAX_STEPS = 32
MAX_DECISIONS = 8
# A trail of that many steps that ended well went straight through: arrived, sent, first token, completed.
PLAIN_STEPS = 4
# What was asked for wrongly can be as much as anybody likes to ask.
PLAIN_ENDS = frozenset(("completed", "rejected"))
# Of plain ones the newest stand for the others.
MAX_PLAIN_ENDED = 64

Step = tuple[str, float, str]


class Trail:
    """`steps` are (what, when, detail): the endpoint of what was sent, the code of what was refused.

    Of each choice only a draft is kept: few are ever asked for.
    """

    __slots__ = ("_course", "drafts", "is_over", "label", "request", "service_class", "tenant_id")

    def __init__(self, label: str, tenant_id: str, service_class: str, request: Request, began_at: float) -> None:
        self.label = label
        self.tenant_id = tenant_id
        self.service_class = service_class
        self.request = request
        # What, when and the detail of each step, one after the other: a tuple for each would cost more than it is read.
        self._course: list[str | float] = ["arrived", began_at, ""]
        self.drafts: list[Draft] = []
        self.is_over = False

    @property
    def is_plain(self) -> bool:
        return len(self._course) <= 3 * PLAIN_STEPS and self._course[-3] in PLAIN_ENDS

    @property
    def was_cancelled(self) -> bool:
        return self._course[-3] == "cancelled"

    @property
    def steps(self) -> list[Step]:
        course = list(self._course)
        return [(str(course[at]), float(course[at + 1]), str(course[at + 2])) for at in range(0, len(course), 3)]

    def add(self, what: str, at: float, detail: str = "") -> None:
        course = self._course
        if len(course) < 3 * MAX_STEPS:
            course.append(what)
            course.append(at)
            course.append(detail)

    def decide(self, draft: Draft) -> None:
        if len(self.drafts) < MAX_DECISIONS:
            self.drafts.append(draft)


class Trails:
    """The newest MAX_TRAILS requests, and those that have ended since the last look: of plain ones only the newest."""

    def __init__(self) -> None:
        self._newest: deque[Trail] = deque(maxlen=MAX_TRAILS)
        self._ended: deque[Trail] = deque(maxlen=MAX_TRAILS)
        self._ended_plainly: deque[Trail] = deque(maxlen=MAX_PLAIN_ENDED)

    def open(self, trail: Trail) -> None:
        self._newest.append(trail)

    def close(self, trail: Trail) -> None:
        trail.is_over = True
        if trail.is_plain:
            self._ended_plainly.append(trail)
        else:
            self._ended.append(trail)

    def turned_away(self, settlement: Settlement, request: Request, outcome: str, code: str, at: float) -> None:
        """One that never came into the scheduler's hands."""
        label, tenant_id, service_class = settlement.request_id, settlement.tenant_id, settlement.service_class
        trail = Trail(label, tenant_id, service_class, request, settlement.arrived_at)
        trail.add(outcome, at, code)
        self.open(trail)
        self.close(trail)

    def find(self, label: str) -> Trail | None:
        """By the id that clients know. The newest, if a client gave one to several."""
        return next((trail for trail in reversed(self._newest) if trail.label == label), None)

    def take_ended(self) -> Iterator[Trail]:
        """Those that are worth telling first, each kind in its order."""
        ended, self._ended = self._ended, deque(maxlen=MAX_TRAILS)
        plain, self._ended_plainly = self._ended_plainly, deque(maxlen=MAX_PLAIN_ENDED)
        return chain(ended, plain)
