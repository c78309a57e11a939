from pathlib import Path

import pytest

from deploy.local.sockets import MAX_SOCKET_PATH_BYTES, socket_directory

pytestmark = pytest.mark.unit


def test_a_short_path_is_kept():
    assert socket_directory(Path("/srv/var"), "a.sock") == Path("/srv/var")


def test_a_long_path_gives_way_to_a_short_one_that_is_always_the_same():
    long = Path("/") / ("d" * MAX_SOCKET_PATH_BYTES)
    chosen = socket_directory(long, "a.sock")
    assert len(bytes(chosen / "a.sock")) <= MAX_SOCKET_PATH_BYTES
    assert chosen == socket_directory(long, "a.sock")
    assert chosen != socket_directory(long / "other", "a.sock")
