"""What Hugging Face's hub, or a mirror, says of a repository: the model's own config.json, the size of its weights.

Nothing is kept of it here; a version is made of what was read. Who is asked is the installation's choice
(TOKENYARD_HUB_URL), never the request's.
"""

import json
import re
from typing import Any

import requests
from django.conf import settings

from apps.common.errors import DomainError, InvalidInputError, NotFoundError
from apps.registry.policies.weights import total_of_index
from apps.registry.services.facts import Facts
from apps.registry.services.stores import checked_source, stored_facts

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[\w][\w./-]{0,99}")
_CONNECT_TIMEOUT_S = 3.0
_READ_TIMEOUT_S = 8.0
_BIGGEST_FILE_BYTES = 32 * 2**20
_MOST_TAGS = 30
_TAG = re.compile(r"[-\w]{1,40}")
_NOT_FOUND, _DENIED = {404, 410}, {401, 403}
_LICENCE = "license:"


class HubError(DomainError):
    """The hub is away, or says something that it should not."""

    code = "hub_unavailable"
    status = 424


def fetch_facts(*, source: str, revision: str = "") -> Facts:
    """Of a repository, or of an object store's prefix, which has one revision: the digest of what lies there now.

    Raises InvalidInputError for what is neither, NotFoundError, and HubError when nobody can be asked.
    """
    stored = checked_source(source)
    if stored is not None:
        return stored_facts(stored)
    if not _REPOSITORY.fullmatch(source):
        raise InvalidInputError("a repository is OWNER/NAME", fields={"source": "is no OWNER/NAME of the hub"})
    branch = _checked_branch(revision)
    hub = _Hub(source, branch)
    about = hub.read(f"api/models/{source}/revision/{branch}?blobs=true")
    config = hub.read(f"{source}/resolve/{branch}/config.json")
    return Facts(
        source=source,
        revision=branch,
        commit=str(about.get("sha", ""))[:100],
        config=config,
        weight_bytes=_weights(hub, about),
        licence=_licence_of(about),
        tags=[tag for tag in _texts(about.get("tags")) if _TAG.fullmatch(tag)][:_MOST_TAGS],
    )


def is_repository(source: str) -> bool:
    return _REPOSITORY.fullmatch(source) is not None


def fetch_adapter_config(*, source: str, revision: str = "") -> tuple[str, dict[str, Any]]:
    """The commit that the revision is now, and adapter_config.json there. Raises as `fetch_facts`."""
    hub = _Hub(source, _checked_branch(revision))
    about = hub.read(f"api/models/{source}/revision/{hub.branch}?blobs=true")
    return str(about.get("sha", ""))[:100], hub.read(f"{source}/resolve/{hub.branch}/adapter_config.json")


def _checked_branch(revision: str) -> str:
    branch = revision or "main"
    if not _REVISION.fullmatch(branch) or ".." in branch:
        raise InvalidInputError("that is no revision", fields={"revision": "is no branch, tag or commit"})
    return branch


class _Hub:
    def __init__(self, source: str, branch: str) -> None:
        self._source = source
        self.branch = branch

    def weight_index(self) -> dict[str, Any]:
        return self.read(f"{self._source}/resolve/{self.branch}/model.safetensors.index.json")

    def read(self, path: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {settings.HUB_TOKEN}"} if settings.HUB_TOKEN else {}
        timeout = (_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S)
        try:
            with requests.get(f"{settings.HUB_URL}/{path}", headers=headers, timeout=timeout, stream=True) as answer:
                self._check(answer)
                return _decoded(answer.raw.read(_BIGGEST_FILE_BYTES + 1, decode_content=True))
        except (requests.RequestException, OSError) as error:
            text = (
                f"{settings.HUB_URL} cannot be reached ({type(error).__name__}); give config and weight_bytes yourself"
            )
            raise HubError(text) from error

    def _check(self, answer: requests.Response) -> None:
        what = f"{self._source} at {self.branch}"
        if answer.status_code in _NOT_FOUND:
            raise NotFoundError(f"the hub knows no {what}", fields={"source": "is not on the hub"})
        if answer.status_code in _DENIED:
            text = f"the hub does not let us read {what}; it may be gated: set TOKENYARD_HUB_TOKEN"
            raise InvalidInputError(text, fields={"source": "may not be read"})
        if not answer.ok:
            raise HubError(f"the hub answered {answer.status_code} for {what}")


def _decoded(body: bytes) -> dict[str, Any]:
    if len(body) > _BIGGEST_FILE_BYTES:
        raise HubError("a file of the hub is too big")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HubError("the hub answered something that is no JSON") from error
    if not isinstance(content, dict):
        raise HubError("the hub answered something that is no object")
    return content


def _weights(hub: _Hub, about: dict[str, Any]) -> int | None:
    """Of the index where there is one, else the sizes of the files of weights."""
    files = {each["rfilename"]: each.get("size") for each in _objects(about.get("siblings")) if "rfilename" in each}
    if "model.safetensors.index.json" in files:
        return total_of_index(hub.weight_index())
    sizes = [size for name, size in files.items() if name.endswith(".safetensors")]
    known = [size for size in sizes if isinstance(size, int)]
    return sum(known) if sizes and len(known) == len(sizes) else None


def _licence_of(about: dict[str, Any]) -> str:
    found = [tag.removeprefix(_LICENCE) for tag in _texts(about.get("tags")) if tag.startswith(_LICENCE)]
    return found[0][:100] if found else ""


def _texts(content: Any) -> list[str]:
    return [each for each in content if isinstance(each, str)] if isinstance(content, list) else []


def _objects(content: Any) -> list[dict[str, Any]]:
    return [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
