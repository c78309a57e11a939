import random

import pytest

from workers.gateway.driving.lines import Line

pytestmark = pytest.mark.unit


def learned(points, *, is_flat=False):
    line = Line(is_flat=is_flat)
    for x, y in points:
        line.learn(x, y)
    return line


def test_a_noisy_line_is_found_and_trusted():
    noise = random.Random(3)  # noqa: S311 - a test
    points = [(x, (0.2 + 0.01 * x) * noise.uniform(0.8, 1.2)) for x in noise.choices(range(10, 1000), k=300)]
    line = learned(points)
    assert line.is_trusted
    assert line.error < 0.2
    assert line.expect(500) == pytest.approx(5.2, rel=0.1)


def test_a_line_that_was_hardly_seen_is_not_trusted():
    assert not Line(is_flat=True).is_trusted
    assert not learned([(10, 1.0)] * 3).is_trusted


def test_through_one_x_it_is_flat_or_goes_through_the_origin():
    assert learned([(4, 2.0)] * 10, is_flat=True).expect(8) == pytest.approx(2.0)
    assert learned([(4, 2.0)] * 10, is_flat=False).expect(8) == pytest.approx(4.0)


def test_neither_part_is_ever_negative():
    falling = learned([(x, 10.0 - x) for x in range(1, 9)])
    late = learned([(x, max(0.01, x - 5.0)) for x in range(1, 20)])
    assert falling.b == 0
    assert late.a == 0


def test_one_stall_teaches_little_and_a_lasting_change_is_learned():
    line = learned([(100, 1.0)] * 50, is_flat=True)
    line.learn(100, 1000.0)
    assert line.expect(100) < 1.1
    for _ in range(200):
        line.learn(100, 3.0)
    assert line.expect(100) == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize(("x", "y"), [(0, 1.0), (-1, 1.0), (1, 0.0), (1, -1.0)])
def test_what_cannot_be_is_ignored(x, y):
    assert learned([(x, y)]).count == 0
