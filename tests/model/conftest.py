from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.support.stack import make_stack


@pytest.fixture(scope="module")
def demo() -> Iterator[dict[str, Any]]:
    """The content of demo.json of a whole stack with a real model, ready."""
    with make_stack(engine="llamacpp") as stack, stack.up() as supervisor:
        stack.wait_until_ready(supervisor, timeout_s=540)
        yield stack.demo


@pytest.fixture
def client(demo: dict[str, Any]) -> Iterator[openai.OpenAI]:
    key = demo["tenants"]["gold"]["api_key"]
    with openai.OpenAI(base_url=f"{demo['gateway_url']}/v1", api_key=key, max_retries=0, timeout=60) as made:
        yield made
