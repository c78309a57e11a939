import pytest

from apps.registry.policies.labels import next_label

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("taken", "label"),
    [([], "v1"), (["v1"], "v2"), (["v1", "v9", "v10"], "v11"), (["first", "v2-beta", "V7", "v"], "v1")],
)
def test_a_models_next_version_is_numbered_on(taken, label):
    assert next_label(taken) == label
