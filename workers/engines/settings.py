"""Reads a replica's `engine_args`, each engine's into its own struct."""

from typing import TypeVar

import msgspec

from workers.contracts.desired import ReplicaSpec
from workers.engines.interface import SpecRefusedError

Settings = TypeVar("Settings")


def read_settings(spec: ReplicaSpec, kind: type[Settings]) -> Settings:
    """Raises SpecRefusedError that names the option and what is wrong with it."""
    try:
        return msgspec.convert(spec.engine_args, kind)
    except msgspec.ValidationError as error:
        raise SpecRefusedError(f"engine_args of {spec.engine}: {error}") from error
