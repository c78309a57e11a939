"""Which process decides for which versions: pure, and the same whoever asks.

Versions that one request can reach are one group, since one scheduler must see all requests for an engine and one
split all requests for a route: those of a deployment, and all that a route names, alternatives among them. A group
keeps its process for as long as the parent lives, so that nothing that runs or waits is ever counted twice; only where
a new route joins two groups one of them moves.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from zlib import crc32

from workers.contracts.endpoints import Endpoint
from workers.contracts.snapshot import Snapshot

Group = tuple[str, ...]


def groups_of(snapshot: Snapshot) -> list[Group]:
    """Ids of versions; sorted, and so are the groups."""
    leaders: dict[str, str] = {version.version_id: version.version_id for version in snapshot.versions}
    by_deployment: dict[str, list[str]] = defaultdict(list)
    for version in snapshot.versions:
        by_deployment[version.deployment_id or version.version_id].append(version.version_id)
    reached = [[target.version_id for target in route.targets] + route.alternatives for route in snapshot.routes]
    for together in (*by_deployment.values(), *reached):
        _join(leaders, [version_id for version_id in together if version_id in leaders])
    groups: dict[str, list[str]] = defaultdict(list)
    for version_id in sorted(leaders):
        groups[_leader(leaders, version_id)].append(version_id)
    return sorted(tuple(group) for group in groups.values())


def assign(
    groups: Iterable[Group], endpoints: Iterable[Endpoint], owners: Mapping[str, int], processes: int
) -> dict[str, int]:
    """Version → number of its process, for those that have, or had, an engine here.

    `owners` is how it was. What is new goes, the largest first, where the fewest requests fit so far.
    """
    slots: dict[str, int] = defaultdict(int)
    for endpoint in endpoints:
        slots[endpoint.version_id] += max(endpoint.max_running_requests, 1)
    loads = [0] * processes
    assigned: dict[str, int] = {}
    new: list[tuple[int, Group]] = []
    for group in groups:
        load = sum(slots.get(version_id, 0) for version_id in group)
        known = [owners[version_id] for version_id in group if version_id in owners]
        if known:
            _give(group, known[0], load, assigned, loads)
        elif load:
            new.append((-load, group))
    for negative, group in sorted(new):
        _give(group, loads.index(min(loads)), -negative, assigned, loads)
    return assigned


def until_engines_come(groups: Iterable[Group], processes: int) -> dict[str, int]:
    """Where requests wait for versions that have no engine here yet: any process will do, if it is always the same."""
    return {name: crc32(group[0].encode()) % processes for group in groups for name in group}


def owners_by_model(snapshot: Snapshot, owners: Mapping[str, int]) -> dict[str, int]:
    """Public model → process, of those that are anybody's."""
    found = {}
    for route in snapshot.routes:
        for target in route.targets:
            if target.version_id in owners:
                found[route.public_name] = owners[target.version_id]
                break
    return found


def _give(group: Group, process: int, load: int, assigned: dict[str, int], loads: list[int]) -> None:
    loads[process] += load
    assigned.update(dict.fromkeys(group, process))


def _join(leaders: dict[str, str], together: list[str]) -> None:
    for version_id in together[1:]:
        first, other = sorted((_leader(leaders, together[0]), _leader(leaders, version_id)))
        leaders[other] = first


def _leader(leaders: dict[str, str], version_id: str) -> str:
    while leaders[version_id] != version_id:
        leaders[version_id] = version_id = leaders[leaders[version_id]]
    return version_id
