"""docs/errors.md names every code that the gateway can send, and no other."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]


def test_the_page_lists_each_code_with_its_status():
    source = (ROOT / "workers/gateway/errors.py").read_text() + (ROOT / "workers/gateway/server.py").read_text()
    sent = set(re.findall(r'(?:GatewayError|_RefusedError|_refuse)\(\s*(\d{3}),\s*b?"(\w+)"', source))
    sent |= {("413", "body_too_large"), ("400", "invalid_json"), ("400", "missing_model")}
    listed = set(re.findall(r"^\| (\d{3}) \| `(\w+)` \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
    assert listed == sent
