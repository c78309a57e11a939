"""The scheduler: events in, commands out."""

from workers.scheduling.endpoint import EndpointModel, EndpointSpec
from workers.scheduling.interface import Command, Dispatch, EngineReport, Reject, Request
from workers.scheduling.latency.lengths import LengthModel
from workers.scheduling.pool import Pool, Tuning
from workers.scheduling.ticket import Ticket

TICK_S = 0.02


class Proto:
    def __init__(self, tuning: Tuning, spec: EndpointSpec) -> None:
        self._lengths = LengthModel()
        self.pool = Pool(tuning, self._lengths, 0.0)
        self._spec = spec
        self._endpoints: dict[str, EndpointModel] = {}
        self._tickets: dict[int, Ticket] = {}
        self._n = 0
        self._tick_at = 0.0

    def endpoint_updated(self, endpoint_id, version_id, max_running, now, *, is_draining):
        e = EndpointModel(endpoint_id, version_id, len(self._endpoints), max_running, self._spec)
        self._endpoints[endpoint_id] = e
        self.pool.add_endpoint(e, now)
        return []

    def endpoint_reported(self, endpoint_id, report, now):
        self._endpoints[endpoint_id].reported(report)
        return self._fill(now) if self.pool.waiting else []

    def request_arrived(self, request, now):
        self._n += 1
        t = Ticket(request, self._n)
        t.weight = request.weight or 1.0
        self._tickets[request.request_id] = t
        self.pool.arrive(t, now)
        return self._fill(now)

    def first_token(self, request_id, now):
        t = self._tickets[request_id]
        t.first_token_at = now
        t.endpoint.first_token(t, now)
        return self._fill(now) if self.pool.waiting else []

    def request_finished(self, request_id, now, output_tokens=0):
        t = self._tickets.pop(request_id)
        t.endpoint.ended(t)
        if output_tokens > 8:
            self.pool.pace_s += 0.05 * ((now - t.first_token_at) / (output_tokens - 1) - self.pool.pace_s)
        self._lengths.learn(t.request.tenant_id, t.request.predicted_output_tokens, output_tokens)
        return self._fill(now) if self.pool.waiting else []

    def tick(self, now):
        self._tick_at = now + TICK_S
        out = []
        for t in self.pool.expire(now):
            self.pool.withdraw(t)
            del self._tickets[t.request.request_id]
            out.append(Reject(t.request.request_id, "cannot_meet_deadline", 1))
        return out + self._fill(now)

    def next_deadline(self):
        return self._tick_at if self.pool.waiting else None

    def _fill(self, now):
        return [Dispatch(t.request.request_id, e.endpoint_id) for t, e in self.pool.fill(now)]
