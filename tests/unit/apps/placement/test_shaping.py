import pytest

from apps.deployments.policies.requirements import read_requirements
from apps.placement.policies.shaping import Sizes, shape_of

pytestmark = pytest.mark.unit


def shape(requirements=None, *, engine="vllm", has_gpus=True, needed=None, **engine_args):
    return shape_of(
        read_requirements(requirements or {}),
        engine=engine,
        engine_args=engine_args,
        has_gpus=has_gpus,
        sizes_of=lambda widths: Sizes(anywhere=needed and needed // widths.tensor_parallel),
    )


def test_vllm_gets_a_gpu_where_there_is_any_and_others_run_on_the_host():
    assert shape().on == "gpu"
    assert shape(has_gpus=False).on == "cpu"
    assert shape(engine="llamacpp").on == "cpu"
    assert shape({"on": "gpu"}, engine="fake").on == "gpu"


def test_who_asks_for_a_part_of_a_gpu_shares_it():
    part = shape(gpu_memory_utilization=0.2)
    assert (part.memory_share, part.is_exclusive) == (0.2, False)
    whole = shape(gpu_memory_utilization=0.9)
    assert (whole.memory_share, whole.is_exclusive) == (None, True)


def test_a_deployments_word_goes_before_its_versions():
    assert shape(tensor_parallel_size=2).tensor_parallel == 2
    assert shape({"tensor_parallel": 4}, tensor_parallel_size=2).tensor_parallel == 4
    assert shape({"memory_share": 0.5}, gpu_memory_utilization=0.2).memory_share == 0.5


def test_memory_is_the_estimate_for_that_width_unless_it_was_given():
    assert shape({"tensor_parallel": 2}, needed=100).memory_bytes == 50
    assert shape({"memory_gib": 1.5}, needed=100).memory_bytes == 1.5 * 1024**3
    assert shape().memory_bytes is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"gpus": 2}, "gpus"),
        ({"tensor_parallel": 0}, "tensor_parallel"),
        ({"memory_share": 1.5}, "memory_share"),
        ({"strategy": "both"}, "strategy"),
        ({"on": "mig", "tensor_parallel": 2}, "MIG"),
        ({"avoids": ["me"]}, "avoids"),
        ([], "object"),
    ],
)
def test_a_requirement_that_means_nothing_is_refused_by_name(content, words):
    with pytest.raises(ValueError, match=words):
        read_requirements(content)
