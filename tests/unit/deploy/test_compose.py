"""docker-compose.yml says the same as the local stack. There is no Docker to try it with, so it is read closely."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from deploy.local.accounts import Account
from deploy.local.configuration import read_configuration
from deploy.local.credentials import Credentials
from deploy.local.layout import Layout
from deploy.local.postgres import Postgres
from deploy.local.programme import Programme
from deploy.local.seed import Seed
from deploy.local.valkey import Valkey

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
IMAGES_OF_OTHERS = {"postgres", "valkey"}
CREDENTIALS = Credentials(
    database_password="d", web_database_password="w", valkey_password="v", secret_key="s", snapshot_key="k"
)
VAR = Path("/var/lib/nowhere")
SEED = Seed(node_id="n", agent_token="t", model="m", logins=[], tenants={})
OURS = sorted(set(SERVICES) - IMAGES_OF_OTHERS)


def words(service: str) -> list[str]:
    return [word for part in SERVICES[service]["command"] for word in part.split()]


def option(service: str, name: str) -> str:
    return words(service)[words(service).index(name) + 1]


def test_it_runs_the_processes_of_the_local_stack():
    steps, processes = {"migrate", "seed"}, {"web", "controller", "beat", "agent", "gateway"}
    assert set(SERVICES) == IMAGES_OF_OTHERS | steps | processes


@pytest.mark.parametrize("service", OURS)
def test_every_module_that_is_run_exists(service):
    modules = re.findall(r"python -m ([\w.]+)", " ".join(words(service)))
    assert modules or "manage.py" in words(service)
    assert [module for module in modules if find_spec(module) is None] == []


def test_the_processes_have_the_options_of_the_local_stack():
    """All but addresses, times and places, which differ on purpose."""
    programme = Programme(
        configuration=read_configuration({}, root=ROOT),
        layout=Layout(VAR),
        credentials=CREDENTIALS,
        postgres=Postgres(data=VAR, sockets=VAR, account=Account("nobody", 65534, 65534), password="p"),
        valkey=Valkey(home=VAR, socket=VAR / "valkey.sock", password="p"),
    )
    specs = {one.name: one.command for one in (*programme.control_plane(), *programme.node(SEED))}
    for name in ("web", "controller", "beat"):
        assert options(words(name)) == options(specs[name])
    assert options(words("gateway")) | {"--node-id", "--grace-s"} == options(specs["gateway"]) | {"--host"}


def test_web_signs_in_to_the_database_as_the_role_that_owns_nothing():
    web = SERVICES["web"]["environment"]["TOKENYARD_DATABASE_URL"]
    assert web == SERVICES["migrate"]["environment"]["TOKENYARD_WEB_DATABASE_URL"]
    assert web.startswith("postgresql://tokenyard_web:")
    assert not SERVICES["controller"]["environment"]["TOKENYARD_DATABASE_URL"].startswith("postgresql://tokenyard_web")


def options(command: list[str]) -> set[str]:
    return {word for word in command if re.fullmatch(r"-{1,2}[A-Za-z][\w-]*", word)} - {"-m", "-c"}


@pytest.mark.parametrize("service", ["migrate", "seed"])
def test_every_management_command_that_is_run_exists(service):
    command = words(service)[words(service).index("manage.py") + 1]
    ours = list(ROOT.glob(f"apps/*/management/commands/{command}.py"))
    assert ours or command in {"migrate", "collectstatic"}


@pytest.mark.parametrize("service", SERVICES)
def test_what_a_service_waits_for_exists_and_can_be_waited_for(service):
    for awaited, how in SERVICES[service].get("depends_on", {}).items():
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[awaited]
        elif how["condition"] == "service_completed_successfully":
            assert SERVICES[awaited]["restart"] == "on-failure"
        else:
            assert how["condition"] == "service_started"


@pytest.mark.parametrize("service", SERVICES)
def test_only_this_machine_can_reach_what_is_published(service):
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[service].get("ports", []))


def test_agent_gateway_and_engines_are_one_node():
    assert SERVICES["gateway"]["network_mode"] == "service:agent"
    assert option("gateway", "--node-dir") == SERVICES["agent"]["environment"]["TOKENYARD_NODE_DIR"]
    published = " ".join(SERVICES["agent"]["ports"])
    assert f":{option('gateway', '--port')}" in published
    assert f":{option('gateway', '--admin-port')}" in published


def test_the_agent_calls_where_the_console_listens():
    assert f"web:{option('web', '--port')}/" in SERVICES["agent"]["environment"]["TOKENYARD_CONTROL_URL"]
    assert "web" in SERVICES["web"]["environment"]["TOKENYARD_ALLOWED_HOSTS"].split(",")


def test_named_volumes_are_declared():
    used = {mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])}
    assert used == set(COMPOSE["volumes"])


def test_the_image_installs_the_lock_and_is_not_root():
    dockerfile = (ROOT / SERVICES["web"]["build"]["dockerfile"]).read_text()
    assert "pip install --no-cache-dir --require-hashes -r requirements/base.lock" in dockerfile
    assert "\nUSER tokenyard\n" in dockerfile
