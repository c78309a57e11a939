"""The description of the REST API is true of all its addresses, as far as schemathesis gets in a minute."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from apps.common.actors import SYSTEM
from apps.tenants.services.tokens import create_service_token
from tests.factories.domain import NOW
from tests.factories.yard import make_yard
from tests.support.controlplane import running_web

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
# The same cases each time. More, on a running stack: docs/howto/rest.md.
SEED, EXAMPLES = 1, 2


@pytest.fixture
def web(postgres, transactional_db, valkey):
    environment = {
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.test",
        "TOKENYARD_DATABASE_URL": postgres.url(connection.settings_dict["NAME"]),
        "TOKENYARD_API_REQUESTS_PER_MINUTE": "0",
    }
    with running_web(environment) as address:
        yield f"http://{address}"


def test_every_operation_answers_as_it_is_described(web, tmp_path):
    chief = make_yard().people.platform_admin
    _, token = create_service_token(actor=SYSTEM, owner=chief, name="schemathesis", now=NOW)
    command = [str(Path(sys.executable).with_name("schemathesis")), "--no-color"]
    command += ["--config-file", str(ROOT / "schemathesis.toml"), "run"]
    command += [f"{web}/api/schema/", "--header", f"Authorization: Bearer {token}", "--warnings", "off"]
    command += ["--phases", "examples,fuzzing", "--seed", str(SEED), "--max-examples", str(EXAMPLES), "--no-shrink"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert found.returncode == 0, found.stdout[-20_000:]
    counts = re.search(r"Selected: (\d+)/(\d+)\s+Tested: (\d+)", found.stdout)
    assert counts
    assert len(set(counts.groups())) == 1
