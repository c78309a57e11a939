"""A made-up hour of trouble: failures, engines that hang, endpoints that come and go. Seeded, so always the same."""

from random import Random

from msgspec import structs

from workers.scheduling.endpoint_spec import DEFAULT_SPEC
from workers.scheduling.interface import Cancel, EngineReport, KVChange, Reject, Request, Suspect

VERSIONS = {"a1": "va", "a2": "va", "b1": "vb"}
KNOWN = structs.replace(DEFAULT_SPEC, is_speed_known=True)


class Trouble:
    """Drives whatever has the events of a scheduler."""

    def __init__(self, core, seed=1):
        self._core = core
        self._rng = Random(seed)  # noqa: S311 - seeded
        self._now = 0.0
        self._number = 0
        self._running = {}
        self._here = {}

    def run(self, events):
        actions = [self._arrive] * 8 + [self._end] * 4 + [self._fail] * 2 + [self._report, self._update, self._lose]
        for name in VERSIONS:
            self._update(name)
        for _ in range(events):
            self._now += self._rng.expovariate(10.0)
            self._rng.choice(actions)()
            self._obey(self._core.tick(self._now))

    def _obey(self, commands):
        for command in commands or []:
            if isinstance(command, Suspect):
                for number in command.request_ids:
                    self._fail(number)
            elif isinstance(command, Cancel):
                self._running.pop(command.request_id)
                self._obey(self._core.request_withdrawn(command.request_id, self._now))
            elif not isinstance(command, Reject):
                self._running[command.request_id] = command.endpoint_id

    def _arrive(self):
        rng = self._rng
        self._number += 1
        self._obey(
            self._core.request_arrived(
                Request(
                    request_id=self._number, version_id=rng.choice(["va", "vb"]), tenant_id=rng.choice("xyz"),
                    rank=rng.randrange(3), max_queued_of_tenant=50, arrived_at=self._now,
                    prompt_tokens=rng.choice([50, 2000, 60_000]), predicted_output_tokens=rng.lognormvariate(4, 1),
                    prefix_blocks=tuple(range(rng.randrange(5))), block_tokens=16,
                    ttft_slo_s=rng.choice([None, 0.2, 2.0]), workflow_id=rng.choice(["", "w1", "w2"]),
                    alternatives=rng.choice([(), ("vb",)]),
                ),
                self._now,
            )
        )  # fmt: skip

    def _end(self):
        if self._running:
            number = self._rng.choice(list(self._running))
            del self._running[number]
            self._obey(self._core.first_token(number, self._now))
            self._obey(self._core.request_finished(number, self._now, self._rng.randrange(1, 300)))

    def _fail(self, number=None):
        number = self._rng.choice(list(self._running)) if number is None and self._running else number
        if number in self._running:
            del self._running[number]
            retry_after_s = self._rng.choice([None, None, 2.0])
            self._obey(self._core.request_failed(number, self._now, may_retry=True, retry_after_s=retry_after_s))

    def _report(self):
        if self._here:
            name = self._rng.choice(list(self._here))
            report = EngineReport(
                taken_at=self._now,
                running=1,
                waiting=0,
                kv_usage=self._rng.random(),
                steps_total=float(len(self._here)),
            )
            self._obey(self._core.endpoint_reported(name, report, self._now))
            changes = [KVChange(stored=(0, 1, 2)), KVChange(removed=(self._rng.randrange(3),))]
            self._obey(self._core.prefixes_changed(name, changes, self._now))

    def _update(self, name=None):
        name = name or self._rng.choice(list(VERSIONS))
        self._here[name] = None
        is_draining = self._rng.random() < 0.1
        self._obey(
            self._core.endpoint_updated(name, VERSIONS[name], 20, self._now, is_draining=is_draining, spec=KNOWN)
        )

    def _lose(self):
        if self._here and self._rng.random() < 0.2:
            name = self._rng.choice(list(self._here))
            del self._here[name]
            self._core.endpoint_lost(name, self._now)
