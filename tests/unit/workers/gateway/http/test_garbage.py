"""What a request leaves behind is freed at once: nothing of it waits for the collector."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.gateway import wire
from benchmarks.gateway.python_path import PythonPath

pytestmark = pytest.mark.unit

REQUESTS = 50
# Of the connection, the journal and whatever else there is once.
FEW = 20


@pytest.fixture(autouse=True)
def _uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def test_an_answer_in_one_piece_leaves_no_garbage(tmp_path: Path):
    path = PythonPath(tmp_path)
    path.exchange(wire.chat_request(), [wire.whole_answer()])
    gc.collect()

    for _ in range(REQUESTS):
        path.exchange(wire.chat_request(), [wire.whole_answer()])

    assert gc.collect() < FEW


async def test_a_stream_leaves_none_either(tmp_path: Path):
    path = PythonPath(tmp_path)
    answer = [wire.stream_head(), wire.stream_chunk(0), wire.stream_end(1)]
    path.exchange(wire.chat_request(is_stream=True), answer)
    gc.collect()

    for _ in range(REQUESTS):
        path.exchange(wire.chat_request(is_stream=True), answer)

    assert gc.collect() < FEW
