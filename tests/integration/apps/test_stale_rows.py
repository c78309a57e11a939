"""What somebody has read may be somebody else's change ago: a write puts nothing back and brings nobody back."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import DatabaseError, OperationalError
from django.http import Http404
from django.test import RequestFactory

from apps.common.actors import SYSTEM
from apps.common.errors import ConflictError, NotAllowedError, NotFoundError
from apps.common.problems import render_problem
from apps.console.access import everybody, page
from apps.fleet.models import Node
from apps.fleet.services.nodes import record_seen, remove_node, set_cordon
from apps.limits.models import Limit
from apps.limits.services.limits import (
    change_limit,
    end_raise,
    raise_limit,
    remove_limit,
    reset_limit,
    set_limit,
)
from apps.registry.models import ModelVersion
from apps.registry.services import change_engine, describe_version
from apps.tenants.models import APIKey, Membership, User
from apps.tenants.selectors import actor_of
from apps.tenants.services import (
    add_member,
    change_access,
    change_password,
    change_role,
    create_key,
    remove_member,
    remove_tenant,
)
from tests.factories.domain import NOW, make_deployment, make_node, make_replica, make_version

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def read(row):
    """As another request had it in its hands."""
    return type(row).objects.get(pk=row.pk)


@pytest.fixture
def limit(people):
    return set_limit(
        actor=SYSTEM, tenant=people.tenant, scope="tenant", kind="tokens_per_day", amount=Decimal(100), now=NOW
    )


@pytest.fixture
def membership(people):
    return Membership.objects.get(tenant=people.tenant, user=people.teammate)


def test_a_member_who_was_removed_does_not_come_back_with_a_role(membership):
    held = read(membership)
    remove_member(actor=SYSTEM, membership=membership, now=NOW)
    with pytest.raises(NotFoundError):
        change_role(actor=SYSTEM, membership=held, role="viewer", now=NOW)
    with pytest.raises(NotFoundError):
        remove_member(actor=SYSTEM, membership=held, now=NOW)
    assert not Membership.objects.filter(pk=held.pk).exists()


def test_the_last_admin_stays_also_when_two_were_seen(people, membership):
    owner = Membership.objects.get(tenant=people.tenant, user=people.owner)
    change_role(actor=SYSTEM, membership=membership, role="tenant_admin", now=NOW)
    stale = read(owner)
    change_role(actor=SYSTEM, membership=read(membership), role="viewer", now=NOW)
    with pytest.raises(ConflictError):
        change_role(actor=SYSTEM, membership=stale, role="viewer", now=NOW)


def test_who_is_no_member_any_more_makes_no_key_with_a_request_that_was_under_way(people, membership):
    actor = actor_of(people.teammate)
    remove_member(actor=SYSTEM, membership=membership, now=NOW)
    with pytest.raises(NotAllowedError):
        create_key(actor=actor, tenant=people.tenant, name="late", owner_id=people.teammate.pk, now=NOW)
    assert not APIKey.objects.filter(name="late").exists()


def test_nobody_joins_a_tenant_that_has_just_been_removed(people):
    remove_tenant(actor=SYSTEM, tenant=read(people.other), now=NOW)
    with pytest.raises(NotFoundError):
        add_member(actor=SYSTEM, tenant=people.other, user=people.roleless, role="viewer", now=NOW)
    assert not Membership.objects.filter(user=people.roleless).exists()


def test_an_address_that_is_changed_puts_no_old_password_or_role_back(people):
    held = read(people.finance)
    change_password(actor=SYSTEM, user=people.finance, password="a new and long one", now=NOW)
    change_access(actor=SYSTEM, user=people.finance, is_active=False, now=NOW)
    change_access(actor=SYSTEM, user=held, email="money@example.com", now=NOW)
    now = User.objects.get(pk=held.pk)
    assert (now.email, now.is_active, now.check_password("a new and long one")) == ("money@example.com", False, True)


def test_the_last_platform_admin_stays_also_when_two_were_seen(people):
    change_access(actor=SYSTEM, user=people.operator, is_platform_admin=True, now=NOW)
    stale = read(people.operator)
    stale.is_platform_admin = False  # as it was read before
    change_access(actor=SYSTEM, user=people.platform_admin, is_platform_admin=False, now=NOW)
    with pytest.raises(ConflictError):
        change_access(actor=SYSTEM, user=stale, is_platform_admin=False, now=NOW)


@pytest.mark.parametrize("late", [change_limit, raise_limit, end_raise, reset_limit, remove_limit])
def test_a_limit_that_was_removed_stays_removed(limit, late):
    held = read(limit)
    remove_limit(actor=SYSTEM, limit=limit, now=NOW)
    facts = {
        change_limit: {"amount": Decimal(5)}, raise_limit: {"amount": Decimal(500), "until": NOW + timedelta(days=1)},
    }.get(late, {})  # fmt: skip
    with pytest.raises(NotFoundError):
        late(actor=SYSTEM, limit=held, now=NOW, **facts)
    assert not Limit.objects.filter(pk=held.pk).exists()


def test_a_raise_outlives_a_change_that_was_begun_before_it(limit):
    held, until = read(limit), NOW + timedelta(days=1)
    raise_limit(actor=SYSTEM, limit=limit, amount=Decimal(500), until=until, now=NOW)
    change_limit(actor=SYSTEM, limit=held, amount=Decimal(200), now=NOW)
    now = Limit.objects.get(pk=limit.pk)
    assert (now.amount, now.raised_amount, now.raised_until) == (200, 500, until)
    assert now.revision == 3


def test_two_resets_at_once_are_two(limit):
    held = read(limit)
    reset_limit(actor=SYSTEM, limit=limit, now=NOW)
    reset_limit(actor=SYSTEM, limit=held, now=NOW)
    assert Limit.objects.get(pk=limit.pk).reset_count == 2


def test_what_is_said_of_a_version_puts_no_old_engine_back():
    version = make_version()
    held = read(version)
    facts = {"engine": "fake", "source": "fake", "engine_args": {}}
    change_engine(actor=SYSTEM, version=version, max_context_tokens=4096, now=NOW, **facts)
    describe_version(actor=SYSTEM, version=held, licence="mit", now=NOW)
    also = read(version)
    describe_version(actor=SYSTEM, version=also, tags=["small"], now=NOW)
    stale = read(version)
    stale.licence, stale.tags = "", []  # as they were read before
    change_engine(actor=SYSTEM, version=stale, max_context_tokens=2048, now=NOW, **facts)
    now = ModelVersion.objects.get(pk=version.pk)
    assert (now.max_context_tokens, now.licence, now.tags) == (2048, "mit", ["small"])


def test_a_change_of_what_is_gone_says_so_and_not_that_the_database_is_away(people):
    node = make_node()
    held = read(node)
    remove_node(actor=SYSTEM, node=node, now=NOW)
    with pytest.raises(DatabaseError) as refused:
        set_cordon(actor=SYSTEM, node=held, is_cordoned=True, now=NOW)
    assert render_problem(refused.value, {}).status_code == 404
    assert render_problem(OperationalError("the server closed the connection"), {}).status_code == 503

    @page(everybody)
    def view(_):
        raise refused.value

    request = RequestFactory().get("/")
    request.user, request.session = people.operator, {}
    with pytest.raises(Http404):
        view(request)


def test_a_lost_node_that_is_heard_of_again_keeps_its_replicas():
    node = make_node(is_lost=True)
    replica = make_replica(make_deployment(make_version()), node=node, port=8100)
    held = read(node)
    record_seen(node_ids=[node.pk], now=NOW)
    with pytest.raises(ConflictError):
        remove_node(actor=SYSTEM, node=held, now=NOW)
    assert Node.objects.filter(pk=node.pk).exists()
    assert type(replica).objects.filter(pk=replica.pk).exists()
