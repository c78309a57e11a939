"""Two controllers at once, as real processes; and one that stops in the middle of its turn."""

import threading
import time
import zlib
from datetime import timedelta

import msgspec
import psycopg
import pytest
from django.db import Error as DatabaseError
from django.db import connection, connections

from apps.audit.models import AuditEntry
from apps.common import services
from apps.common.models import LeaderLease
from apps.common.services import lead
from apps.common.tasks_by_name import enqueue
from apps.deployments.models import Deployment, NodeDesired, Replica
from apps.fleet.models import Node
from apps.fleet.policies.silence import newly_lost
from apps.fleet.services import nodes
from apps.fleet.services.nodes import watch_nodes
from tests.factories.domain import NOW, make_deployment, make_node, make_version
from tests.support.controlplane import running_worker
from workers.contracts.desired import DesiredState

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


def until(holds, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def have_six_placed():
    """After one more turn, as the timer gives it: what was asked of workers that were still starting has expired."""
    enqueue("placement.reconcile")
    time.sleep(0.5)
    return Replica.objects.filter(is_draining=False).exclude(node=None).count() == 6


def test_two_controllers_make_each_replica_once_and_their_fences_only_grow(postgres, valkey):
    two = [make_node("n1"), make_node("n2")]
    make_deployment(make_version(), replica_count=6)
    environment = {
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.test",
        "TOKENYARD_DATABASE_URL": postgres.url(connection.settings_dict["NAME"]),
    }
    fences = []
    with running_worker(environment), running_worker(environment):
        for number in range(30):
            Deployment.objects.update(replica_count=4 + number % 3)
            for _ in range(4):
                enqueue("placement.reconcile")
            fences += list(LeaderLease.objects.filter(name="placement").values_list("fence", flat=True))
            time.sleep(0.1)
        Deployment.objects.update(replica_count=6)
        until(have_six_placed)
    assert Replica.objects.filter(is_draining=False).count() == 6
    assert fences == sorted(fences)
    bodies = [msgspec.json.decode(NodeDesired.objects.get(node=node).body, type=DesiredState) for node in two]
    ports = [spec.port for body in bodies for spec in body.replicas]
    assert len(ports) == len(set(ports))


def test_a_leader_that_stops_in_the_middle_loses_its_lead_and_what_it_had_begun(monkeypatch):
    monkeypatch.setattr(services, "MOST_IDLE", "300ms")
    leads, failures = threading.Event(), []

    def stop_in_the_middle():
        try:
            with lead("x", holder="sleeper"):
                leads.set()
                time.sleep(2)
                LeaderLease.objects.filter(name="x").update(holder="sleeper, later")
        except DatabaseError as error:
            failures.append(error)
        finally:
            connections.close_all()

    sleeper = threading.Thread(target=stop_in_the_middle)
    sleeper.start()
    assert leads.wait(10)
    time.sleep(1)
    with lead("x", holder="other") as fence:
        assert fence is not None
    sleeper.join(15)
    assert len(failures) == 1
    assert LeaderLease.objects.get(name="x").holder == "other"


def test_a_leader_that_stopped_while_it_was_being_answered_is_ended_by_who_would_lead_in_its_place(
    postgres, monkeypatch
):
    monkeypatch.setattr(services, "MOST_IDLE", "300ms")
    with psycopg.connect(postgres.url(connection.settings_dict["NAME"])) as stopped:
        stopped.execute("SELECT pg_try_advisory_xact_lock(%s)", [zlib.crc32(b"tokenyard.x")])
        stopped.pgconn.send_query(b"SELECT repeat('x', 1000000) FROM generate_series(1, 100)")

        def leads():
            time.sleep(0.1)
            with lead("x", holder="other") as fence:
                return fence is not None

        assert not leads()
        until(leads, timeout_s=20)
        stopped.pgconn.finish()


def test_a_node_that_was_heard_while_its_watcher_stood_still_is_not_lost(monkeypatch):
    silent, heard = (make_node(name, last_seen_at=NOW - timedelta(minutes=5)) for name in ("n1", "n2"))
    for number in range(8):
        make_node(f"other-{number}")

    def stood_still(sights, now):
        found = newly_lost(sights, now)
        Node.objects.filter(pk=heard.pk).update(last_seen_at=now)
        return found

    monkeypatch.setattr(nodes, "newly_lost", stood_still)
    assert watch_nodes(holder="test", now=NOW)
    assert [node.pk for node in Node.objects.filter(is_lost=True)] == [silent.pk]
    assert list(AuditEntry.objects.filter(action="node.lost").values_list("subject_id", flat=True)) == [str(silent.pk)]


def test_nodes_are_watched_by_one_controller_at_a_time(postgres):
    make_node(last_seen_at=NOW - timedelta(seconds=20))
    with psycopg.connect(postgres.url(connection.settings_dict["NAME"])) as other:
        other.execute("SELECT pg_try_advisory_xact_lock(%s)", [zlib.crc32(b"tokenyard.fleet")])
        assert not watch_nodes(holder="test", now=NOW)
        assert Node.objects.get().state == "online"
    assert watch_nodes(holder="test", now=NOW)
    assert Node.objects.get().state == "offline"


def test_who_has_patience_leads_as_soon_as_another_one_ends(postgres):
    with psycopg.connect(postgres.url(connection.settings_dict["NAME"])) as other:
        other.execute("SELECT pg_try_advisory_xact_lock(%s)", [zlib.crc32(b"tokenyard.x")])
        with lead("x", holder="hasty") as fence:
            assert fence is None
        ending = threading.Timer(0.2, other.rollback)
        ending.start()
        with lead("x", holder="patient", patience_s=20) as fence:
            assert fence is not None
        ending.join()
