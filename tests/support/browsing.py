"""What a person does in a browser on every way through the console."""

from typing import Any

from playwright.sync_api import Page


def sign_in(page: Page, login: dict[str, Any]) -> None:
    page.goto("/")
    page.get_by_label("User name or email").fill(login["username"])
    page.get_by_label("Password").fill(login["password"])
    page.get_by_role("button", name="Sign in").click()
