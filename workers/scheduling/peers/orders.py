"""Who is next in a gateway's queue."""

from workers.scheduling.interface import Request

INPUT_PRICE, OUTPUT_PRICE = 1.0, 2.0


class FirstCome:
    def key(self, request: Request) -> tuple[float, ...]:
        return (request.arrived_at,)

    def served(self, request: Request) -> None:
        del request

    def is_dynamic(self) -> bool:
        return False


class StrictPriority(FirstCome):
    def key(self, request: Request) -> tuple[float, ...]:
        return (request.rank, request.arrived_at)


class EarliestDeadline(FirstCome):
    def key(self, request: Request) -> tuple[float, ...]:
        return (deadline_at(request),)


class ShortestFirst(FirstCome):
    """By predicted work: prompt tokens once, output tokens twice."""

    def key(self, request: Request) -> tuple[float, ...]:
        return (_work(request),)


class TokenClock(FirstCome):
    """VTC: the tenant that has got the least service is next; a newcomer starts at the floor."""

    def __init__(self) -> None:
        self._clocks: dict[str, float] = {}
        self._floor = 0.0

    def key(self, request: Request) -> tuple[float, ...]:
        clock = max(self._clocks.get(request.tenant_id, 0.0), self._floor)
        self._clocks[request.tenant_id] = clock
        return (clock, request.arrived_at)

    def served(self, request: Request) -> None:
        clock = self._clocks[request.tenant_id]
        self._floor = max(self._floor, clock)
        self._clocks[request.tenant_id] = clock + _work(request)

    def is_dynamic(self) -> bool:
        return True


def deadline_at(request: Request) -> float:
    if request.deadline_at is not None:
        return request.deadline_at
    return request.arrived_at + (request.ttft_slo_s if request.ttft_slo_s is not None else 60.0)


def _work(request: Request) -> float:
    return INPUT_PRICE * request.prompt_tokens + OUTPUT_PRICE * request.predicted_output_tokens
