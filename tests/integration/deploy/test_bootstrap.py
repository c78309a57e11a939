import subprocess
import sys

import pytest

from tests.support.stack import ROOT

pytestmark = pytest.mark.integration


def test_a_python_that_was_named_and_cannot_be_used_is_not_passed_over_for_another(tmp_path):
    environ = {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "PYTHON": str(tmp_path / "python3")}
    command = ["sh", str(ROOT / "deploy" / "local" / "bootstrap.sh"), "base"]
    tried = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert (tried.returncode, str(tmp_path / "python3") in tried.stderr) == (1, True)
