"""What people are shown: the summary when everything is ready, and the table of `make status`. Text in, text out."""

import json
from typing import Any

from deploy.local.configuration import Configuration
from deploy.local.seed import Seed
from deploy.local.state import StackState

_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 86400


def demo_content(configuration: Configuration, seed: Seed, *, engine: str) -> dict[str, Any]:
    """The content of var/demo.json."""
    return {
        "console_url": configuration.web_url,
        "gateway_url": configuration.gateway_url,
        "gateway_admin_url": configuration.admin_url,
        "engine": engine,
        "model": seed.model,
        "embedding_model": seed.embedding_model,
        "logins": seed.logins,
        "tenants": {name: {"api_key": tenant.api_key} for name, tenant in seed.tenants.items()},
    }


def summary(demo: dict[str, Any]) -> str:
    gateway, model = f"{demo['gateway_url']}/v1", demo["model"]
    key = next(iter(demo["tenants"].values()))["api_key"]
    logins = _columns([(one["username"], one["password"], one.get("role", "")) for one in demo["logins"]])
    keys = _columns([(name, tenant["api_key"]) for name, tenant in demo["tenants"].items()])
    messages = [{"role": "user", "content": "Say hello in five words."}]
    return f"""
Tokenyard is ready.

  Console  {demo["console_url"]}   sign in as
{_indented(logins)}

  Gateway  {gateway}   the OpenAI API; model {model} on {demo["engine"]}; one key per tenant
{_indented(keys)}

  curl {gateway}/chat/completions \\
    -H "Authorization: Bearer {key}" \\
    -H "Content-Type: application/json" \\
    -d '{json.dumps({"model": model, "messages": messages})}'

  from openai import OpenAI  # pip install openai
  client = OpenAI(base_url="{gateway}", api_key="{key}")
  answer = client.chat.completions.create(model="{model}", messages={json.dumps(messages)})
  print(answer.choices[0].message.content)
"""


def status_table(state: StackState, *, now: float, urls: list[str]) -> str:
    rows: list[tuple[str, ...]] = [("PROCESS", "PID", "STATE", "UPTIME", "RESTARTS")]
    for one in state.processes:
        is_up = one.pid is not None and one.started_at is not None
        uptime = duration(now - one.started_at) if is_up and one.started_at else "–"
        rows.append((one.name, str(one.pid or "–"), one.state, uptime, str(one.restarts)))
    return "\n".join([*_columns(rows), "", f"stack: {state.phase}", *urls])


def duration(seconds: float) -> str:
    whole = max(0, int(seconds))
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _indented(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)
