"""Writes workers/contracts/data/vllm_options.json: run by the Python of vLLM's environment, after its version changed.

PYTHONPATH=<environment>/metadata <environment>/bin/python deploy/vllm_options.py
"""

import argparse
import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "workers/contracts/data/vllm_options.json"
_MANY = {"+", "*"}
_LONGEST_CHOICES = 60


def describe(action: argparse.Action) -> dict[str, Any]:
    is_list = action.nargs in _MANY or type(action).__name__ == "_AppendAction"
    described: dict[str, Any] = {"kind": "flag" if action.nargs == 0 else "list" if is_list else "value"}
    if action.type in {int, float}:
        described["type"] = action.type.__name__
    if action.choices and len(list(action.choices)) < _LONGEST_CHOICES:
        described["choices"] = [str(choice) for choice in action.choices]
    return described


def main() -> None:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser  # noqa: PLC0415 - in that environment only
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415 - likewise

    actions = [action for action in make_arg_parser(FlexibleArgumentParser())._actions if action.dest != "help"]  # noqa: SLF001 - argparse has no other way
    names = {name: describe(action) for action in actions for name in action.option_strings if name.startswith("--")}
    TARGET.write_text(json.dumps(names, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
