import pytest

from workers.gateway.driving.estimates import MAX_LENGTHS, MAX_VERSIONS, Estimates, prompt_text
from workers.gateway.payload.bodies import peek

pytestmark = pytest.mark.unit


def tokens_of(body, estimates=None):
    found = peek(body)
    return (estimates or Estimates()).measure("v1", found, prompt_text(found), len(body))


@pytest.mark.parametrize(
    ("prompt", "tokens"), [(b"[1, 2, 3]", 3), (b"[[1,2],[3]]", 3), (b" [ 17 ]", 1), (b"[[5],[6],[7]]", 3)]
)
def test_token_ids_are_counted_exactly(prompt, tokens):
    assert tokens_of(b'{"model":"m","prompt":%b}' % prompt).tokens == tokens


def test_a_text_is_judged_by_its_bytes_at_first():
    assert tokens_of(b'{"model":"m","prompt":"%b"}' % (b"abcd" * 1000)).tokens == pytest.approx(1000, rel=0.05)


def test_how_many_bytes_make_a_token_is_learned_per_version():
    estimates = Estimates()
    for size in range(300, 6000, 100):
        estimates.learn_prompt("v1", size, size // 2 + 10)
    body = b'{"model":"m","prompt":"%b"}' % (b"x" * 3000)
    assert tokens_of(body, estimates).tokens == pytest.approx(1510, rel=0.05)
    assert estimates.measure("v2", peek(body), prompt_text(peek(body)), len(body)).tokens < 1000


PICTURE = b'{"type":"image_url","image_url":{"url":"data:image/png;base64,%b"}}' % (b"QUJD" * 100_000)


def chat_of(*parts):
    return b'{"model":"m","messages":[{"role":"user","content":[%b]}]}' % b",".join(parts)


def test_a_picture_is_not_text_and_what_it_costs_is_unknown_at_first():
    body = chat_of(PICTURE)
    prompt = tokens_of(body)
    assert (prompt.text_bytes, prompt.attached.count, prompt.attached_tokens) == (0, 1, 0)
    assert prompt.tokens < 30


def test_what_a_picture_costs_is_learned_per_version_from_what_the_text_does_not_account_for():
    estimates = Estimates()
    body = chat_of(PICTURE, PICTURE)
    for _ in range(3):
        prompt = tokens_of(body, estimates)
        estimates.learn_input("v1", prompt, prompt.tokens - prompt.attached_tokens + 2 * 600)
    assert tokens_of(chat_of(PICTURE), estimates).attached_tokens == 600
    assert tokens_of(body, estimates).tokens == pytest.approx(1200, rel=0.05)
    assert estimates.measure("v2", peek(body), prompt_text(peek(body)), len(body)).attached_tokens == 0


def test_what_an_engine_makes_nothing_of_costs_nothing():
    estimates = Estimates()
    estimates.learn_input("v1", tokens_of(chat_of(PICTURE), estimates), 3)
    assert tokens_of(chat_of(PICTURE), estimates).attached_tokens == 0


def test_versions_whose_pictures_are_known_are_bounded():
    estimates = Estimates()
    for number in range(MAX_VERSIONS + 5):
        estimates.learn_input(f"v{number}", tokens_of(chat_of(PICTURE)), 500)
    assert len(estimates.attachments) == MAX_VERSIONS


def test_tools_attach_nothing():
    tool = b'{"properties":{"image_url":{"type":"string"}}}'
    assert tokens_of(b'{"model":"m","messages":[],"tools":[%b]}' % tool).attached.count == 0


def test_tools_and_system_are_part_of_the_prompt():
    found = peek(b'{"model":"m","messages":[1],"tools":[2],"system":"s","instructions":"i"}')
    assert prompt_text(found) == [b"[2]", b'"s"', b'"i"', b"[1]"]


def test_a_length_is_learned_per_tenant_and_never_above_the_limit():
    estimates = Estimates()
    for _ in range(60):
        estimates.learn_length("short", "v1", 20)
        estimates.learn_length("long", "v1", 900)
    assert estimates.output_tokens("short", "v1", 4096) == pytest.approx(20, rel=0.1)
    assert estimates.output_tokens("long", "v1", None) == pytest.approx(900, rel=0.1)
    assert estimates.output_tokens("long", "v1", 50) == 50
    assert estimates.lengths["short", "v1"].error < 0.2


def test_lengths_are_bounded_in_memory():
    estimates = Estimates()
    for number in range(MAX_LENGTHS + 50):
        estimates.learn_length(f"t{number}", "v1", 10)
    assert len(estimates.lengths) == MAX_LENGTHS
    assert ("t0", "v1") not in estimates.lengths
