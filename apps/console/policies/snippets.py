"""Ready commands with the real values filled in. Pure."""

import json
import shlex
from typing import Any

PROMPT = "Say hello in five words."
NO_MODEL = "MODEL"


def snippets_for(*, gateway_url: str, key: str, models: list[str]) -> dict[str, str]:
    """For the first of `models`."""
    values = {"gateway_url": gateway_url, "key": key, "model": next(iter(models), NO_MODEL)}
    return {"curl": chat_curl(**values), "python": chat_python(**values)}


def chat_curl(*, gateway_url: str, key: str, model: str) -> str:
    body = {"model": model, "messages": [{"role": "user", "content": PROMPT}]}
    return _curl("POST", f"{gateway_url}/v1/chat/completions", key, body)


def chat_python(*, gateway_url: str, key: str, model: str) -> str:
    return f"""\
from openai import OpenAI

client = OpenAI(base_url={f"{gateway_url}/v1"!r}, api_key={key!r})
stream = client.chat.completions.create(
    model={model!r},
    messages=[{{"role": "user", "content": {PROMPT!r}}}],
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
"""


def api_call(*, web_url: str, method: str, path: str, body: dict[str, Any] | None = None) -> str:
    """The REST call that does what a form does; the token is the reader's own."""
    return _curl(method, f"{web_url}{path}", "$TOKENYARD_TOKEN", body)


def cli_line(*words: str) -> str:
    """The same on a command line: docs/howto/command-line.md."""
    return shlex.join(["tokenyard", *words])


def apply_line(document: dict[str, Any]) -> str:
    """The same declared; it shows the difference before it does anything. JSON's values are YAML's, too."""
    lines = [f"{name}: {json.dumps(value)}" for name, value in document.items() if value not in (None, "")]
    return "\n".join(["tokenyard apply -f - <<'END'", *lines, "END"])


def _curl(method: str, url: str, bearer: str, body: dict[str, Any] | None) -> str:
    lines = [f"curl -X {method} {shlex.quote(url)}", f'-H "Authorization: Bearer {bearer}"']
    if body is not None:
        lines += ['-H "Content-Type: application/json"', f"-d {shlex.quote(json.dumps(body))}"]
    return " \\\n  ".join(lines)
