"""A gateway's records in the order of their arrival, as its agent sends them: 40 tenants, 800 keys and users."""

import random
from collections.abc import Iterator
from datetime import timedelta

import msgspec

from benchmarks.usage.yard import NOW
from workers.contracts.ids import uuid7
from workers.contracts.link import UsageBatch
from workers.contracts.usage import UsageRecord

BATCH = 1000  # as many as an agent sends at once
TENANTS, KEYS_PER_TENANT, MODELS, VERSIONS = 40, 20, 3, 2


class Source:
    def __init__(self, number: int, count: int, days: float, end_users: int) -> None:
        self._chance = random.Random(number)
        self._number, self._count, self._end_users = number, count, end_users
        self._start_s = (NOW - timedelta(days=days)).timestamp()
        self._step_s = days * 86_400 / count

    def frames(self) -> Iterator[bytes]:
        for first in range(0, self._count, BATCH):
            records = [self._record(at) for at in range(first, min(first + BATCH, self._count))]
            yield msgspec.json.encode(UsageBatch(batch_id=str(first), records=records))

    def _record(self, at: int) -> UsageRecord:
        chance = self._chance
        tenant = min(int(chance.expovariate(0.12)), TENANTS - 1)
        key = tenant * KEYS_PER_TENANT + chance.randrange(KEYS_PER_TENANT)
        model = chance.randrange(MODELS)
        arrived_at = self._start_s + at * self._step_s
        input_tokens = chance.randrange(50, 8000)
        return UsageRecord(
            record_id=uuid7(arrived_at, chance.getrandbits(74)),
            gateway_id=f"gateway-{self._number}",
            boot_id="benchmark",
            sequence=at + 1,
            request_id=f"{chance.getrandbits(128):032x}",
            arrived_at=arrived_at,
            tenant_id=uuid7(1.0, tenant),
            key_id=uuid7(2.0, key),
            user_id=uuid7(3.0, key),
            end_user=f"user-{chance.randrange(self._end_users)}" if chance.random() < 0.5 else "",
            workflow_id=f"w-{at // 20}" if chance.random() < 0.3 else "",
            path="/v1/chat/completions",
            public_model=f"model-{model}",
            version_id=uuid7(4.0, model * VERSIONS + (chance.random() < 0.1)),
            deployment_id=uuid7(5.0, model),
            endpoint_id=uuid7(6.0, self._number),
            node_id=uuid7(7.0, self._number),
            service_class="standard",
            is_stream=True,
            status=200,
            outcome="completed" if chance.random() < 0.97 else "failed",
            usage_source="engine",
            input_tokens=input_tokens,
            cached_input_tokens=chance.randrange(input_tokens),
            output_tokens=chance.randrange(1, 1000),
            queue_ms=1.25,
            ttft_ms=chance.randrange(200_000) / 1000,
            total_ms=chance.randrange(9_000_000) / 1000,
            engine_ms=chance.randrange(8_000_000) / 1000,
            cost_pico_usd=chance.randrange(10**9),
        )
