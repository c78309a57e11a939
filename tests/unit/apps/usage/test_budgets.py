from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from apps.usage.policies.forecast import Reached, forecast_usd, month_of, reached
from apps.usage.policies.webhooks import MAX_ATTEMPTS, may_reach, next_try_at, signature, target_of

pytestmark = pytest.mark.unit

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def test_a_month_is_that_of_the_zone():
    late = datetime(2026, 11, 30, 20, tzinfo=UTC)
    assert month_of(late, ZoneInfo("UTC")).first_day == date(2026, 11, 1)
    kolkata = month_of(late, ZoneInfo("Asia/Kolkata"))
    assert (kolkata.first_day, kolkata.start) == (date(2026, 12, 1), datetime(2026, 11, 30, 18, 30, tzinfo=UTC))
    assert kolkata.end == datetime(2026, 12, 31, 18, 30, tzinfo=UTC)


def test_the_forecast_goes_on_at_the_pace_of_the_last_week():
    month = month_of(NOON, ZoneInfo("UTC"))
    expected = forecast_usd(
        spent_usd=Decimal(50), recent_usd=Decimal(70), now=month.end - timedelta(days=2), month=month
    )
    assert expected == 50 + 20
    assert forecast_usd(spent_usd=Decimal(50), recent_usd=Decimal(70), now=month.end, month=month) == 50


def test_a_threshold_is_reached_by_the_spend_or_else_by_the_forecast():
    found = reached([100, 50, 80], amount_usd=Decimal(100), spent_usd=Decimal(50), expected_usd=Decimal(99))
    assert found == [Reached(50, is_forecast=False), Reached(80, is_forecast=True)]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://example.com/",
        "https://",
        "https://user:secret@example.com/",
        "https://example.com:99999/",
        "file:///etc/passwd",
        "https://exa mple.com/",
        "https://example.com/\r\nx: y",
        "https://example.com/#part",
        "https://[::1",
    ],
)
def test_what_is_no_address_for_a_webhook_is_refused(url):
    assert target_of(url) is None


def test_an_address_is_taken_apart():
    target = target_of("https://example.com/a?b=c")
    assert (target.host, target.port, target.path, target.is_tls) == ("example.com", 443, "/a?b=c", True)
    assert target_of("http://example.com").path == "/"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "100.64.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
        "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
    ],
)  # fmt: skip
def test_an_address_that_only_we_can_reach_is_never_called(address):
    assert not may_reach(address, host="evil.example", trusted_hosts=[])


def test_public_addresses_are_called_and_private_ones_that_the_operator_trusts():
    assert may_reach("93.184.216.34", host="example.com", trusted_hosts=[])
    assert may_reach("2606:4700::1111", host="example.com", trusted_hosts=[])
    assert may_reach("10.0.0.9", host="chat.internal", trusted_hosts=["chat.internal"])


def test_a_signature_depends_on_the_key_the_time_and_every_byte():
    made = signature("key", b"body", sent_at_s=5)
    assert made.startswith("t=5,v1=")
    others = {
        signature("other", b"body", sent_at_s=5),
        signature("key", b"bodY", sent_at_s=5),
        signature("key", b"body", sent_at_s=6),
    }
    assert made not in others
    assert len(others) == 3


def test_it_is_tried_again_ever_later_and_given_up():
    waits = [next_try_at(attempts, NOON) - NOON for attempts in range(1, MAX_ATTEMPTS)]
    assert waits[:3] == [timedelta(minutes=1), timedelta(minutes=4), timedelta(minutes=16)]
    assert next_try_at(MAX_ATTEMPTS, NOON) is None
