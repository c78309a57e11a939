import pytest

from workers.contracts.paths import CLIENT_PATHS
from workers.gateway.apis.paths import ENGINE_PATHS

pytestmark = pytest.mark.unit


def test_a_keys_scope_can_name_every_path_that_a_gateway_answers():
    own = {"/v1/files", "/v1/batches", "/v1/models", "/v1/outcomes"}
    assert set(CLIENT_PATHS) == {path.decode() for path in ENGINE_PATHS} | own
