import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engines.fake.plan import plan_answer
from workers.engines.fake.words import TokenIds, block_hashes, chat_tokens, seeded, split_tokens, write_words

pytestmark = pytest.mark.unit


def plan(*, limit=10, mean=1000, **options):
    return plan_answer(seeded("a request"), ["a request"], limit_tokens=limit, mean_tokens=mean, **options)


@given(st.text())
def test_tokens_joined_give_the_text_back(text):
    assert "".join(split_tokens(text)) == text


def test_a_token_is_a_word():
    assert split_tokens("the sky is blue") == ["the", " sky", " is", " blue"]


@given(st.lists(st.text(min_size=1), max_size=40))
def test_ids_give_their_tokens_back(tokens):
    ids = TokenIds()
    assert [ids.decode(ids.encode(token)) for token in tokens] == tokens


def test_ids_of_unknown_tokens_are_forgotten_when_there_are_too_many():
    ids = TokenIds(limit=2)
    first = ids.encode("xyzzy")
    ids.encode("plugh")
    ids.encode("plover")
    assert ids.decode(first) == "<unk>"


def test_block_hashes_cover_all_that_comes_before():
    tokens = split_tokens("one two three four")
    changed = split_tokens("ONE two three four")
    assert block_hashes(tokens, 2) == block_hashes([*tokens, " five"], 2)
    assert block_hashes(tokens, 2)[1] != block_hashes(changed, 2)[1]
    assert block_hashes(tokens, 2) != block_hashes(tokens, 2, salt="another tenant")


def test_the_next_turn_of_a_chat_begins_with_the_last_prompt_and_its_answer():
    question = [("user", "what is red")]
    answer = plan().tokens
    follow_up = chat_tokens([*question, ("assistant", "".join(answer)), ("user", "and blue")])
    assert follow_up[: len(chat_tokens(question)) + len(answer)] == [*chat_tokens(question), *answer]


def test_an_answer_has_as_many_words_as_tokens():
    assert len(plan(limit=10).text().split()) == len(plan(limit=10).tokens) == 10


def test_an_answer_that_reaches_its_limit_says_length_and_one_that_ends_itself_says_stop():
    assert plan(limit=10, mean=1000).finish_reason == "length"
    assert plan(limit=1000, mean=10).finish_reason == "stop"


def test_ignoring_the_end_fills_the_limit():
    assert len(plan(limit=500, mean=10, ignores_eos=True).tokens) == 500


def test_an_answer_is_no_shorter_than_its_minimum():
    assert len(plan(limit=500, mean=4, min_tokens=300).tokens) == 300


def test_a_stop_string_ends_the_answer_with_the_token_that_completes_it_and_is_not_shown():
    whole = plan(limit=10)
    third = whole.tokens[2].strip()
    cut = plan(limit=10, stops=("never said", third[1:]))
    assert cut.tokens == whole.tokens[:3]
    assert cut.text() == whole.text(0, 2) + whole.tokens[2][:2]
    assert (cut.finish_reason, cut.stop_reason) == ("stop", third[1:])


def test_a_stop_string_is_shown_when_asked_for():
    stop = plan(limit=10).tokens[2]
    assert plan(limit=10, stops=(stop,), keeps_stop=True).text().endswith(stop)


def test_the_same_parts_give_the_same_answer_and_others_another():
    first, again, other = (
        plan_answer(seeded(prompt, 1), [prompt], limit_tokens=20, mean_tokens=99).tokens for prompt in ("a", "a", "b")
    )
    assert first == again != other


def test_a_text_that_is_cut_anywhere_goes_on_as_it_would_have():
    whole = write_words(["a", " prompt"], 30)
    for cut in (1, 2, 17, 29):
        assert write_words(["a", " prompt", *whole[:cut]], 30 - cut, " ") == whole[cut:]


def test_an_answer_that_is_begun_ends_where_it_would_have():
    whole = plan(limit=500, mean=40).tokens
    rest = plan_answer(
        seeded("a request"), ["a request", *whole[:9]], limit_tokens=491, mean_tokens=40, opening=" ", begun_tokens=9
    )
    assert rest.tokens == whole[9:]
    assert rest.finish_reason == "stop"
