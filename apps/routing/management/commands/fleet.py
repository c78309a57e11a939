"""`manage.py fleet simulate --nodes 1000`: light agents against the real control plane, on this machine."""

import asyncio
import time
from argparse import ArgumentParser
from random import Random
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.management.base import BaseCommand
from django.utils import timezone

from apps.common.actors import SYSTEM
from apps.common.rows import every_tenant
from apps.fleet.models import Node
from apps.fleet.services.nodes import join_node, label_node, reissue_agent_token, remove_node, set_cordon
from apps.routing.services.fleet_probe import Probe, delays_of, drain_one, start_probe, stop_probe
from workers.simulator.fleet import Counts, NodeAccount, simulate

PREFIX = "sim-"
LABELS = {"simulated": "yes"}
TOLD_EACH_S = 2.0
PROBED_EACH_S = 1.0
LEAVING_S = 6.0


class Command(BaseCommand):
    help = "Light agents that join, report and pretend to run what they are told to; they leave the fleet at the end."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=["simulate"])
        parser.add_argument("--nodes", type=int, default=10)
        parser.add_argument("--first", type=int, default=0, help="number of the first, where several of these run")
        parser.add_argument("--gpus", type=int, default=8, help="on each node")
        parser.add_argument("--seconds", type=float, default=60.0)
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--keep", action="store_true", help="leaves the nodes in the fleet, for the next run")
        parser.add_argument(
            "--probe",
            action="store_true",
            help="runs a deployment on them and times how soon a drain reaches its agent",
        )

    def handle(self, **options: Any) -> None:
        with every_tenant():
            accounts = [_join(options["first"] + number) for number in range(options["nodes"])]
            self.stdout.write(f"{len(accounts)} nodes have joined")
            try:
                asyncio.run(self._run(accounts, options))
            finally:
                left = 0 if options["keep"] else _leave()
                self.stdout.write(f"{left} nodes left; the others stay")

    async def _run(self, accounts: list[NodeAccount], options: dict[str, Any]) -> None:
        counts, random = Counts(), Random(options["seed"])  # noqa: S311 - the same fleet each time
        others = [asyncio.create_task(self._tell(counts))]
        probe = await sync_to_async(start_probe)(now=timezone.now()) if options["probe"] else None
        if probe:
            others.append(asyncio.create_task(_keep_probing(probe, random, options["seconds"] - LEAVING_S)))
        await simulate(
            accounts,
            url=f"{settings.WEB_URL.replace('http', 'ws', 1)}/ws/agent/",
            gpu_count=options["gpus"],
            seconds=options["seconds"],
            counts=counts,
            random=random,
        )
        for task in others:
            task.cancel()
        if probe:
            self._say(probe, counts)

    async def _tell(self, counts: Counts) -> None:
        while True:
            await asyncio.sleep(TOLD_EACH_S)
            self.stdout.write(
                f"linked {counts.linked}, frames sent {counts.frames_sent}, desired states received "
                f"{counts.desired_received}, links lost {counts.links_lost}, replicas ready {counts.replicas_ready}"
            )

    def _say(self, probe: Probe, counts: Counts) -> None:
        delays = delays_of(probe.asked, counts.drains_seen)
        if not delays:
            self.stdout.write("no drain has reached an agent")
            return
        p50, p99 = (delays[min(len(delays) - 1, int(len(delays) * share))] for share in (0.5, 0.99))
        self.stdout.write(
            f"{len(delays)} of {len(probe.asked)} drains reached their agents: p50 {p50:.2f} s, p99 {p99:.2f} s, "
            f"most {delays[-1]:.2f} s"
        )


async def _keep_probing(probe: Probe, random: Random, seconds: float) -> None:
    """Stops the deployment at the end, while there are still agents to say that its replicas have stopped."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await asyncio.sleep(PROBED_EACH_S)
        await sync_to_async(drain_one)(probe, random=random, now=timezone.now())
    await sync_to_async(stop_probe)(probe, now=timezone.now())


def _join(number: int) -> NodeAccount:
    """A node of a run that was cut off is taken up again."""
    name = f"{PREFIX}{number:05}"
    node, now = Node.objects.filter(name=name).first(), timezone.now()
    if node is None:
        node, token = join_node(actor=SYSTEM, name=name, labels=LABELS, now=now)
        return NodeAccount(str(node.pk), token)
    set_cordon(actor=SYSTEM, node=node, is_cordoned=False, now=now)
    label_node(actor=SYSTEM, node=node, labels=LABELS, now=now)
    return NodeAccount(str(node.pk), reissue_agent_token(actor=SYSTEM, node=node, now=now))


def _leave() -> int:
    left = 0
    for node in Node.objects.filter(name__startswith=PREFIX):
        if node.replicas.exists():
            set_cordon(actor=SYSTEM, node=node, is_cordoned=True, now=timezone.now())
        else:
            remove_node(actor=SYSTEM, node=node, now=timezone.now())
            left += 1
    return left
