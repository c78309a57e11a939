"""Endpoint pickers."""

from workers.scheduling.interface import EndpointState, Request


class LeastOutstanding:
    """The endpoint with the smallest share of its slots in use; ties go to the one registered first."""

    def pick(self, request: Request, candidates: list[EndpointState]) -> EndpointState:
        del request
        return min(candidates, key=_load)


def _load(endpoint: EndpointState) -> tuple[float, int]:
    return endpoint.running / endpoint.max_running, endpoint.order
