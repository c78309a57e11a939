"""Ready commands with the real values filled in. Pure."""

import json
import shlex
from typing import Any

PROMPT = "Say hello in five words."
NO_MODEL = "MODEL"


def snippets_for(*, gateway_url: str, key: str, models: list[str], task: str = "generate") -> dict[str, str]:
    """For the first of `models`, which does `task`."""
    values = {"gateway_url": gateway_url, "key": key, "model": next(iter(models), NO_MODEL)}
    if task == "embed":
        return {"curl": embed_curl(**values), "python": embed_python(**values)}
    return {"curl": chat_curl(**values), "python": chat_python(**values)}


def embed_curl(*, gateway_url: str, key: str, model: str) -> str:
    return _curl("POST", f"{gateway_url}/v1/embeddings", key, {"model": model, "input": [PROMPT]})


def embed_python(*, gateway_url: str, key: str, model: str) -> str:
    return f"""\
from openai import OpenAI

client = OpenAI(base_url={f"{gateway_url}/v1"!r}, api_key={key!r})
answer = client.embeddings.create(model={model!r}, input=[{PROMPT!r}])
print(answer.data[0].embedding[:4])
"""


def batch_python(*, gateway_url: str, key: str) -> str:
    return f"""\
from openai import OpenAI

client = OpenAI(base_url={f"{gateway_url}/v1"!r}, api_key={key!r})
file = client.files.create(file=open("requests.jsonl", "rb"), purpose="batch")
batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
print(batch.id)
"""


def batch_line(*, model: str) -> str:
    """A line of the file that a batch is made of."""
    body = {"model": model, "messages": [{"role": "user", "content": PROMPT}]}
    return json.dumps({"custom_id": "one", "method": "POST", "url": "/v1/chat/completions", "body": body})


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
