"""The model of the engine: what it charges, whom it serves first, and that it never loses a block or a request."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.engines.costs import load_profiles
from workers.engines.fake.model.continuous_batching import BatchLimits, ContinuousBatching
from workers.engines.fake.model.kv_blocks import KVBlocks
from workers.engines.fake.model.sequence import Phase, Sequence

pytestmark = pytest.mark.unit

COST = load_profiles()["llama3-8b/h100/tp1"]


def batching(*, kv_blocks=1000, max_sequences=8, max_batched_tokens=64, block_size=16):
    limits = BatchLimits(
        max_sequences=max_sequences, max_batched_tokens=max_batched_tokens, block_size_tokens=block_size
    )
    return ContinuousBatching(COST, limits, KVBlocks(kv_blocks))


def sequence(prompt=10, output=5, *, hashes=(), priority=0):
    return Sequence(prompt_tokens=prompt, output_tokens=output, block_hashes=tuple(hashes), priority=priority)


def prefix(*names):
    return [name.encode() for name in names]


def run_step(batch, now):
    ends_at = batch.begin_step(now)
    return batch.end_step(), ends_at


def run_to_end(batch, now=0.0, limit=100_000):
    """Runs until nothing is left; returns what finished, in order."""
    finished = []
    for _ in range(limit):
        ends_at = batch.begin_step(now)
        if ends_at is None:
            return finished
        now = ends_at
        finished += batch.end_step().finished
    raise AssertionError("never ends")


def test_a_request_gains_one_token_a_step_and_ends_with_as_many_as_it_wanted():
    batch, one = batching(), sequence(prompt=10, output=3)
    batch.arrive(one, now=0.0)
    gained = []
    for _ in range(3):
        run_step(batch, now=0.0)
        gained.append(batch.generated_tokens(one))
    assert gained == [1, 2, 3]
    assert one.phase is Phase.DONE


def test_a_long_prompt_is_prefilled_in_chunks_of_the_token_budget():
    batch = batching(max_batched_tokens=64)
    batch.arrive(sequence(prompt=150, output=1), now=0.0)
    assert [run_step(batch, 0.0)[0].prefill_tokens for _ in range(3)] == [64, 64, 22]


def test_decodes_take_their_share_of_the_budget_before_prefills():
    batch = batching(max_batched_tokens=64)
    batch.arrive(sequence(prompt=10, output=50), now=0.0)
    run_step(batch, 0.0)
    batch.arrive(sequence(prompt=100, output=1), now=0.0)
    result, _ = run_step(batch, 0.0)
    assert (result.decode_tokens, result.prefill_tokens) == (1, 63)


def test_no_more_than_the_maximum_of_sequences_run():
    batch = batching(max_sequences=2)
    for _ in range(3):
        batch.arrive(sequence(), now=0.0)
    batch.begin_step(0.0)
    assert (batch.running_count, batch.waiting_count) == (2, 1)


def test_the_more_urgent_runs_first_and_equals_in_the_order_of_arrival():
    batch = batching(max_sequences=1)
    late, urgent, early = sequence(), sequence(priority=-1), sequence()
    for one in (early, late, urgent):
        batch.arrive(one, now=0.0)
    assert run_to_end(batch) == [urgent, early, late]


def test_a_step_takes_as_long_as_its_formula_says():
    batch = batching()
    batch.arrive(sequence(prompt=40, output=2), now=5.0)
    prefill_s = COST.step_s(tokens=40, sequences=1, context_tokens=0, attention_pairs=40 * 20)
    decode_s = COST.step_s(tokens=1, sequences=1, context_tokens=40, attention_pairs=0)
    result, ends_at = run_step(batch, 5.0)
    assert ends_at == result.ended_at == pytest.approx(5.0 + prefill_s)
    result, ends_at = run_step(batch, ends_at)
    assert ends_at == pytest.approx(5.0 + prefill_s + decode_s)


def test_a_prompt_seen_before_is_not_prefilled_again_but_for_its_last_block():
    batch, names = batching(), prefix("a", "ab", "abc")
    batch.arrive(sequence(prompt=48, output=1, hashes=names), now=0.0)
    run_step(batch, 0.0)
    again = sequence(prompt=48, output=1, hashes=names)
    batch.arrive(again, now=0.0)
    result, _ = run_step(batch, 0.0)
    assert (again.cached_tokens, result.prefill_tokens) == (32, 16)
    assert (batch.prefix_queried_tokens_total, batch.prefix_hit_tokens_total) == (96, 32)


def test_the_next_turn_of_a_conversation_finds_the_answer_in_the_cache():
    batch = batching()
    batch.arrive(sequence(prompt=16, output=17, hashes=prefix("q", "qa")), now=0.0)
    run_to_end(batch)
    follow_up = sequence(prompt=48, output=1, hashes=prefix("q", "qa", "qab"))
    batch.arrive(follow_up, now=0.0)
    run_to_end(batch)
    assert follow_up.cached_tokens == 32


def test_when_blocks_run_out_the_latest_gives_way_and_is_computed_again():
    batch = batching(kv_blocks=4)
    first, second = sequence(prompt=16, output=40), sequence(prompt=16, output=40)
    for one in (first, second):
        batch.arrive(one, now=0.0)
    assert run_to_end(batch) == [first, second]
    assert (first.preemptions, second.preemptions > 0) == (0, True)
    assert batch.generated_tokens(second) == 40


def test_when_blocks_run_out_the_less_urgent_gives_way():
    batch = batching(kv_blocks=4)
    patient, urgent = sequence(prompt=16, output=40, priority=1), sequence(prompt=16, output=40, priority=0)
    for one in (patient, urgent):
        batch.arrive(one, now=0.0)
    assert run_to_end(batch) == [urgent, patient]
    assert urgent.preemptions == 0


def test_an_embedding_ends_with_its_prefill_and_without_a_token():
    batch, one = batching(), sequence(prompt=20, output=0)
    batch.arrive(one, now=0.0)
    result, _ = run_step(batch, 0.0)
    assert result.finished == [one]
    assert batch.generated_tokens(one) == 0


def test_a_request_that_can_never_fit_is_refused():
    with pytest.raises(ValueError, match="longer than the KV cache"):
        batching(kv_blocks=2).arrive(sequence(prompt=30, output=3), now=0.0)


def test_a_budget_below_one_token_for_each_sequence_is_refused():
    with pytest.raises(ValueError, match="one token for each sequence"):
        batching(max_sequences=65, max_batched_tokens=64)


def test_a_finished_request_cannot_be_aborted():
    batch, one = batching(), sequence(output=1)
    batch.arrive(one, now=0.0)
    run_to_end(batch)
    assert batch.abort(one) is False


WORK = st.tuples(
    st.integers(1, 90),  # prompt
    st.integers(0, 60),  # output
    st.integers(-1, 1),  # priority
    st.integers(0, 3),  # which of four common prefixes
    st.integers(0, 40),  # arrives before this step
    st.one_of(st.none(), st.integers(0, 80)),  # is aborted before this step, perhaps in the middle of one
)


@settings(max_examples=150, deadline=None)
@given(
    work=st.lists(WORK, min_size=1, max_size=25),
    kv_blocks=st.integers(10, 30),
    max_sequences=st.integers(1, 8),
    max_batched_tokens=st.integers(8, 64),
)
def test_whatever_comes_each_request_ends_once_and_every_block_comes_back(
    work, kv_blocks, max_sequences, max_batched_tokens
):
    batch = batching(kv_blocks=kv_blocks, max_sequences=max_sequences, max_batched_tokens=max_batched_tokens)
    sequences = [
        sequence(prompt, output, priority=priority, hashes=prefix(*(f"{common}-{i}" for i in range(9))))
        for prompt, output, priority, common, _, _ in work
    ]
    finished, aborted = [], set()
    now, step = 0.0, 0
    while step <= 80 or batch.running_count or batch.waiting_count:
        for one, (*_, arrives, _) in zip(sequences, work, strict=True):
            if arrives == step:
                batch.arrive(one, now)
        ends_at = batch.begin_step(now)
        assert 0 <= batch.kv.used <= batch.kv.total
        for one, (*_, arrives, aborts) in zip(sequences, work, strict=True):
            if aborts == step and arrives <= step and batch.abort(one):
                aborted.add(one)
        if ends_at is not None:
            now = ends_at
            finished += batch.end_step().finished
        assert 0 <= batch.kv.used <= batch.kv.total
        assert len(batch.decoding) + len(batch.prefilling) <= max_sequences
        step += 1
        assert step < 50_000
    assert len(finished) == len(set(finished)) == len(sequences) - len(aborted)
    assert all(batch.generated_tokens(one) == one.output_tokens for one in finished)
    assert all(one.phase is Phase.DONE for one in sequences)
    assert batch.kv.used == 0
    assert (batch.running_count, batch.waiting_count) == (0, 0)
    assert batch._context_tokens == 0
    assert not any(batch._growing_by_remainder)
