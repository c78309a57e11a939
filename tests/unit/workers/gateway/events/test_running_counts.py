import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.gateway.events.running_counts import CountsByChoice, running_count

pytestmark = pytest.mark.unit

NUMBERS = st.integers(0, 999_999_999)


def count(prompt: object, output: object, total: object = 12) -> bytes:
    return b'"prompt_tokens":%a,"total_tokens":%a,"completion_tokens":%a}}' % (prompt, total, output)


def read(pattern: bytes, event: bytes) -> tuple[int, int]:
    counts = running_count(pattern)
    assert counts is not None
    if not event.startswith(counts.lead):
        return -1, 0
    return counts.end_of_event(event, len(counts.lead)), counts.output_tokens


@given(NUMBERS, NUMBERS, NUMBERS)
def test_the_next_count_of_the_same_prompt_is_read_and_its_event_ends_behind_it(prompt, output, total):
    event = count(prompt, output, total) + b"\n\n"
    counts = running_count(count(prompt, 1))
    assert counts is not None
    assert event.startswith(counts.lead)
    assert counts.end_of_event(event + b"data: more", len(counts.lead)) == len(event)
    assert (counts.input_tokens, counts.output_tokens) == (prompt, output)


@pytest.mark.parametrize(
    "event",
    [
        count(8, 2) + b"\n\n",  # another prompt
        count(9, 2),  # not whole
        count(9, 2) + b"\n",
        count(9, "") + b"\n\n",
        count(9, 2, "") + b"\n\n",
        count(9, -2) + b"\n\n",
        count(9, 1.5) + b"\n\n",
        count(9, 10**9) + b"\n\n",
        b'"prompt_tokens":9,"total_tokens":12,"completion_tokens":02}}\n\n',
        b'"prompt_tokens":9,"total_tokens":12,"completion_tokens":2,"x":{}}}\n\n',
        b'"completion_tokens":2,"prompt_tokens":9,"total_tokens":12}}\n\n',
        b"",
    ],
)
def test_a_count_in_other_words_is_left_to_others(event):
    assert read(count(9, 1), event)[0] == -1


@pytest.mark.parametrize(
    "pattern",
    [
        b"",
        b'"completion_tokens":2,"prompt_tokens":9}}',
        b'"prompt_tokens":09,"total_tokens":12,"completion_tokens":2}}',
    ],
)
def test_what_is_no_such_count_is_no_pattern(pattern):
    assert running_count(pattern) is None


def test_a_count_that_was_read_stands_beside_those_that_were_written():
    counts = CountsByChoice()
    counts.note(b"0", b"old")
    counts.note_running(9, 2)
    assert (counts.input_tokens, counts.output_tokens) == (9, 2)
    assert counts.by_choice() == {b"0": b'{"prompt_tokens":9,"completion_tokens":2}'}
    assert counts.output_tokens < 0


def test_of_several_choices_no_count_stands_alone():
    counts = CountsByChoice()
    counts.note(b"0", b"first")
    counts.note(b"1", b"other")
    counts.note_running(9, 2)
    assert counts.output_tokens < 0
    assert set(counts.by_choice()) == {b"0", b"1"}


def test_a_count_beside_one_of_another_choice_does_not_stand_alone():
    counts = CountsByChoice()
    counts.note(b"1", b"other")
    counts.note_running(9, 2)
    assert counts.output_tokens < 0
    assert set(counts.by_choice()) == {b"0", b"1"}


def test_a_later_count_of_another_choice_keeps_the_one_that_was_read():
    counts = CountsByChoice()
    counts.note_running(9, 2)
    counts.note(b"1", b"other")
    assert counts.by_choice() == {b"0": b'{"prompt_tokens":9,"completion_tokens":2}', b"1": b"other"}
