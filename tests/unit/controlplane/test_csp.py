import pytest

from controlplane.csp import policy_header

pytestmark = pytest.mark.unit


def test_the_page_may_call_itself_its_socket_and_the_gateway():
    header = policy_header("http://127.0.0.1:8000", "http://127.0.0.1:8080")
    assert "connect-src 'self' ws://127.0.0.1:8000 http://127.0.0.1:8080;" in header


def test_the_socket_of_a_secure_page_is_secure():
    assert "wss://yard.example" in policy_header("https://yard.example", "https://gw.example")


def test_no_script_may_stand_in_the_page():
    assert "script-src 'self';" in policy_header("http://a", "http://b")
