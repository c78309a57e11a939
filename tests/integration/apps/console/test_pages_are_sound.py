"""What holds for every page: no inline code, nothing from elsewhere, unique ids, a name for every field."""

import pytest

from apps.console.urls import urlpatterns
from tests.integration.apps.console.test_who_may_open_what import GET, OPERATORS, THEIR_OWN, address
from tests.support.html import Page

pytestmark = pytest.mark.integration

NOT_PAGES = {"home", "palette", "playground_record"}
PAGES = sorted(set(GET) - NOT_PAGES)
PARTS = {"requests_newer"}


def page_of(client, name, yard):
    response = client.get(address(name, yard))
    assert response.status_code == 200
    return response


@pytest.fixture
def pages(yard, open_as):
    """Every page as the operator gets it, by name."""
    operator = open_as("operator")
    return {name: page_of(operator, name, yard) for name in PAGES}


def test_no_page_holds_inline_code_or_fetches_anything_from_elsewhere(pages):
    for name, response in pages.items():
        assert Page(response.content.decode()).problems == [], name


def test_every_page_forbids_inline_code(pages):
    for response in pages.values():
        directives = dict(part.strip().split(" ", 1) for part in response["Content-Security-Policy"].split(";"))
        assert directives["script-src"] == directives["style-src"] == "'self'"


def test_an_id_occurs_once_on_a_page(pages):
    for name, response in pages.items():
        ids = Page(response.content.decode()).ids
        assert [each for each in ids if ids.count(each) > 1] == [], name


def test_every_field_has_a_name_that_is_read_out(pages):
    for name, response in pages.items():
        assert Page(response.content.decode()).nameless_fields == [], name


def test_a_page_says_its_title_once_and_is_never_cached(pages):
    for name in set(PAGES) - PARTS:
        text = pages[name].content.decode()
        assert text.count("<h1") == 1, name
        assert " · Tokenyard</title>" in text, name
        assert pages[name]["Cache-Control"] == "no-store", name


@pytest.mark.parametrize(
    "query",
    [
        "tz=Mars",
        "tenant=x",
        "user=%00",
        "key=1",
        "first=0001-01-01&last=0001-01-02",
        "first=2026-01-02&last=2026-01-01",
    ],
)
@pytest.mark.parametrize("name", ["usage", "requests"])
def test_a_damaged_address_is_refused_in_words(name, query, yard, open_as):
    response = open_as("operator").get(f"{address(name, yard)}?{query}")
    assert response.status_code == 400
    assert "makes no sense" in response.content.decode()


@pytest.mark.parametrize("name", ["usage", "requests", "audit", "tenants"])
def test_a_value_that_matches_nothing_finds_nothing(name, yard, open_as):
    operator, path = open_as("operator"), address(name, yard)
    queries = ["q=%00", "outcome=%00", "model=%00", "by=%00", "sort=%00", "range=%00", "q=" + "x" * 3000]
    assert {query: operator.get(f"{path}?{query}").status_code for query in queries} == dict.fromkeys(queries, 200)


def test_a_refusal_looks_like_the_console_and_tells_nothing(yard, open_as):
    stranger = open_as("stranger")
    for name in (name for name, statuses in GET.items() if statuses == OPERATORS):
        text = stranger.get(address(name, yard)).content.decode()
        assert "This page is not for your role" in text, name
        assert "gold" not in text, name


def test_what_belongs_to_others_is_not_there(yard, open_as):
    stranger = open_as("stranger")
    for name in (name for name, statuses in GET.items() if statuses == THEIR_OWN):
        text = stranger.get(address(name, yard)).content.decode()
        assert "There is nothing at this address" in text, name
        assert "gold" not in text, name


def test_no_page_of_a_stranger_names_the_other_tenant(yard, open_as):
    client = open_as("stranger")
    for pattern in urlpatterns:
        if not pattern.pattern.converters and pattern.name not in {"sign_in", "sign_out"}:
            shown = b"".join(client.get(address(pattern.name, yard), follow=True))
            assert b"gold" not in shown, pattern.name
