"""The finance pages: a change is shown before it is made, figures are those of REST, and every step is audited."""

import re
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.utils.timezone import now
from psycopg.types.multirange import Multirange
from psycopg.types.range import Range

from apps.audit.models import AuditEntry
from apps.usage.models import Budget, PriceEntry, Rerating, TenantDiscount, UsageRecord, UsageSource
from apps.usage.services.rating import price_unpriced
from apps.usage.services.rerating import run_reratings
from tests.factories.domain import NOW

pytestmark = pytest.mark.integration

PRICE = {
    "input_usd": "0.15",
    "cached_input_usd": "0.075",
    "output_usd": "0.60",
    "request_usd": "0.001",
    "batch_discount_percent": "50",
    "effective_from": "2026-11-01 00:00",
}


def test_a_price_is_shown_before_it_is_in_the_book_and_is_exact(yard, open_as):
    finance, model = open_as("finance"), yard.deployment.version.model
    form = PRICE | {"model": str(model.pk)}
    shown = finance.post("/prices/new/", form)
    assert "What this will do" in shown.content.decode()
    assert PriceEntry.objects.count() == 0
    assert finance.post("/prices/new/", form | {"confirmed": "1"}).status_code == 302
    line = PriceEntry.objects.get()
    assert (line.input_pico_usd, line.cached_input_pico_usd, line.output_pico_usd) == (150_000, 75_000, 600_000)
    assert (line.request_pico_usd, line.batch_discount_bp, line.model) == (10**9, 5000, model)
    assert AuditEntry.objects.filter(action="price.set", actor_name="money").count() == 1


def test_a_price_is_reviewed_beside_what_holds_and_until_when_it_does(yard, open_as):
    finance, version = open_as("finance"), str(yard.deployment.version.pk)
    for since, usd in (("2026-11-01 00:00", "0.15"), ("2026-11-20 00:00", "0.25")):
        late = PRICE | {"version": version, "input_usd": usd, "effective_from": since, "confirmed": "1"}
        assert finance.post("/prices/new/", late).status_code == 302
    form = PRICE | {"version": version, "input_usd": "0.33", "effective_from": "2026-11-10 00:00"}
    shown = finance.post("/prices/new/", form).content.decode()
    assert re.search(r'class="right was">0.15</td>\s*<td class="right fw-medium">0.33</td>', shown)
    assert re.search(r"It holds until .*2026-11-20 00:00.* only", shown)
    assert "&quot;input_pico_usd&quot;: 330000" in shown
    finance.post("/prices/new/", form | {"effective_from": "2026-11-20 00:00", "confirmed": "1"})
    book = finance.get("/prices/").content.decode()
    states = re.findall(r'data-state="\w+" title="">(active|superseded|pending)<', book)
    assert states == ["active", "superseded", "superseded"]
    assert PriceEntry.objects.count() == 3


@pytest.mark.parametrize(
    "fault", [{"input_usd": "-1"}, {"input_usd": "NaN"}, {"cached_input_usd": "9"}, {"model": "x"}, {}]
)
def test_a_price_that_makes_no_sense_is_refused_beside_its_field(yard, open_as, fault):
    form = PRICE | {"model": str(yard.deployment.version.model.pk)} | fault | {"confirmed": "1"}
    if not fault:
        form.pop("model")
    answer = open_as("finance").post("/prices/new/", form)
    assert answer.status_code == 200
    assert 'role="alert"' in answer.content.decode()
    assert PriceEntry.objects.count() == 0


def test_a_discount_is_typed_in_per_cent(yard, open_as):
    form = {"tenant": str(yard.people.tenant.pk), "percent": "12.5", "confirmed": "1"}
    assert open_as("finance").post("/prices/discount/", form).status_code == 302
    assert TenantDiscount.objects.get().discount_bp == 1250


def test_where_records_come_from_is_told_by_the_nodes_name(yard, open_as):
    for node_id, boot in ((yard.node.pk, "one"), (uuid4(), "other")):
        UsageSource.objects.create(
            gateway_id=str(node_id), boot_id=boot, node_id=node_id, received=Multirange([Range(1, 3)]),
            first_received_at=now(), last_received_at=now(),
        )  # fmt: skip
    page = open_as("finance").get("/records/").content.decode()
    assert f'title="{yard.node.pk}">{yard.node.name}<' in page
    assert "a removed node" in page


def test_a_rerating_is_previewed_confirmed_and_shown_by_tenant(yard, open_as):
    finance = open_as("finance")
    finance.post("/prices/new/", PRICE | {"version": str(yard.deployment.version.pk), "confirmed": "1"})
    start = {
        "start": (NOW - timedelta(days=2)).strftime("%Y-%m-%d %H:%M"),
        "end": "2026-11-30 00:00",
        "reason": "late contract",
    }
    place = finance.post("/reratings/", start)["Location"]
    assert "It is at work" in finance.get(place).content.decode()
    run_reratings(now=NOW)
    cost_before = UsageRecord.objects.get().cost_usd
    page = finance.get(place).content.decode()
    assert "What it would change" in page
    assert "gold" in page
    assert finance.post(place + "apply/").status_code == 302
    run_reratings(now=NOW)
    assert "What it changed" in finance.get(place).content.decode()
    row = Rerating.objects.order_by("-number").first()
    assert UsageRecord.objects.get().cost_usd == Decimal(8 * 150_000 + 4 * 75_000 + 7 * 600_000 + 10**9) / 10**12
    assert row.state == "applied"
    steps = AuditEntry.objects.filter(subject_id=str(row.pk)).order_by("id").values_list("action", "actor_name")
    people = ["money", "money", "system"]
    assert list(steps) == list(zip(["rerating.started", "rerating.applying", "rerating.applied"], people, strict=True))
    assert AuditEntry.objects.get(action="rerating.applied").after == {
        "records": 1,
        "changed": 1,
        "before_usd": str(cost_before),
        "after_usd": str(UsageRecord.objects.get().cost_usd),
    }
    told = re.sub(r"<[^>]+>|\s+", " ", finance.get(place).content.decode())
    assert re.search(r"money +started +re-rating \d", told)
    for decide in ("apply/", "cancel/"):  # somebody else decided first, in another tab
        back = finance.post(place + decide, follow=True)
        assert back.redirect_chain == [(place, 302)]
        assert f"Re-rating {row.number} is applied, not previewed." in back.content.decode()


def test_a_rerating_that_would_change_nothing_is_not_offered(yard, open_as):
    finance = open_as("finance")
    finance.post("/prices/new/", PRICE | {"version": str(yard.deployment.version.pk), "confirmed": "1"})
    start = {"start": (NOW - timedelta(days=2)).strftime("%Y-%m-%d %H:%M"), "end": "2026-11-30 00:00", "reason": "x"}
    for _ in range(2):
        place = finance.post("/reratings/", start)["Location"]
        run_reratings(now=NOW)
        finance.post(place + "apply/")
        run_reratings(now=NOW)
    place = finance.post("/reratings/", start)["Location"]
    run_reratings(now=NOW)
    page = finance.get(place).content.decode()
    assert "Nothing would change" in page
    assert "Apply to" not in page


def test_a_budget_is_made_by_the_tenants_admin_for_its_own_tenant_only(yard, open_as):
    form = {
        "name": "ours",
        "amount_usd": "5",
        "zone": "UTC",
        "thresholds": "50, 100",
        "webhook_url": "https://example.com/x",
    }
    owner = open_as("owner")
    assert owner.post("/budgets/new/", form | {"tenant": str(yard.people.other.pk)}).status_code == 200
    assert not Budget.objects.filter(name="ours").exists()
    made = owner.post("/budgets/new/", form | {"tenant": str(yard.people.tenant.pk)}).content.decode()
    assert "shown now and never again" in made
    assert Budget.objects.get(name="ours").tenant == yard.people.tenant
    assert owner.post("/budgets/new/", form | {"thresholds": "x"}).status_code == 200


def test_what_is_unpriced_is_shown_as_unknown_and_not_as_free(yard, open_as):
    page = open_as("finance").get(f"/requests/{yard.record.record_id}/").content.decode()
    assert "waits for a price" in page
    assert "$0.00" not in page


@pytest.mark.parametrize("by", ["model", "tenant", "key", "day"])
def test_sums_of_what_is_unpriced_are_unknown_too(yard, open_as, by):
    day = UsageRecord.objects.get().arrived_at.date()
    page = open_as("finance").get(f"/usage/?by={by}&first={day}&last={day}").content.decode()
    assert "have no price yet" in page
    assert page.count("no price was in force; it is priced once there is one") == 3  # the figure, the row, the total
    assert price_version(yard) == 1
    page = open_as("finance").get(f"/usage/?by={by}&first={day}&last={day}").content.decode()
    assert "no price was in force" not in page


def price_version(yard):
    amounts = {"input_pico_usd": 5, "cached_input_pico_usd": 1, "output_pico_usd": 9}
    since = NOW - timedelta(days=300)
    PriceEntry.objects.create(version=yard.deployment.version, effective_from=since, created_at=NOW, **amounts)
    return price_unpriced()


def test_a_record_is_found_by_its_own_id(yard, open_as):
    place = f"/requests/{yard.record.record_id}/"
    pages = [
        open_as(who).get(f"/requests/?q={yard.record.record_id}").content.decode() for who in ("finance", "stranger")
    ]
    assert [place in page for page in pages] == [True, False]


@pytest.mark.parametrize("query", ["month=2026-13", "month=x", "tenant=1", "tz=Mars"])
def test_a_statement_of_no_month_is_refused_in_words(yard, open_as, query):
    answer = open_as("finance").get(f"/statements/?{query}")
    assert answer.status_code == 400
    assert "makes no sense" in answer.content.decode()


def test_a_row_of_the_usage_page_leads_to_its_records_by_every_group(yard, open_as):
    finance = open_as("finance")
    for group in ("version", "end_user", "workflow", "hour"):
        assert finance.get(f"/usage/?by={group}&first=2026-11-29&last=2026-11-29").status_code == 200
    other = "00000000-0000-7000-8000-000000000000"
    dates = "first=2026-11-29&last=2026-11-29"
    assert str(yard.record.record_id) in finance.get(f"/requests/?{dates}").content.decode()
    assert str(yard.record.record_id) not in finance.get(f"/requests/?{dates}&version={other}").content.decode()
