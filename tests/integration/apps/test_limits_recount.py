"""Use of periods is what usage records say, whatever Valkey or a gateway has lost."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest
import redis

from apps.common.actors import SYSTEM
from apps.limits.models import LimitEvent
from apps.limits.selectors.compiled import compile_limits
from apps.limits.selectors.truth import sum_by_subject
from apps.limits.selectors.use import list_use
from apps.limits.services.events import fetch_events
from apps.limits.services.limits import reset_limit, set_limit, set_limit_settings
from apps.limits.services.recount import _read_count, recount_limits
from apps.tenants.services.keys import create_key, rotate_key
from apps.usage.services.partitions import make_partitions
from apps.usage.services.prices import set_price
from apps.usage.services.rerating import apply_rerating, run_reratings, start_rerating
from tests.factories.domain import NOW, make_node, make_tenant, make_version
from tests.factories.usage import ARRIVED_AT_S, ingest_records, make_record
from workers.contracts.limits import EVENTS_KEY
from workers.contracts.limits import LimitEvent as Told
from workers.contracts.snapshot import Price
from workers.gateway.limits.account import Account
from workers.gateway.limits.ledger import TTL_S
from workers.gateway.limits.rulebook import TenantRules
from workers.gateway.limits.valkey import ValkeyAuthority

pytestmark = pytest.mark.integration

DAY = timedelta(days=1)


@pytest.fixture
def client(valkey):
    with redis.Redis.from_url(valkey.url) as connection:
        connection.flushdb()
        yield connection


@pytest.fixture
def tenant(db, client):
    make_partitions(now=NOW)
    return make_tenant()


@pytest.fixture
def limit(tenant):
    return set_limit(actor=SYSTEM, tenant=tenant, scope="tenant", kind="tokens_per_day", amount=Decimal(1000), now=NOW)


def store(tenant, **fields):
    """One record of 100 tokens."""
    record = make_record(tenant_id=str(tenant.pk), input_tokens=60, cached_input_tokens=0, output_tokens=40, **fields)
    ingest_records(records=[record], node_id=make_node(f"n{record.sequence}").pk, now=NOW)


def recount(now=NOW):
    return recount_limits(holder="test", now=now)


def used(limit, tenant, now=NOW):
    return list_use(limits=[limit], tenant_id=tenant.pk, now=now)[0].used


def account_of(limit, tenant, now=NOW):
    """As a gateway has it."""
    rules = TenantRules(next(one for one in compile_limits(now=NOW) if one.tenant_id == str(tenant.pk)))
    rule, period = rules._choices[0].by_subject[""], rules.period(limit.kind, now.timestamp())
    marker = f"{rule.limit_id}.{rule.reset_count}.{period.name}"
    subject = f"{tenant.pk}/"
    return Account(f"{marker}:{subject}", rule, period, marker=marker, subject=subject)


def say(valkey, holder, account, sequence):
    """One exchange of this gateway about this account."""

    async def exchange():
        authority = ValkeyAuthority(valkey.url, holder=holder, ttl_s=TTL_S, warm_s=0)
        try:
            ask = account.ask(sequence, 0.0)
            account.answered(ask, (await authority.exchange([ask], [])).answers[0], 0.0)
        finally:
            await authority.close()

    asyncio.run(exchange())
    return account.told


def spend(account, tokens):
    account.cover(tokens)
    account.reserve(tokens, 0.0)
    account.settle(tokens, tokens, 0, 0.0)


def test_a_new_limit_counts_what_was_used_before_it(tenant, limit):
    store(tenant)
    store(tenant, arrived_at=ARRIVED_AT_S - 86_400)
    assert recount() > 0
    assert used(limit, tenant) == 100


def test_a_gateway_gets_nothing_before_use_is_known_and_then_what_is_left(valkey, tenant, limit):
    store(tenant)
    account = account_of(limit, tenant)
    assert say(valkey, "g1", account, 1).state == "uncounted"
    recount()
    told = say(valkey, "g1", account, 2)
    assert (told.state, told.used, told.remaining) == ("ready", 100, 900)


def test_what_a_gateway_said_and_its_records_say_is_counted_once(valkey, tenant, limit):
    recount()
    account = account_of(limit, tenant)
    say(valkey, "g1", account, 1)
    spend(account, 100)
    say(valkey, "g1", account, 2)
    store(tenant, boot_id="g1")
    recount(_later(7200))
    assert used(limit, tenant) == 100


def test_what_was_under_way_when_a_limit_was_made_is_counted_by_a_second_look(valkey, tenant, limit):
    """Once its record has come. What the gateway spends from then on is added to it, and stands beside nothing."""
    recount()
    account = account_of(limit, tenant)
    say(valkey, "g1", account, 1)
    spend(account, 100)
    say(valkey, "g1", account, 2)
    store(tenant, boot_id="g1")
    store(tenant, boot_id="g1")
    assert recount(_later(2)) == 0
    recount(_later(10))
    assert used(limit, tenant) == 200
    assert say(valkey, "g1", account, 3).used == 200
    spend(account, 55)
    assert say(valkey, "g1", account, 4).used == 255
    assert recount(_later(30)) == 0


@pytest.mark.parametrize("noted", [b"1700000000", b"1700000000 0.250"])
def test_what_a_former_release_counted_needs_no_second_look(noted):
    assert _read_count(noted).times == 2


def test_what_a_killed_gateway_did_not_say_is_in_its_records(valkey, client, tenant, limit):
    recount()
    account = account_of(limit, tenant)
    say(valkey, "g1", account, 1)
    spend(account, 100)
    say(valkey, "g1", account, 2)
    client.hset("tokenyard:limits:holders", "g1", _now_ms() - 10_000)
    store(tenant, boot_id="g1")
    store(tenant, boot_id="g1")
    recount(_later(10))
    assert used(limit, tenant) == 200


def test_valkey_that_lost_everything_is_told_again(valkey, client, tenant, limit):
    store(tenant, boot_id="of old")
    recount()
    account = account_of(limit, tenant)
    say(valkey, "g1", account, 1)
    spend(account, 250)
    say(valkey, "g1", account, 2)
    store(tenant, boot_id="g1")
    client.flushdb()
    assert say(valkey, "g1", account, 3).state == "uncounted"
    recount()
    told = say(valkey, "g1", account, 4)
    assert (told.state, told.used) == ("ready", 350)


def test_a_process_that_forgot_an_account_goes_on_where_it_was(valkey, tenant, limit):
    recount()
    first = account_of(limit, tenant)
    say(valkey, "g1", first, 1)
    spend(first, 100)
    say(valkey, "g1", first, 2)
    again = account_of(limit, tenant)
    say(valkey, "g1", again, 3)
    spend(again, 5)
    assert say(valkey, "g1", again, 4).used == 105


def test_a_reset_counts_from_then_on(tenant, limit):
    store(tenant)
    reset_limit(actor=SYSTEM, limit=limit, now=_later(60))
    store(tenant, arrived_at=ARRIVED_AT_S + 120)
    recount(_later(130))
    assert used(limit, tenant, _later(130)) == 100


def test_the_day_is_the_tenants(tenant, limit):
    set_limit_settings(actor=SYSTEM, tenant=tenant, time_zone="Pacific/Auckland", degraded="share", now=NOW)
    store(tenant)
    store(tenant, arrived_at=ARRIVED_AT_S - 3 * 3600)
    recount()
    assert used(limit, tenant) == 100


def test_money_is_counted_in_nanodollars(tenant):
    limit = set_limit(actor=SYSTEM, tenant=tenant, scope="tenant", kind="cost_total", amount=Decimal("0.5"), now=NOW)
    store(tenant, cost_pico_usd=1_234_567)
    recount()
    assert used(limit, tenant) == 1234


def test_each_users_own_account_is_filled(client, tenant):
    limit = set_limit(
        actor=SYSTEM,
        tenant=tenant,
        scope="end_user",
        subject="*",
        kind="tokens_per_month",
        amount=Decimal(1000),
        now=NOW,
    )
    for who in ("ann", "ann", "bob"):
        store(tenant, end_user=who)
    recount()
    bases = {
        key.decode().rpartition("/")[2]: int(client.hget(key, "base"))
        for key in client.keys(f"tokenyard:limits:a:{limit.pk}*")
    }
    assert bases == {"ann": 200, "bob": 100}


def test_money_is_counted_anew_when_a_rerating_has_put_a_price_right(valkey, client, tenant):
    """BerriAI/litellm#20615: a price that was typed per million shut a user out until somebody edited the database."""
    version = make_version()
    price = Price(output_pico_usd=10**12)
    set_price(actor=SYSTEM, version=version, price=price, effective_from=NOW - 2 * DAY, now=NOW - DAY)
    limit = set_limit(
        actor=SYSTEM, tenant=tenant, scope="tenant", kind="cost_per_day", amount=Decimal(10), now=NOW - DAY
    )
    recount()
    account = account_of(limit, tenant)
    say(valkey, "boot-1", account, 1)
    account.cover(40 * 10**9)
    account.reserve(40 * 10**9, 0.0)
    account.settle(40 * 10**9, 40, 40 * 10**12, 0.0)
    say(valkey, "boot-1", account, 2)
    store(tenant, version_id=str(version.pk), cost_pico_usd=40 * 10**12)
    assert used(limit, tenant) == 40 * 10**9
    right = Price(output_pico_usd=10**6)
    set_price(actor=SYSTEM, version=version, price=right, effective_from=NOW - DAY, now=NOW)
    row = start_rerating(actor=SYSTEM, start=NOW - DAY / 2, end=NOW + DAY, reason="typed per million", now=NOW)
    run_reratings(now=NOW)
    apply_rerating(actor=SYSTEM, rerating=row, now=NOW)
    run_reratings(now=NOW)
    recount()
    limit.refresh_from_db()
    assert used(limit, tenant) == 40 * 10**6 // 1000
    told = say(valkey, "boot-1", account_of(limit, tenant), 3)
    assert (told.state, told.used) == ("ready", 40_000)
    assert recount() == 0, "and not again and again"


@pytest.mark.parametrize("subject", ["*", "first", "newest"])
def test_keys_that_were_rotated_one_into_the_other_share_an_account(tenant, subject):
    key, _ = create_key(actor=SYSTEM, tenant=tenant, name="k", now=NOW)
    second, _ = rotate_key(actor=SYSTEM, key=key, overlap_s=3600, now=NOW)
    newest, _ = rotate_key(actor=SYSTEM, key=second, overlap_s=0, now=NOW)
    named = {"*": "*", "first": str(key.pk), "newest": str(newest.pk)}[subject]
    amount = Decimal(1000)
    limit = set_limit(
        actor=SYSTEM, tenant=tenant, scope="key", subject=named, kind="tokens_per_day", amount=amount, now=NOW
    )
    for one in (key, second, newest):
        store(tenant, key_id=str(one.pk))
    [of_tenant] = compile_limits(now=NOW)
    period = TenantRules(of_tenant).period(limit.kind, NOW.timestamp())
    counted = sum_by_subject(limit=limit, holder=tenant.pk, period=period, now=NOW)
    assert {name: sum(by_boot.values()) for name, by_boot in counted.items()} == {f"{tenant.pk}/{key.pk}": 300}
    assert of_tenant.key_origins == {str(second.pk): str(key.pk), str(newest.pk): str(key.pk)}
    if subject != "*":
        assert recount() == 2
        assert used(limit, tenant) == 300


def test_events_of_gateways_are_kept_once(client, tenant, limit):
    told = Told(at=NOW.timestamp(), what="near", limit_id=str(limit.pk), subject=f"{tenant.pk}/", used=800, limit=1000)
    client.lpush(EVENTS_KEY, msgspec.json.encode(told), b"nonsense")
    assert fetch_events(now=NOW) == 1
    assert fetch_events(now=NOW) == 0
    assert LimitEvent.objects.get().used == 800


def _later(seconds):
    return datetime.fromtimestamp(NOW.timestamp() + seconds, UTC)


def _now_ms():
    return int(datetime.now(UTC).timestamp() * 1000)
