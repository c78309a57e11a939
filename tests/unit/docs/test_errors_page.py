"""docs/errors.md names every code that the gateway can send, and no other; and a test is about each of them."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]


def listed_codes():
    """(status, code), as often as they stand there."""
    return re.findall(r"^\| (\d{3}) \| `(\w+)` \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)


def test_the_page_lists_each_code_with_its_status():
    source = "".join(path.read_text() for path in sorted((ROOT / "workers/gateway").rglob("*.py")))
    sent = set(re.findall(r'(?:GatewayError|RefusedRequestError)\(\s*(\d{3}),\s*b?"(\w+)"', source))
    sent |= {("400", code) for code in re.findall(r'bad_request\(\s*"(\w+)"', source)} | {("413", "body_too_large")}
    assert set(listed_codes()) == sent


def test_each_listed_code_is_named_in_a_test():
    tests = "".join(path.read_text() for path in sorted((ROOT / "tests").rglob("*.py")))
    named = set(re.findall(r"""["'](\w+)["']""", tests))
    assert {code for _, code in listed_codes()} <= named
