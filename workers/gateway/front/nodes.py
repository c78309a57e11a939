"""Which version answers where a second node may run what this one does not."""

from collections.abc import Callable

from workers.contracts.snapshot import Version
from workers.gateway.front.forwarding import ElsewhereError, Neighbours
from workers.gateway.front.introduction import Introduction
from workers.gateway.payload.labels import CHOSEN_VERSION, FORWARDED


def choose_among_nodes(
    neighbours: Neighbours,
    introduction: Introduction,
    model: str,
    sticky: str,
    is_here: Callable[[str], bool],
) -> Version | None:
    """Raises ElsewhereError where it runs on another node only. What was forwarded stays here."""
    directory, noted = introduction.directory, introduction.noted
    if FORWARDED in noted:
        chosen = noted.get(CHOSEN_VERSION, b"").decode("utf-8", "replace")
        return directory.target_of(model, chosen) or directory.choose_version(model, sticky, is_here)

    def runs(version_id: str) -> bool:
        return is_here(version_id) or neighbours.runs(directory.versions.get(version_id))

    version = directory.choose_version(model, sticky, runs)
    if version is not None and not is_here(version.version_id) and (pools := neighbours.running(version)):
        raise ElsewhereError(version.version_id, pools, neighbours.silences)
    return version
