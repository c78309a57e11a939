"""The body of a request as a person reads it: who said what. Pure."""

import json
from dataclasses import dataclass
from typing import Any

MAX_PARTS = 200


@dataclass(frozen=True)
class Part:
    """`speaker` is a role, or the name of the field that the text was in."""

    speaker: str
    text: str


def parts_of(body: str) -> list[Part]:
    """Of chat, Responses, Messages, completions and embeddings; a body that cannot be read is one part as it is."""
    try:
        asked = json.loads(body)
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        return [Part("body", body)]
    found = [Part(name, _text(asked[name])) for name in ("instructions", "system", "prompt") if asked.get(name)]
    for name in ("messages", "input"):
        found += _said(asked[name], name) if asked.get(name) else []
    return found[:MAX_PARTS] or [Part("body", body)]


def _said(turns: Any, name: str) -> list[Part]:
    if not isinstance(turns, list):
        return [Part(name, _text(turns))]
    return [_turn(turn, name) for turn in turns]


def _turn(turn: Any, name: str) -> Part:
    if not isinstance(turn, dict):
        return Part(name, _text(turn))
    said = turn.get("content", turn)
    speaker = turn.get("role")
    return Part(speaker if isinstance(speaker, str) else name, _text(said))


def _text(said: Any) -> str:
    """Texts as they are; what is no text is named by its kind."""
    if isinstance(said, str):
        return said
    if isinstance(said, list):
        return "\n".join(_text(each) for each in said)
    if isinstance(said, dict) and isinstance(said.get("text"), str):
        return str(said["text"])
    if isinstance(said, dict) and isinstance(said.get("type"), str):
        return f"[{said['type']}]"
    return json.dumps(said, ensure_ascii=False)
