"""What only a real browser shows: forms that come by letter, parts that are fetched, times in the reader's zone."""

import re

import pytest
import requests
from playwright.sync_api import Browser, Page, expect

from tests.support.browsing import sign_in

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ARRIVES_MS = 30_000
ZONE = "Asia/Kolkata"


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args):
    return {**browser_context_args, "timezone_id": ZONE}


@pytest.fixture
def admin(demo):
    return next(login for login in demo["logins"] if login["role"] == "tenant_admin")


def open_from_rail(page: Page, name):
    page.locator("#rail").get_by_role("link", name=name).click()


def test_an_invited_person_joins_by_the_link_of_the_letter_and_only_once(
    page, browser: Browser, demo, admin, complaints
):
    sign_in(page, admin)
    open_from_rail(page, "Members")
    page.get_by_role("button", name="Invite").click()
    page.get_by_role("dialog").get_by_label("Email").fill("guest@example.org")
    page.get_by_role("dialog").get_by_role("button", name="Invite").click()
    link = page.locator("#invitation-link").inner_text()
    expect(page.locator("time", has_text="IST").first).to_be_visible()

    guest = browser.new_context(base_url=demo["console_url"]).new_page()
    guest.goto(link)
    guest.get_by_label("User name").fill("guest")
    guest.get_by_label("New password").fill("a long password 1")
    guest.get_by_role("button", name="Make the account and join").click()
    expect(guest.get_by_role("heading", name=re.compile("Home of"))).to_be_visible()

    late = browser.new_context(base_url=demo["console_url"]).new_page()
    late.goto(link)
    expect(late.get_by_role("heading", name="This invitation no longer works")).to_be_visible()
    assert complaints == []


def test_what_was_typed_is_back_after_a_session_ended_meanwhile_and_is_sent_once(page, context, admin):
    sign_in(page, admin)
    open_from_rail(page, "Members")
    page.get_by_role("button", name="Service account").click()
    page.get_by_role("dialog").get_by_label("Name").fill("typed-early")
    context.clear_cookies(name="tokenyard_session")
    page.get_by_role("dialog").get_by_role("button", name="Create").click()

    page.get_by_label("User name or email").fill(admin["username"])
    page.get_by_label("Password").fill(admin["password"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("dialog").get_by_label("Name")).to_have_value("typed-early")
    expect(page.get_by_text("what you had typed is back")).to_be_visible()

    page.get_by_role("dialog").get_by_role("button", name="Create").dblclick()
    expect(page.get_by_role("heading", name=re.compile("typed-early"))).to_be_visible()
    page.get_by_role("link", name="Members", exact=True).last.click()
    expect(page.locator("tbody tr", has_text="typed-early")).to_have_count(1)


def test_a_tenant_that_keeps_prompts_reads_one_when_somebody_presses_for_it(page, demo, admin, complaints):
    sign_in(page, admin)
    open_from_rail(page, "Prompts")
    page.get_by_label("Kept for, days").fill("2")
    page.get_by_role("button", name="Keep prompts").click()
    expect(page.get_by_text("kept", exact=True)).to_be_visible()

    tenant = admin["username"].removesuffix("-admin")
    key = demo["tenants"][tenant]["api_key"]
    body = {"model": demo["model"], "messages": [{"role": "user", "content": "Where is the penguin?"}], "max_tokens": 4}
    found = page.locator("tbody tr a")
    for _ in range(20):
        requests.post(f"{demo['gateway_url']}/v1/chat/completions", json=body, headers={"x-api-key": key}, timeout=30)
        page.goto("/requests/?prompt=PENGUIN")
        if found.count():
            break
        page.wait_for_timeout(1000)
    found.first.click()
    expect(page.get_by_text("Where is the penguin?")).to_have_count(0)
    page.get_by_role("button", name="Show the prompt").click()
    expect(page.get_by_text("Where is the penguin?")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Requests")).to_be_visible()
    assert complaints == []
