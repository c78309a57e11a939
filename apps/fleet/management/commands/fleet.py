"""`manage.py fleet simulate --nodes 1000`: light agents against the real control plane, on this machine."""

import asyncio
from argparse import ArgumentParser
from random import Random
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.utils import timezone

from apps.common.actors import SYSTEM
from apps.fleet.models import Node
from apps.fleet.services.nodes import join_node, reissue_agent_token, remove_node, set_cordon
from workers.simulator.fleet import Counts, NodeAccount, simulate

PREFIX = "sim-"
TOLD_EACH_S = 5.0


class Command(BaseCommand):
    help = "Light agents that join, report and pretend to run what they are told to; they leave the fleet at the end."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=["simulate"])
        parser.add_argument("--nodes", type=int, default=10)
        parser.add_argument("--gpus", type=int, default=8, help="on each node")
        parser.add_argument("--seconds", type=float, default=60.0)
        parser.add_argument("--seed", type=int, default=1)

    def handle(self, **options: Any) -> None:
        accounts = [_join(number) for number in range(options["nodes"])]
        self.stdout.write(f"{len(accounts)} nodes have joined")
        try:
            asyncio.run(self._run(accounts, options))
        finally:
            left = _leave()
            self.stdout.write(f"{left} nodes left; those with replicas stay, cordoned")

    async def _run(self, accounts: list[NodeAccount], options: dict[str, Any]) -> None:
        counts = Counts()
        telling = asyncio.create_task(self._tell(counts))
        await simulate(
            accounts,
            url=f"{settings.WEB_URL.replace('http', 'ws', 1)}/ws/agent/",
            gpu_count=options["gpus"],
            seconds=options["seconds"],
            counts=counts,
            random=Random(options["seed"]),  # noqa: S311 - the same fleet each time
        )
        telling.cancel()

    async def _tell(self, counts: Counts) -> None:
        while True:
            await asyncio.sleep(TOLD_EACH_S)
            self.stdout.write(
                f"linked {counts.linked}, frames sent {counts.frames_sent}, desired states received "
                f"{counts.desired_received}, links lost {counts.links_lost}, replicas ready {counts.replicas_ready}"
            )


def _join(number: int) -> NodeAccount:
    """A node of a run that was cut off is taken up again."""
    name = f"{PREFIX}{number:05}"
    node, now = Node.objects.filter(name=name).first(), timezone.now()
    if node is None:
        node, token = join_node(actor=SYSTEM, name=name, now=now)
        return NodeAccount(str(node.pk), token)
    set_cordon(actor=SYSTEM, node=node, is_cordoned=False, now=now)
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
