import asyncio
import sys

import pytest

from tests.support.specs import replica_spec
from workers.agent.storage import fetches
from workers.agent.storage.downloads import Progress
from workers.agent.storage.fetches import Fetches, _Fetch, _on_its_way
from workers.agent.storage.sources import FetchCommand
from workers.engines.interface import WeightsSource

pytestmark = pytest.mark.unit

GIB = 1024**3


def view(done_gib, now):
    return _on_its_way(_Fetch(progress=Progress(done_gib * GIB, 16 * GIB), first=(1 * GIB, 100.0)), now)


def test_how_long_it_takes_is_told_by_its_own_pace_once_that_is_known():
    assert view(2, 105.0).detail == "2.00 of 16.00 GiB"
    assert view(6, 150.0).detail == "6.00 of 16.00 GiB, about 2 min left"
    assert view(15, 240.0).detail == "15.00 of 16.00 GiB, less than a minute left"


def test_what_stands_still_promises_nothing():
    assert view(1, 200.0).detail == "1.00 of 16.00 GiB"


def test_weights_that_need_not_be_fetched_take_no_room_from_an_adapter_that_is(tmp_path):
    spec = replica_spec(source="/mnt/weights", weights_bytes=2**60, lora_adapters={"a": "org/a"})
    adapter = WeightsSource(repository="org/a", revision="")
    view = Fetches(tmp_path, {}, 1.0).look_at_all(spec, [adapter], 0.0)
    assert (view.problem, view.is_fetching) == ("", False)


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["/nowhere/python"], "No such file or directory"),
        ([sys.executable, "-c", "print('x' * 200_000)"], "chunk"),
        ([sys.executable, "-c", "import sys; sys.exit('disk is full')"], "disk is full"),
    ],
)
async def test_a_download_that_fails_however_it_does_is_tried_again_later(tmp_path, monkeypatch, argv, problem):
    monkeypatch.setattr(fetches, "fetch_command", lambda *_: FetchCommand(argv=argv))
    spec, source = replica_spec(), WeightsSource(repository="org/a", revision="")
    tried = Fetches(tmp_path, {}, 60.0)
    tried.begin(source, 100.0)
    await asyncio.gather(*tried._tasks.values(), return_exceptions=True)
    view = tried.look(spec, source, 110.0)
    assert problem in view.problem
    assert view.is_fetching
    assert not tried.look(spec, source, 300.0).is_fetching
