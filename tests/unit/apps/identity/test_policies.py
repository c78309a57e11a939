import pyotp
import pytest
from cryptography.fernet import InvalidToken

from apps.identity import policies

pytestmark = pytest.mark.unit

SECRET = "JBSWY3DPEHPK3PXP" * 2
NOW = 1_800_000_000.0
RULES = {
    "ops": {"platform": "operator"},
    "devs": {"tenant": "gold", "role": "developer"},
    "leads": {"tenant": "gold", "role": "tenant_admin"},
}


def test_the_first_attempts_are_free_and_each_further_one_doubles_the_wait():
    assert [policies.wait_s(count, 3) for count in range(1, 7)] == [0, 0, 1, 2, 4, 8]
    assert policies.wait_s(10_000, 3) == policies.LONGEST_WAIT_S


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff%eth0", "2001:db8::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("", "unknown"),
        ("not an address", "unknown"),
    ],
)
def test_who_guesses_is_a_network(address, network):
    assert policies.network_of(address) == network


def test_a_known_browser_shares_no_count_with_anybody():
    known = policies.password_buckets(account="ada", address="192.0.2.7", device="d1")
    unknown = policies.password_buckets(account="ada", address="192.0.2.7", device="")
    assert len(known) == 1
    assert {bucket.name for bucket in known} & {bucket.name for bucket in unknown} == set()


def test_one_account_from_two_places_is_two_counts_and_spelling_does_not_matter():
    one = policies.password_buckets(account="Ada", address="192.0.2.7", device="")
    same = policies.password_buckets(account="ada", address="192.0.2.7", device="")
    other = policies.password_buckets(account="ada", address="192.0.2.8", device="")
    assert one == same
    assert {bucket.name for bucket in one} & {bucket.name for bucket in other} == set()


@pytest.mark.parametrize(("offset_s", "is_taken"), [(0, True), (-30, True), (30, True), (-90, False), (90, False)])
def test_a_code_is_good_for_its_step_and_those_beside_it(offset_s, is_taken):
    code = pyotp.TOTP(SECRET).at(int(NOW + offset_s))
    step = policies.matching_step(SECRET, code, NOW)
    assert (step == int(NOW + offset_s) // 30) if is_taken else (step is None)


@pytest.mark.parametrize("code", ["", "12345", "abcdef", "١٢٣٤٥٦", "0" * 500])
def test_what_is_no_code_matches_no_step(code):
    assert policies.matching_step(SECRET, policies.normal_code(code), NOW) is None


def test_codes_are_read_as_people_type_them():
    assert policies.normal_code(" ABCDE-fghij 12345 ") == "abcdefghij12345"


def test_a_sealed_secret_is_opened_by_the_same_key_only():
    sealed = policies.seal(SECRET, "key one")
    assert SECRET not in sealed
    assert policies.unseal(sealed, "key one") == SECRET
    with pytest.raises(InvalidToken):
        policies.unseal(sealed, "key two")


def test_groups_grant_what_their_rules_say_and_the_stronger_role_holds():
    granted = policies.grant(["devs", "leads", "ops", "unheard-of"], RULES)
    assert (granted.platform, granted.tenants) == (frozenset({"operator"}), {"gold": "tenant_admin"})
    assert policies.grant(["leads", "devs"], RULES).tenants == {"gold": "tenant_admin"}
    assert policies.grant([], RULES) == policies.Granted()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"g": 1}',
        '{"g": {}}',
        '{"g": {"platform": "king"}}',
        '{"g": {"tenant": "gold"}}',
        '{"g": {"tenant": "gold", "role": "operator"}}',
    ],
)
def test_rules_that_grant_nothing_we_know_are_refused(text):
    with pytest.raises(ValueError, match=r"."):
        policies.read_group_rules(text)


def test_rules_are_read_as_written():
    assert policies.read_group_rules('{"ops": {"platform": "operator"}}') == {"ops": {"platform": "operator"}}
    assert policies.read_group_rules("") == {}
