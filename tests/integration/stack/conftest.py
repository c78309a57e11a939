from collections.abc import Iterator

import pytest

from tests.support.stack import Stack, make_stack


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Fresh data and ports, the fake engine; nothing runs yet."""
    with make_stack() as made:
        yield made
