"""Where the control plane is and with which token to ask it: options, then the environment, then a file.

The file holds tokens, so it is only its owner's; one that others may read is refused.
"""

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from workers.cli.errors import INVALID, NOT_ALLOWED, CLIError

URL, TOKEN, CONTEXT, FILE = "TOKENYARD_URL", "TOKENYARD_TOKEN", "TOKENYARD_CONTEXT", "TOKENYARD_CONFIG"
DEFAULT = "default"
_PRIVATE = 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Place(Struct, frozen=True):
    url: str
    token: str = ""
    ca_file: str = ""


class Contexts(Struct):
    """Control planes by a name of one's own."""

    current: str = DEFAULT
    places: dict[str, Place] = field(default_factory=dict)


def config_file(environ: Any = os.environ) -> Path:
    home = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(environ.get(FILE) or f"{home}/tokenyard/config.json")


def read_contexts(file: Path) -> Contexts:
    if not file.exists():
        return Contexts()
    if file.stat().st_mode & _OTHERS:
        raise CLIError(f"{file} holds tokens and others may read it; run: chmod 600 {file}", NOT_ALLOWED)
    try:
        return msgspec.json.decode(file.read_bytes(), type=Contexts)
    except msgspec.DecodeError as error:
        raise CLIError(f"{file} cannot be read ({error}); log in again, or remove it") from error


def write_contexts(file: Path, contexts: Contexts) -> None:
    """Whole or not at all, and from its first byte only its owner's."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE), "wb") as opened:
            opened.write(msgspec.json.format(msgspec.json.encode(contexts)))
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def find_place(*, url: str, token: str, context: str, environ: Any = os.environ) -> Place:
    contexts = read_contexts(config_file(environ))
    name = context or environ.get(CONTEXT) or contexts.current
    kept = contexts.places.get(name)
    if context and kept is None:
        raise CLIError(f"no context {context!r}; there are: {', '.join(sorted(contexts.places)) or 'none'}")
    kept = kept or Place("")
    found = Place(
        url=(url or environ.get(URL) or kept.url).rstrip("/"),
        token=token or environ.get(TOKEN) or kept.token,
        ca_file=kept.ca_file,
    )
    if not found.url:
        raise CLIError(f"where is the control plane? Run `tokenyard login`, or set {URL} and {TOKEN}", NOT_ALLOWED)
    if not found.url.startswith(("http://", "https://")):
        raise CLIError(f"{found.url!r} is no address; write it as https://HOST", INVALID)
    return found
