"""Which version answers where a second node may run what this one does not."""

from collections.abc import Callable

from workers.contracts.snapshot import Version
from workers.gateway.front.introduction import Introduction
from workers.gateway.front.neighbours import ElsewhereError, MisdirectedError, Neighbours
from workers.gateway.payload.labels import CHOSEN_VERSION, FORWARDED, HAS_OTHERS, LAST


def choose_among_nodes(
    neighbours: Neighbours,
    introduction: Introduction,
    model: str,
    sticky: str,
    is_here: Callable[[str], bool],
) -> Version | None:
    """Raises ElsewhereError where it runs on other nodes only. What those have sent back stays here if it can."""
    directory = introduction.directory
    if FORWARDED in introduction.noted:
        return _chosen_elsewhere(neighbours, introduction, model, sticky, is_here)

    def runs(version_id: str) -> bool:
        return is_here(version_id) or neighbours.runs(directory.versions.get(version_id))

    version = directory.choose_version(model, sticky, is_here if introduction.times_sent_back else runs)
    if version is None or is_here(version.version_id) or introduction.times_sent_back > 1:
        return version
    if pools := neighbours.running(version, directory.stand_ins(model, version.version_id)):
        raise ElsewhereError(version.version_id, pools, neighbours.silences)
    return version


def _chosen_elsewhere(
    neighbours: Neighbours, introduction: Introduction, model: str, sticky: str, is_here: Callable[[str], bool]
) -> Version | None:
    """What was forwarded stays here, or goes back to who asked: that may not know yet what has left since.

    What all have sent back goes once more when it has waited here in vain and another node has come to run it.
    """
    directory, noted = introduction.directory, introduction.noted
    chosen = directory.target_of(model, noted.get(CHOSEN_VERSION, b"").decode("utf-8", "replace"))
    if chosen is not None and is_here(chosen.version_id):
        return chosen
    version = directory.choose_version(model, sticky, is_here)
    if version is not None and is_here(version.version_id):
        return version
    version = chosen or version
    is_elsewhere = noted[FORWARDED] == LAST and introduction.is_again and neighbours.runs(version)
    if noted[FORWARDED] == HAS_OTHERS or is_elsewhere:
        raise MisdirectedError
    return version
