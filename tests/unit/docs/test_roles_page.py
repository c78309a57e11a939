"""docs/roles.md shows the matrix as it is."""

import re
from pathlib import Path

import pytest

from apps.tenants.matrix import MATRIX, Role

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_shows_each_permission_with_its_roles():
    rows = re.findall(r"^\| `([\w:]+)` \| (.+) \|$", (ROOT / "docs/roles.md").read_text(), re.MULTILINE)
    shown = {name: [cell == "yes" for cell in cells.split(" | ")] for name, cells in rows}
    assert shown == {permission.value: [role in roles for role in Role] for permission, roles in MATRIX.items()}
