"""Lists come in pages that miss nobody and repeat nobody, and show times as their reader has them."""

import re
from datetime import timedelta

import pytest
import time_machine

from apps.common.actors import SYSTEM
from apps.routing.services.routes import create_route
from apps.tenants.models import Membership, Tenant, User
from tests.factories.domain import NOW, make_version
from tests.factories.usage import ingest_records, make_record

pytestmark = pytest.mark.integration

COUNT = 60


def names_on(page, pattern):
    return re.findall(pattern, page.content.decode())


def walk(client, path, pattern):
    """What the pattern finds on each page, following the links to the next."""
    found = []
    while path:
        page = client.get(path)
        found.append(names_on(page, pattern))
        following = re.search(r'href="(\?[^"]*)">\s*(?:Next|Older)', page.content.decode())
        path = path.split("?")[0] + following[1].replace("&amp;", "&") if following else None
    return found


def test_tenants_come_by_name_each_once(yard, open_as):
    Tenant.objects.bulk_create(Tenant(name=f"many-{number:03d}", created_at=NOW) for number in range(COUNT))
    pages = walk(open_as("operator"), "/tenants/?q=many", r">(many-\d+)</a>")
    assert [len(page) for page in pages] == [50, 10]
    assert [name for page in pages for name in page] == [f"many-{number:03d}" for number in range(COUNT)]


def test_members_come_newest_first_each_once(yard, open_as):
    people = [User(username=f"many{number:03d}", date_joined=NOW) for number in range(COUNT)]
    User.objects.bulk_create(people)
    Membership.objects.bulk_create(
        Membership(tenant=yard.people.tenant, user=person, role="viewer", created_at=NOW) for person in people
    )
    pages = walk(open_as("owner"), f"/tenants/{yard.people.tenant.pk}/members/?q=many", r"Role of (many\d+)")
    assert [len(page) for page in pages] == [50, 10]
    assert len({name for page in pages for name in page}) == COUNT


@pytest.mark.parametrize(("sort", "falls"), [("since", False), ("-since", True)])
def test_a_list_is_sorted_over_all_its_pages(yard, open_as, sort, falls):
    """Many were opened in the same moment: those keep one order, too."""
    Tenant.objects.bulk_create(
        Tenant(name=f"many-{number:03d}", created_at=NOW + timedelta(days=number // 20)) for number in range(COUNT)
    )
    pages = walk(open_as("operator"), f"/tenants/?q=many&sort={sort}", r">(many-\d+)</a>")
    names = [name for page in pages for name in page]
    days = [int(name[-3:]) // 20 for name in names]
    assert days == sorted(days, reverse=falls)
    assert len(set(names)) == COUNT


def test_requests_are_sorted_by_what_they_took_through_all_their_pages(yard, open_as):
    people, node = yard.people, yard.node
    ids = {"tenant_id": str(people.tenant.pk), "key_id": str(yard.key.pk), "public_model": "sorted"}
    records = [make_record(**ids, total_ms=number % 7) for number in range(COUNT)]
    ingest_records(records=records, node_id=node.pk, now=NOW)
    path, took, after = "/requests/?first=2026-11-29&last=2026-11-29&model=sorted&sort=-total", [], ""
    while after is not None:
        listing = open_as("operator").get(path + (f"&after={after}" if after else "")).context["listing"]
        took += [record.total_ms for record in listing.rows]
        after = listing.next
    assert took == sorted((number % 7 for number in range(COUNT)), reverse=True)


def test_what_has_no_value_in_a_column_comes_last_either_way(yard, open_as):
    Tenant.objects.bulk_create(Tenant(name=f"bare-{number:03d}", created_at=NOW) for number in range(COUNT))
    for sort in ("weight", "-weight"):
        pages = walk(open_as("operator"), f"/tenants/?sort={sort}", r'tenants/[0-9a-f-]+/">([\w-]+)</a>')
        names = [name for page in pages for name in page]
        assert names[0] == yard.people.tenant.name
        assert len([name for name in names if name.startswith("bare-")]) == COUNT


def test_a_list_is_written_as_csv_with_what_the_filters_leave(yard, open_as):
    Tenant.objects.create(name="left-out", created_at=NOW)
    name = yard.people.tenant.name
    answer = open_as("operator").get(f"/tenants/?q={name}&sort=-name&as=csv")
    lines = b"".join(answer).decode().splitlines()
    assert answer["Content-Type"].startswith("text/csv")
    assert lines[0].startswith("tenant,service_class,")
    assert [line.split(",")[0] for line in lines[1:]] == [name]


@pytest.mark.parametrize(
    "path", ["/fleet/", "/deployments/", "/users/", "/tenants/{tenant}/members/", "/tenants/{tenant}/keys/"]
)
def test_every_list_has_its_file(yard, open_as, path):
    answer = open_as("platform_admin").get(path.format(tenant=yard.people.tenant.pk) + "?as=csv")
    assert len(b"".join(answer).decode().splitlines()) > 1


def test_models_and_routes_are_searched_by_a_part_of_their_name(yard, open_as):
    make_version("v9")
    operator = open_as("operator")
    assert "No such model" in operator.get("/models/?q=zzz").content.decode()
    assert "No such route" in operator.get("/routes/?q=zzz").content.decode()
    assert "demo-chat" in operator.get("/routes/?q=mo-ch").content.decode()


@pytest.mark.parametrize(
    "path",
    [
        "/tenants/?after=x",
        "/models/?after=x",
        "/routes/?after=x",
        "/users/?after=x",
        "/deployments/?after=x",
        "/fleet/?after=x",
    ],
)
def test_a_page_that_is_none_is_refused_in_words(path, open_as):
    assert open_as("platform_admin").get(path).status_code == 400


def test_times_are_the_readers_own(yard, open_as):
    owner = open_as("owner")
    path = f"/tenants/{yard.people.tenant.pk}/members/"
    assert " UTC</time>" in owner.get(path).content.decode()
    owner.cookies["tokenyard_zone"] = "Asia/Kolkata"
    shown = owner.get(path).content.decode()
    assert " IST</time>" in shown
    assert " UTC</time>" not in shown
    assert "<option selected>Asia/Kolkata</option>" in owner.get("/usage/").content.decode()


def labels_in(client, search=""):
    return {entry["label"] for entry in client.get("/palette/", {"q": search}).json()["entries"]}


def test_the_palette_finds_what_is_beyond_the_first_of_a_kind(yard, open_as):
    Tenant.objects.bulk_create(Tenant(name=f"many-{number:03d}", created_at=NOW) for number in range(210))
    operator = open_as("operator")
    assert "zz-last" not in labels_in(operator)
    Tenant.objects.create(name="zz-last", created_at=NOW)
    assert "zz-last" in labels_in(operator, "zz-l")


def test_the_palette_has_only_what_its_reader_may_reach(yard, open_as):
    assert {"New model", "demo-chat:v1", "monthly"} <= labels_in(open_as("operator"))
    stranger = labels_in(open_as("stranger"))
    assert stranger & {"New model", "demo-chat:v1", "monthly", yard.people.tenant.name, yard.node.name} == set()
    assert yard.people.owner.username not in labels_in(open_as("operator"))


def test_a_tenants_models_say_how_each_answered_and_at_what_price(yard, open_as):
    """The yard's one request was for demo-chat; nobody asked for the other."""
    route = create_route(actor=SYSTEM, public_name="quiet", weights={yard.deployment.version_id: 1}, now=NOW)
    with time_machine.travel(NOW + timedelta(hours=1), tick=False):
        page = open_as("viewer").get(f"/tenants/{yard.people.tenant.pk}/models/?model={route.public_name}")
    counts = {row["offer"].name: row["served"].request_count for row in page.context["rows"]}
    assert counts == {"demo-chat": 1, "quiet": 0}
    assert "Quick start with quiet" in page.content.decode()
    assert "YOUR_KEY" in page.content.decode()


def test_what_was_marked_in_a_chart_leaves_the_requests_of_that_time(yard, open_as):
    arrivals = [NOW + timedelta(seconds=second) for second in (10, 70, 130)]
    records = [make_record(tenant_id=str(yard.people.tenant.pk), arrived_at=at.timestamp()) for at in arrivals]
    ingest_records(records=records, node_id=yard.node.pk, now=NOW + timedelta(minutes=5))
    days = f"first={NOW:%Y-%m-%d}&last={NOW:%Y-%m-%d}"
    span = {"since": NOW + timedelta(seconds=60), "until": NOW + timedelta(seconds=120)}
    marked = "&".join(f"{name}={at:%Y-%m-%dT%H:%M:%S}Z" for name, at in span.items())
    page = open_as("operator").get(f"/requests/?{days}&{marked}")
    assert [row["record"].arrived_at for row in page.context["rows"]] == [arrivals[1]]


@pytest.mark.parametrize("moment", ["yesterday", "2026-11-29T10:00:00", "99999-01-01T00:00:00Z"])
def test_a_time_that_is_none_is_refused_with_what_it_should_be(open_as, moment):
    assert open_as("operator").get(f"/requests/?since={moment}").status_code == 400
