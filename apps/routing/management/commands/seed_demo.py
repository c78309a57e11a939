import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from apps.common.rows import every_tenant
from apps.registry.models import Engine
from apps.routing.services.demo import DemoFile, seed_demo


class Command(BaseCommand):
    help = "Makes the demo's tenants, logins, keys, models, deployments and routes; writes the secrets to a file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--engine", choices=Engine.values, required=True)
        parser.add_argument("--json", type=Path, required=True, help="kept from run to run; mode 0600")

    def handle(self, *, engine: str, json: Path, **_: Any) -> None:
        with every_tenant():
            demo = seed_demo(engine=engine, known=_read(json), now=timezone.now())
        _write(json, msgspec.json.format(msgspec.json.encode(demo)))
        self.stdout.write(f"the demo is seeded; its logins and keys are in {json}")


def _read(file: Path) -> DemoFile:
    if not file.exists():
        return DemoFile()
    try:
        return msgspec.json.decode(file.read_bytes(), type=DemoFile)
    except msgspec.DecodeError as error:
        raise CommandError(f"{file} is not what this command wrote ({error}); move it away and run again") from error


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.new")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(content)
    temporary.replace(file)
