"""The policy lab in a real browser: a trace of one's own, from the file to the table side by side."""

import pytest
from playwright.sync_api import expect

from tests.support.browsing import sign_in

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

DONE_MS = 120_000
TRACE = b"t_s,in,out\n" + b"".join(b"%.1f,1500,40\n" % (number / 4) for number in range(400))


def test_a_trace_of_ones_own_is_compared_side_by_side(page, demo, complaints, screenshots):
    sign_in(page, next(login for login in demo["logins"] if login["role"] == "operator"))
    page.goto("/lab/")
    page.get_by_label("Trace", exact=True).select_option("upload")
    page.get_by_label("Replicas", exact=True).fill("1")
    page.get_by_label("Trace of your own").set_input_files(
        {"name": "mine.csv", "mimeType": "text/csv", "buffer": TRACE}
    )
    page.get_by_role("button", name="Run side by side").click()
    expect(page.get_by_role("heading", name="Side by side")).to_be_visible(timeout=DONE_MS)
    expect(page.locator("#lab-run").get_by_text("done")).to_be_visible(timeout=DONE_MS)
    for shown in ("tokenyard", "least-outstanding"):
        expect(page.get_by_role("cell", name=shown, exact=True)).to_be_visible()
    for heading in ("In SLO", "Jain", "Cache hits", "Per request in SLO", "Per workflow in time", "Replicas needed"):
        expect(page.get_by_role("columnheader", name=heading, exact=True)).to_be_visible()
    for heading in ("By class", "By tenant"):
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
    page.screenshot(path=screenshots / "policy-lab.png", full_page=True)
    assert complaints == []
