"""One person's way through the console, against everything that runs in production but the model."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.browsing import sign_in

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ARRIVES_MS = 30_000
PROMPT = "Say hello in five words."


@pytest.fixture
def operator(demo):
    return next(login for login in demo["logins"] if login["role"] == "operator")


def test_sign_in_create_tenant_and_key_chat_in_the_playground_see_the_cost(
    page, demo, operator, complaints, screenshots
):
    def keep(name):
        page.screenshot(path=screenshots / f"{name}.png", full_page=True)

    sign_in(page, operator)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator("[data-link-text]")).to_have_text("Live", timeout=ARRIVES_MS)
    expect(page.locator('[data-live="snapshot_context"]')).to_have_text(
        re.compile(r"active on 1 of 1"), timeout=ARRIVES_MS
    )
    keep("1-overview")

    page.goto("/tenants/new/")
    page.get_by_label("Name").fill("acme")
    page.get_by_role("button", name="Open the tenant").click()
    expect(page.get_by_role("heading", name="acme", exact=True)).to_be_visible()
    keep("2-tenant")

    page.get_by_role("link", name="Manage keys").click()
    page.get_by_role("button", name="New key").click()
    page.get_by_role("dialog").get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Create key").click()
    secret = page.locator("#new-key-text")
    expect(secret).to_have_text(re.compile(r"^ty-[a-z0-9]{8}-"))
    expect(page.locator("#quick-curl-text")).to_contain_text(secret.inner_text())
    keep("3-key")
    page.reload()
    expect(secret).to_have_count(0)

    page.get_by_role("link", name="acme", exact=True).click()
    page.get_by_role("link", name="Playground", exact=True).click()
    page.get_by_label("Model").select_option(demo["model"])
    page.get_by_label("Message").fill(PROMPT)
    page.get_by_role("button", name="Send").click()
    expect(page.locator('[data-figure="output"]')).to_have_text(re.compile(r"\d+ tokens"), timeout=ARRIVES_MS)
    expect(page.locator('[data-figure="ttft"]')).to_have_text(re.compile(r"\d+ ms"))
    expect(page.locator('[data-figure="cost"]')).to_have_text(re.compile(r"\$0\.0*[1-9]"), timeout=ARRIVES_MS)
    cost = page.locator('[data-figure="cost"]').inner_text().strip()
    keep("4-playground")

    page.get_by_role("link", name=f"{cost} · record").click()
    expect(page.locator(".stat-value").first).to_have_text(cost)
    keep("5-record")

    page.goto("/usage/?range=today")
    page.get_by_role("link", name="acme", exact=True).click()
    expect(page.locator(".stat-value").first).to_have_text(cost)
    keep("6-cost")
    assert complaints == []


def test_a_canary_is_moved_in_the_browser_and_every_gateway_follows(page, demo, operator, complaints, screenshots):
    sign_in(page, operator)
    page.goto("/routes/")
    page.get_by_role("link", name=demo["model"], exact=True).click()
    expect(page.locator("[data-share]").first).to_have_text("90 %")
    weights = page.locator("[data-weight]")
    weights.nth(0).fill("70")
    weights.nth(1).fill("30")
    expect(page.locator("[data-share]").first).to_have_text("70 %")
    before = generation_of(page)
    page.get_by_role("button", name="Review the change").click()
    expect(page.locator("#review")).to_contain_text("90 %")
    page.screenshot(path=screenshots / "7-canary.png", full_page=True)
    page.get_by_role("button", name="Apply to every gateway").click()
    expect(page.get_by_text("is split anew")).to_be_visible()
    page.goto("/overview/")
    expect(page.locator('[data-live="snapshot_generation"]')).to_have_text(
        f"generation {before + 1}", timeout=ARRIVES_MS
    )
    expect(page.locator('[data-live="snapshot_context"]')).to_have_text("active on 1 of 1 gateways", timeout=ARRIVES_MS)
    assert complaints == []


def test_a_replica_that_comes_is_in_the_table_of_a_page_that_is_open(page, demo, operator, complaints):
    sign_in(page, operator)
    page.goto("/deployments/")
    page.get_by_role("link", name=f"{demo['model']}-v1", exact=True).click()
    rows = page.locator("#replicas tbody tr")
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Scale", exact=True).click()
    page.locator("#scale input[name=replica_count]").fill("2")
    page.locator("#scale").get_by_role("button", name="Scale", exact=True).click()
    expect(rows).to_have_count(2, timeout=ARRIVES_MS)
    expect(page.locator("#rollout")).to_contain_text("done", timeout=ARRIVES_MS)
    assert complaints == []


def generation_of(page):
    return int(re.search(r"generation (\d+)", page.locator(".entity-line").inner_text()).group(1))


def test_a_tenant_sees_its_own_and_nothing_of_the_others(page, demo, complaints, screenshots):
    login = next(login for login in demo["logins"] if login["tenant"] == "gold")
    sign_in(page, login)
    expect(page.get_by_role("heading", name="Home of gold")).to_be_visible()
    page.screenshot(path=screenshots / "8-tenant-home.png", full_page=True)
    page.get_by_role("link", name="Usage and cost").first.click()
    expect(page.get_by_label("Tenant", exact=True)).to_have_count(0)
    assert complaints == []
    assert page.goto("/overview/").status == 403


def test_no_page_is_wider_than_a_phone(page, demo, operator):
    sign_in(page, operator)
    page.set_viewport_size({"width": 390, "height": 800})
    for name in ("overview", "fleet", "requests", "models", "deployments", "routes", "tenants", "usage", "audit"):
        page.goto(f"/{name}/")
        assert excess_width(page) == 0, name
    page.goto("/requests/")
    page.goto(page.locator("a[href^='/requests/0']").first.get_attribute("href"))
    assert excess_width(page) == 0, "a request"


def excess_width(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
