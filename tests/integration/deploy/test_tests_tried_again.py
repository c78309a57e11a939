"""`make test` tries what failed once more, alone: chance passes then, a defect does not."""

import pytest

from deploy.tests import Part

pytestmark = pytest.mark.integration

_BY_CHANCE = """
from pathlib import Path

def test_that_fails_the_first_time():
    seen = Path(__file__).with_suffix(".seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""


def part(directory, source):
    tests = directory / "test_it.py"
    tests.write_text(source)
    return Part("it", [str(tests), "--rootdir", str(directory), "-q"], str(directory))


_ALWAYS = "def test_{number}():\n    assert False\n"


@pytest.mark.parametrize(
    ("source", "tried_again", "code"),
    [
        (_BY_CHANCE, True, 0),
        (_ALWAYS.format(number=1), True, 1),
        ("".join(_ALWAYS.format(number=number) for number in range(6)), False, 1),
        ("import no_such_module\n", False, 2),
    ],
    ids=["by chance", "always", "six of them", "cannot be read"],
)
def test_what_failed_is_tried_once_more(tmp_path, capfd, source, tried_again, code):
    it = part(tmp_path, source)
    assert it.settled(it.start(None).wait()) == code
    assert ("once more, alone" in capfd.readouterr().out) == tried_again
