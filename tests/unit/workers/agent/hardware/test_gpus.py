"""The double describes any machine, and what is told of it is what NVML would have told."""

import json
from pathlib import Path

import pytest

from workers.agent.hardware.accelerators import Accelerators
from workers.agent.hardware.described_gpus import KINDS, DescribedGPUs, DescriptionError, read_machine
from workers.agent.hardware.gpus import GPUProcess, GPUReading, foreign_bytes, islands_of

pytestmark = pytest.mark.unit

GIB = 1024**3


def reports(text):
    return Accelerators(DescribedGPUs(read_machine(text))).sample()


@pytest.mark.parametrize("kind", KINDS)
def test_every_gpu_of_the_catalogue_can_be_described_and_is_known_by_its_name(kind):
    from apps.fleet.policies.gpus import CATALOGUE, model_of  # noqa: PLC0415 - the other plane's reading of the same name

    (report,) = reports(f"1x{kind}")
    found = model_of(report.name, report.memory_total_bytes)
    assert found is CATALOGUE[kind]
    assert report.memory_total_bytes == found.memory_bytes


def test_nvlink_makes_one_island_and_pcie_none():
    assert [each.island for each in reports("4xH100")] == [0] * 4
    assert [each.island for each in reports("4xH100/pcie")] == [None] * 4
    assert [each.numa for each in reports("4xH100")] == [0, 0, 1, 1]


def test_a_gpu_in_slices_is_its_slices():
    found = reports("1xH100/mig=3g.40gb+1g.10gb")
    assert [(each.kind, each.profile, each.memory_total_bytes // GIB) for each in found] == [
        ("mig", "3g.40gb", 40),
        ("mig", "1g.10gb", 10),
    ]
    assert len({each.key for each in found}) == 2


def test_others_memory_is_told_per_gpu():
    found = reports("2xL4/foreign=1.5")
    assert [each.foreign_bytes for each in found] == [int(1.5 * GIB)] * 2
    assert found[0].foreign_processes[0].pid == 1


@pytest.mark.parametrize("text", ["H100", "0xH100", "4xK80", "4xH100/nvlink", "1xH100/mig=40", "1xL4/foreign=much", ""])
def test_a_description_that_means_nothing_says_what_one_looks_like(text):
    with pytest.raises(DescriptionError):
        read_machine(text)


def gpu(index, *links):
    return GPUReading(index=index, key=str(index), name="GPU", links=links)


def test_islands_are_what_links_reach_in_any_number_of_steps():
    assert islands_of([gpu(0, 1), gpu(1, 0, 2), gpu(2, 1), gpu(3, 4), gpu(4, 3), gpu(5)]) == {
        0: 0,
        1: 0,
        2: 0,
        3: 3,
        4: 3,
    }


def used(memory, *processes):
    found = tuple(GPUProcess(pid=pid, memory_bytes=size) for pid, size in processes)
    return GPUReading(index=0, key="0", name="GPU", memory_used_bytes=memory, processes=found)


def test_foreign_is_what_is_used_but_for_our_own():
    assert foreign_bytes(used(100, (1, 60), (2, 30)), {1}.__contains__) == 40
    assert foreign_bytes(used(100), {1}.__contains__) == 100


def test_where_the_driver_does_not_say_how_much_is_ours_it_is_what_strangers_use():
    assert foreign_bytes(used(100, (1, None), (2, 30)), {1}.__contains__) == 30
    assert foreign_bytes(used(None), {1}.__contains__) is None


def test_the_double_knows_what_the_catalogue_of_the_evidence_knows():
    path = Path(__file__).parents[6] / "shared/data/engines/gpus.json"
    if not path.exists():
        pytest.skip("the evidence is not beside this clone")
    rows = {row["name"]: row["memory_gib"] for row in json.loads(path.read_text())["gpus"]}
    assert rows == {kind: gib for kind, (_, gib, _) in KINDS.items()}
