"""Watching lists by server-sent events: a real web process, real Postgres, clients that come and go."""

from contextlib import ExitStack

import pytest
import requests
from django.db import connection, transaction

from apps.common.actors import SYSTEM
from apps.deployments.models import Replica
from apps.fleet.services.nodes import record_seen, remove_node, set_cordon
from apps.rest.models import Change
from apps.rest.services.forgetting import forget_old_changes
from apps.tenants.models import Membership
from apps.tenants.services import create_key, create_service_token, remove_member
from tests.factories.domain import NOW, make_deployment, make_node, make_people, make_version
from tests.support.controlplane import running_web
from tests.support.watching import watching

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def environment(postgres, django_db_setup):
    url = postgres.url(connection.settings_dict["NAME"])
    return {"DJANGO_SETTINGS_MODULE": "controlplane.settings.test", "TOKENYARD_DATABASE_URL": url}


@pytest.fixture(scope="module")
def web(environment, valkey):
    with running_web(environment) as address:
        yield f"http://{address}/api/v1"


@pytest.fixture
def people(transactional_db):
    return make_people()


@pytest.fixture
def token(people):
    return token_of(people.operator)


def token_of(user):
    return create_service_token(actor=SYSTEM, owner=user, name=f"of {user}", now=NOW)[1]


def cordon(node, is_cordoned=True):
    set_cordon(actor=SYSTEM, node=node, is_cordoned=is_cordoned, now=NOW)


def test_a_watcher_is_told_what_there_is_and_then_each_change(web, token):
    first = make_node("n1")
    with watching(f"{web}/nodes/", token) as watcher:
        assert watcher.wait_for("ADDED", name="n1")["is_cordoned"] is False
        watcher.wait_for("BOOKMARK")
        second = make_node("n2")
        watcher.wait_for("ADDED", name="n2")
        cordon(first)
        assert watcher.wait_for("MODIFIED", name="n1")["is_cordoned"] is True
        gone = str(second.pk)
        remove_node(actor=SYSTEM, node=second, now=NOW)
        assert watcher.wait_for("DELETED") == {"id": gone}


def test_who_was_cut_off_misses_nothing_not_even_what_came_and_went(web, token):
    doomed, kept = make_node("n1"), make_node("n2")
    doomed_id = str(doomed.pk)
    with watching(f"{web}/nodes/", token) as watcher:
        watcher.wait_for("BOOKMARK")
        last_id = watcher.last_id
    remove_node(actor=SYSTEM, node=doomed, now=NOW)
    cordon(kept)
    with watching(f"{web}/nodes/", token, headers={"Last-Event-ID": last_id}) as watcher:
        assert watcher.wait_for("DELETED") == {"id": doomed_id}
        watcher.wait_for("MODIFIED", name="n2", is_cordoned=True)
        assert [kind for kind, _ in watcher.events if kind == "ADDED"] == []


def test_a_list_says_from_where_to_watch(web, token):
    node = make_node("n1")
    listed = requests.get(f"{web}/nodes/", headers={"Authorization": f"Bearer {token}"}, timeout=10)
    cordon(node)
    with watching(f"{web}/nodes/", token, resource_version=listed.headers["Resource-Version"]) as watcher:
        watcher.wait_for("MODIFIED", name="n1", is_cordoned=True)


def test_a_change_whose_transaction_began_first_and_ended_last_is_not_missed(web, token, environment, postgres):
    import psycopg  # noqa: PLC0415 - a second connection only here

    slow_node, quick_node = make_node("slow"), make_node("quick")
    with watching(f"{web}/nodes/", token) as watcher, psycopg.connect(environment["TOKENYARD_DATABASE_URL"]) as slow:
        watcher.wait_for("BOOKMARK")
        slow.execute("UPDATE fleet_node SET is_cordoned = true WHERE id = %s", [slow_node.pk])
        cordon(quick_node)
        slow.commit()
        watcher.wait_for("MODIFIED", name="quick", is_cordoned=True)
        watcher.wait_for("MODIFIED", name="slow", is_cordoned=True)


def test_what_leaves_a_filter_is_deleted_from_it(web, token):
    node = make_node("n1")
    with watching(f"{web}/nodes/", token, is_cordoned="false") as watcher:
        watcher.wait_for("ADDED", name="n1")
        cordon(node)
        assert watcher.wait_for("DELETED") == {"id": str(node.pk)}
        cordon(node, is_cordoned=False)
        watcher.wait_for("ADDED", name="n1")


def test_a_replicas_state_is_news_of_its_deployment_too(web, token):
    deployment = make_deployment(make_version())
    with watching(f"{web}/deployments/", token) as watcher:
        watcher.wait_for("BOOKMARK")
        node = make_node()
        Replica.objects.create(
            deployment=deployment, revision=deployment.revisions.get(), node=node, port=9000, state="ready",
            created_at=NOW, state_changed_at=NOW,
        )  # fmt: skip
        assert watcher.wait_for("MODIFIED")["ready_count"] == 1


def test_a_heartbeat_of_a_node_is_no_news():
    node = make_node()
    before = Change.objects.count()
    record_seen(node_ids=[node.pk], now=NOW.replace(hour=13))
    assert Change.objects.count() == before
    cordon(node)
    assert Change.objects.count() > before


def test_a_change_that_is_taken_back_was_none():
    node = make_node()
    before = Change.objects.count()
    with transaction.atomic():
        cordon(node)
        transaction.set_rollback(True)
    assert Change.objects.count() == before


def test_a_tenant_is_told_of_its_own_only_and_not_even_that_something_of_another_is_gone(web, people):
    theirs, _ = create_key(actor=SYSTEM, tenant=people.other, name="theirs", owner_id=people.stranger.pk, now=NOW)
    with watching(f"{web}/api-keys/", token_of(people.owner)) as watcher:
        watcher.wait_for("BOOKMARK")
        theirs.delete()
        create_key(actor=SYSTEM, tenant=people.tenant, name="ours", owner_id=people.owner.pk, now=NOW)
        watcher.wait_for("ADDED", name="ours")
        assert [kind for kind, _ in watcher.events if kind != "BOOKMARK"] == []
    with watching(f"{web}/nodes/", token_of(people.owner)) as refused:
        assert refused.status == 403


def test_who_may_not_look_any_more_is_told_nothing_more(web, people):
    token = token_of(people.teammate)
    with watching(f"{web}/tenants/{people.tenant.pk}/members/", token) as watcher:
        watcher.wait_for("BOOKMARK")
        member = Membership.objects.get(user=people.teammate)
        remove_member(actor=SYSTEM, membership=member, now=NOW)
        assert watcher.wait_for("ERROR")["status"] in {403, 404}
        assert watcher.wait_for_end()


def test_news_reaches_watchers_of_every_web_process(environment, token):
    with (
        running_web(environment) as one,
        running_web(environment) as two,
        watching(f"http://{one}/api/v1/models/", token) as first,
        watching(f"http://{two}/api/v1/models/", token) as second,
    ):
        first.wait_for("BOOKMARK")
        second.wait_for("BOOKMARK")
        requests.post(
            f"http://{one}/api/v1/models/",
            json={"name": "llama", "task": "generate"},
            headers={"Authorization": f"Bearer {token}"},
            timeout=10,
        ).raise_for_status()
        first.wait_for("ADDED", name="llama")
        second.wait_for("ADDED", name="llama")


@pytest.mark.parametrize(
    ("path", "words", "status"),
    [
        ("nodes", {"resource_version": "yesterday"}, 400),
        ("nodes", {"stat": "online"}, 400),
        ("snapshot", {}, 400),
        ("audit", {}, 400),
        ("no-such-thing", {}, 404),
    ],
)
def test_what_cannot_be_watched_is_a_problem(web, token, path, words, status):
    with watching(f"{web}/{path}/", token, **words) as refused:
        assert refused.status == status


def test_who_was_away_for_too_long_is_told_to_list_again(web, token):
    node = make_node()
    with watching(f"{web}/nodes/", token) as watcher:
        watcher.wait_for("BOOKMARK")
        last_id = watcher.last_id
    cordon(node)
    forget_old_changes(now=Change.objects.last().at.replace(year=2030))
    with watching(f"{web}/nodes/", token, headers={"Last-Event-ID": last_id}) as refused:
        assert refused.status == 410
    assert Change.objects.count() == 0


def test_watchers_do_not_hold_up_a_web_process_that_stops(environment, token):
    stopping = ExitStack()
    address = stopping.enter_context(running_web(environment))
    with stopping, watching(f"http://{address}/api/v1/nodes/", token) as watcher:
        watcher.wait_for("BOOKMARK")
        stopping.close()
        assert watcher.wait_for_end()


def test_nobody_watches_so_much_that_others_cannot(environment, people):
    """Several tokens of one person count together."""
    tokens = [token_of(people.operator), token_of(people.operator)]
    with ExitStack() as open_now:
        address = open_now.enter_context(running_web(environment | {"TOKENYARD_API_MOST_WATCHERS_EACH": "2"}))
        url = f"http://{address}/api/v1/nodes/"
        first, _ = [open_now.enter_context(watching(url, token)) for token in tokens]
        with watching(url, tokens[0]) as refused:
            assert refused.status == 429
        with watching(url, token_of(people.owner)) as other:
            assert other.status == 403  # nodes are the operators'
        with watching(f"http://{address}/api/v1/tenants/", token_of(people.owner)) as other:
            other.wait_for("BOOKMARK")
        first.wait_for("BOOKMARK")
