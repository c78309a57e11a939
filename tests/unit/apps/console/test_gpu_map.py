from uuid import UUID

import pytest

from apps.console.policies.gpu_map import map_of
from tests.support.fleets import GIB, box, gpu, node, occupant

pytestmark = pytest.mark.unit

IDS = {(UUID(int=1), "0"): UUID(int=7)}
NAMES = {UUID(int=1): "chat", UUID(int=2): "code"}


def cells(*gpus, occupants=()):
    (row,) = map_of([node(1, *gpus, occupants=occupants)], NAMES, IDS)
    return row.cells


def test_a_cell_says_what_is_reserved_what_strangers_use_and_who_is_there():
    shared = (
        occupant(1, "0", gib=20, deployment=1, is_exclusive=False),
        occupant(2, "0", gib=20, deployment=2, is_exclusive=False),
    )
    (cell,) = cells(gpu(0, foreign_bytes=8 * GIB), occupants=shared)
    assert (cell.reserved_percent, cell.foreign_percent, cell.words) == (50, 10, "chat, code")


def test_one_that_shares_with_nobody_has_all_the_rest():
    (cell,) = cells(gpu(0, foreign_bytes=8 * GIB), occupants=(occupant(1, "0", gib=20, deployment=1),))
    assert (cell.reserved_percent, cell.level) == (90, "ok")


def test_a_cell_leads_to_the_page_of_its_accelerator_where_that_is_known():
    assert [cell.accelerator_id for cell in cells(gpu(0), gpu(1))] == [UUID(int=7), None]


def test_idle_sick_and_unknown_are_told_apart():
    assert [cell.level for cell in cells(gpu(0), gpu(1, is_healthy=False))] == ["idle", "breach"]
    (unknown,) = cells(gpu(0, memory_bytes=None))
    assert (unknown.level, unknown.reserved_percent) == ("unknown", None)


def test_only_nodes_with_gpus_are_on_the_map_and_a_cordoned_one_is_marked():
    found = map_of([node(1), box(3, count=1, is_cordoned=True), box(2, count=1)], NAMES, IDS)
    assert [(row.name, row.is_open) for row in found] == [("n0002", True), ("n0003", False)]
