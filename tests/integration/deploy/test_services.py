"""The embedded Postgres and Valkey, as the stack and the tests run them."""

import os
import shutil
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import psycopg
import pytest
import redis
from kombu import Connection

from deploy.local import postgres as embedded_postgres
from deploy.local import valkey as embedded_valkey
from workers.gateway.limits.authority import Ask
from workers.gateway.limits.valkey import ValkeyAuthority

pytestmark = pytest.mark.integration


def test_postgres_answers_on_its_url_and_runs_as_no_root(postgres):
    with psycopg.connect(postgres.url()) as connection:
        version, encoding = connection.execute("SELECT version(), getdatabaseencoding()").fetchone()
    assert version.startswith("PostgreSQL 18")
    assert encoding == "UTF8"
    assert postgres.account.uid != 0


def test_postgres_refuses_a_wrong_password(postgres):
    url = postgres.url().replace(postgres.password, "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url)


def test_postgres_listens_on_no_tcp_port(postgres):
    with psycopg.connect(postgres.url()) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


def test_a_second_database_is_made_once(postgres):
    embedded_postgres.ensure_database(postgres, "another")
    embedded_postgres.ensure_database(postgres, "another")
    with psycopg.connect(postgres.url("another")) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("another",)


def test_an_initdb_cut_short_is_done_again(tmp_path_factory, postgres):
    half_made = postgres.data.parent.parent / "half-made"
    (half_made / "data.unfinished-1").mkdir(parents=True)
    (half_made / "data.unfinished-1" / "PG_VERSION").write_text("18")
    located = embedded_postgres.locate(half_made, password="x", is_durable=False)
    embedded_postgres.prepare(located)
    assert (located.data / "global" / "pg_control").exists()
    assert not (half_made / "data.unfinished-1").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root lends an account")
def test_a_closed_directory_above_sends_the_data_elsewhere_and_forgetting_deletes_it(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    first = embedded_postgres.locate(closed / "postgres", password="x")
    assert not first.data.is_relative_to(closed)
    assert embedded_postgres.locate(closed / "postgres", password="x").data == first.data
    shutil.rmtree(closed / "postgres")
    second = embedded_postgres.locate(closed / "postgres", password="y")
    assert second.data != first.data, "what a deleted checkout left has another password"
    embedded_postgres.forget(closed / "postgres")
    assert not second.data.parent.exists()
    shutil.rmtree(first.data.parent)


def test_valkey_answers_only_with_the_password(valkey):
    with redis.Redis.from_url(valkey.url) as client:
        assert client.set("a", "b")
    with redis.Redis(unix_socket_path=str(valkey.socket)) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.get("a")


async def test_a_nodes_gateway_asks_valkey_about_limits_and_may_do_nothing_else_there(valkey):
    authority = ValkeyAuthority(valkey.nodes_url, holder="me", ttl_s=3, warm_s=0)
    ask = Ask(
        account="a", shape="window", marker="m", keep_ms=1000, revision=1, amount=9, burst=0, raised_amount=0,
        raised_until_ms=0, sequence=1, spent=2, recent=2, head=1, need=1,
    )  # fmt: skip
    (answer,) = (await authority.exchange([ask], [b"{}"])).answers
    await authority.close()
    assert answer.used == 2
    with redis.Redis.from_url(valkey.nodes_url) as node:
        for forbidden in (
            ["LPUSH", "controller", "x"],
            ["KEYS", "*"],
            ["FLUSHALL"],
            ["CONFIG", "GET", "*"],
            ["SCAN", 0],
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                node.execute_command(*forbidden)


def test_celery_reaches_valkey_by_the_broker_url(valkey):
    with Connection(valkey.broker_url) as connection:
        queue = connection.SimpleQueue("test-services")
        queue.put({"hello": "world"})
        message = queue.get(timeout=5)
        message.ack()
        queue.close()
    assert message.payload == {"hello": "world"}


def test_a_second_valkey_on_the_same_data_is_refused(valkey):
    with pytest.raises(embedded_valkey.DataInUseError):
        embedded_valkey.lock(valkey)


def test_services_die_with_a_test_run_that_is_killed():
    program = textwrap.dedent("""
        import time
        from tests.support.services import Services
        services = Services()
        with services.running_postgres() as postgres, services.running_valkey() as valkey:
            print((postgres.data / "postmaster.pid").read_text().split()[0], flush=True)
            print(services.directory, flush=True)
            time.sleep(60)
    """)
    run = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    postgres_pid = int(run.stdout.readline())
    directory = run.stdout.readline().strip()
    run.kill()
    run.wait(10)
    run.stdout.close()
    assert _ends(postgres_pid)
    assert not _processes_naming(directory)


def _ends(pid: int) -> bool:
    deadline = monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        if monotonic() > deadline:
            return False
        sleep(0.05)
    return True


def _processes_naming(text: str) -> list[bytes]:
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            commands.append(path.read_bytes())
    return [command for command in commands if text.encode() in command]
