import pytest

from workers.gateway.driving.prefixes import BLOCK_BYTES, MAX_BLOCKS, number_blocks

pytestmark = pytest.mark.unit

TEXT = bytes(range(256)) * 20  # ten blocks


def test_a_prompt_that_goes_on_keeps_the_numbers_of_its_beginning():
    assert number_blocks([TEXT + b"more" * 400], b"m")[:10] == number_blocks([TEXT], b"m")


def test_a_difference_changes_every_number_from_there_on():
    changed = TEXT[: 3 * BLOCK_BYTES] + b"!" + TEXT[3 * BLOCK_BYTES + 1 :]
    one, other = number_blocks([TEXT], b"m"), number_blocks([changed], b"m")
    assert one[:3] == other[:3]
    assert not set(one[3:]) & set(other[3:])


def test_another_model_or_cache_salt_shares_nothing():
    assert not set(number_blocks([TEXT], b"m\0")) & set(number_blocks([TEXT], b"m\0salt"))


def test_numbers_are_the_same_in_every_process():
    assert number_blocks([b"a" * BLOCK_BYTES], b"m") == (17333314505637565336,)


def test_parts_count_as_one_text_and_only_full_blocks_have_a_number():
    assert number_blocks([TEXT[:700], TEXT[700:]], b"m") == number_blocks([TEXT], b"m")
    assert number_blocks([TEXT[: BLOCK_BYTES - 1]], b"m") == ()


def test_the_numbers_of_a_huge_prompt_are_bounded():
    assert len(number_blocks([b"x" * (MAX_BLOCKS + 9) * BLOCK_BYTES], b"m")) == MAX_BLOCKS
