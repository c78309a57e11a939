"""What each process of the local stack is given."""

from pathlib import Path

import pytest

from deploy.local.accounts import Account
from deploy.local.configuration import read_configuration
from deploy.local.credentials import Credentials
from deploy.local.layout import Layout
from deploy.local.postgres import Postgres
from deploy.local.programme import Programme
from deploy.local.seed import Seed
from deploy.local.valkey import Valkey

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[4]
VAR = Path("/var/lib/nowhere")
CREDENTIALS = Credentials(
    database_password="of-the-database",
    web_database_password="of-web",
    valkey_password="of-valkey",
    secret_key="of-django",
    snapshot_key="signs-snapshots",
)
SEED = Seed(node_id="n", agent_token="t", model="m", logins=[], tenants={})


@pytest.fixture
def environments():
    programme = Programme(
        configuration=read_configuration({}, root=ROOT),
        layout=Layout(VAR),
        credentials=CREDENTIALS,
        postgres=Postgres(
            data=VAR, sockets=VAR, account=Account("nobody", 65534, 65534), password=CREDENTIALS.database_password
        ),
        valkey=Valkey(home=VAR, socket=VAR / "valkey.sock", password=CREDENTIALS.valkey_password),
    )
    return {one.name: one.environment for one in (*programme.control_plane(), *programme.node(SEED))}


def test_the_gateway_knows_no_secret_of_the_control_plane(environments):
    told = " ".join(environments["gateway"].values())
    assert [secret for secret in vars(CREDENTIALS).values() if secret in told] == []
    assert environments["gateway"]["TOKENYARD_VALKEY_URL"].startswith("unix://nodes:")


def test_the_agent_knows_but_the_broker(environments):
    told = " ".join(value for name, value in environments["agent"].items() if name != "TOKENYARD_BROKER_URL")
    assert [secret for secret in vars(CREDENTIALS).values() if secret in told] == []


def test_web_tells_nodes_where_limits_are_shared_and_keeps_its_own_password(environments):
    assert CREDENTIALS.valkey_password in environments["web"]["TOKENYARD_VALKEY_URL"]
    assert CREDENTIALS.valkey_password not in environments["web"]["TOKENYARD_NODE_VALKEY_URL"]
