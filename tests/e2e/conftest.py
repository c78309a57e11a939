"""The whole stack and a real browser. Screenshots are kept in test-artifacts/."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import ConsoleMessage, Page

from tests.support.stack import ROOT, make_stack

_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def demo() -> Iterator[dict[str, Any]]:
    """The content of demo.json of a stack that is ready, with the fake engine."""
    with make_stack() as stack, stack.up() as supervisor:
        stack.wait_until_ready(supervisor)
        yield stack.demo


@pytest.fixture(scope="session")
def base_url(demo: dict[str, Any]) -> str:
    return demo["console_url"]


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    """Debian's chromium; on a machine without it the journey is skipped, except where CI must run it."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        missing = "chromium is not installed (Debian: apt-get install --no-install-recommends chromium)"
        if "CI" in os.environ:
            pytest.fail(missing)
        pytest.skip(missing)
    return {"executable_path": chromium, "args": list(_QUIET), "headless": True}


@pytest.fixture(scope="session")
def browser_context_args(base_url: str) -> dict[str, Any]:
    return {"base_url": base_url, "viewport": {"width": 1440, "height": 900}, "color_scheme": "light"}


@pytest.fixture(scope="session")
def screenshots() -> Path:
    directory = ROOT / "test-artifacts" / "screenshots"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.fixture
def complaints(page: Page) -> list[str]:
    """What the browser complained about: broken scripts, refused inline code, failed loads.

    A key that is younger than its snapshot is refused once or twice; the playground tries again, the browser notes it.
    """
    heard: list[str] = []
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("console", lambda message: heard.append(message.text) if _is_bad(message) else None)
    return heard


def _is_bad(message: ConsoleMessage) -> bool:
    return message.type == "error" and "401 (Unauthorized)" not in message.text
