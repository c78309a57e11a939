import msgspec
import pytest

from apps.console.policies.decisions import endpoint_ids_of, panel_of
from tests.factories.usage import decision_on, make_record

pytestmark = pytest.mark.unit

DECISION = decision_on(make_record())


def test_steps_read_as_a_story_with_times_after_the_arrival():
    lines = panel_of(DECISION, {"engine-b": "demo on n1:9000"}).lines
    assert [(line.text, line.after_ms, line.detail) for line in lines] == [
        ("arrived and was admitted", 0.0, ""),
        ("waited in the queue", 0.0, ""),
        ("was sent to an engine", 500.0, "demo on n1:9000"),
        ("was complete", 1000.0, ""),
    ]


def test_a_refusal_says_why():
    step = msgspec.structs.replace(DECISION.steps[-1], what="refused", detail="queue_full")
    [*_, last] = panel_of(msgspec.structs.replace(DECISION, steps=[step]), {}).lines
    assert (last.text, last.detail) == ("was refused", "too much of its tenant waited already")


@pytest.mark.parametrize(
    ("what", "code", "text", "detail"),
    [
        ("refused", "rate_limit_exceeded", "was refused", "rate limit exceeded"),
        ("rejected", "model_not_found", "asked for what cannot be", "model not found"),
        ("cancelled", "workflow_budget", "was cancelled", "its workflow has used up its budget"),
    ],
)
def test_what_never_waited_is_told_in_words_too(what, code, text, detail):
    steps = [DECISION.steps[0], msgspec.structs.replace(DECISION.steps[-1], what=what, detail=code)]
    turned_away = msgspec.structs.replace(DECISION, steps=steps, choices=[], prompt_tokens=0)
    panel = panel_of(turned_away, {})
    assert [(line.text, line.detail) for line in panel.lines] == [("arrived", ""), (text, detail)]
    assert not {"Expected", "Prefix"} & dict(panel.terms).keys()
    assert endpoint_ids_of(turned_away) == set()


@pytest.mark.parametrize(
    ("blocks", "told", "text"),
    [
        (0, None, "not looked up"),
        (8, None, "8 blocks looked up, in what was sent to each engine"),
        (8, 5, "8 blocks looked up, 5 of them by what engines say they have cached"),
    ],
)
def test_it_says_from_where_caches_were_known(blocks, told, text):
    decision = msgspec.structs.replace(DECISION, prefix_blocks=blocks, told_blocks=told)
    assert dict(panel_of(decision, {}).terms)["Prefix"] == text


def test_every_engine_considered_has_a_verdict():
    [table] = panel_of(DECISION, {}).tables
    assert table.note == "it could be in time, latest start after 1.50 s"
    assert [(row.name, row.score_ms, row.reason, row.is_chosen) for row in table.rows] == [
        ("engine gine-a", None, "no slot", False),
        ("engine gine-b", 20.0, "", True),
    ]


def test_terms_leave_out_what_there_is_not():
    terms = dict(panel_of(DECISION, {}).terms)
    assert terms["Limits"] == "first token in 2 s"
    assert terms["Workflow"] == "nightly"
    assert "Fairness flow" not in terms


def test_the_engines_to_be_named_are_all_that_occur():
    assert endpoint_ids_of(DECISION) == {"engine-a", "engine-b"}
