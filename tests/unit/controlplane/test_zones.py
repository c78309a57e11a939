import pytest

from controlplane.zones import zone_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("said", "zone"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("", "UTC"),
        ("Mars/Base", "UTC"),
        ("../../etc/passwd", "UTC"),
        ("/etc/localtime", "UTC"),
        ("a\x00b", "UTC"),
        ("Europe", "UTC"),
        ("x" * 5000, "UTC"),
    ],
)
def test_a_name_that_no_zone_has_is_utc(said, zone):
    assert zone_of(said).key == zone
