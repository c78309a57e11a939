"""The course of a batch when things go wrong: refusals, failing engines, a key that is revoked, the end of its time."""

import json

import pytest

from tests.support.batch_node import Node, answered, failed, hand_in, refused, withdrawn
from tests.support.batches import create, ended, item_records, jsonl, line, lines_of, sdk
from tests.support.fake_engines import fake_engine
from tests.support.gateways import chat_body, running_gateway, snapshot_for
from workers.contracts.limits import LimitRule, TenantLimits
from workers.gateway.batches import stages
from workers.gateway.batches.runner import CLOSING_GRACE_S
from workers.gateway.batches.store import Store

pytestmark = pytest.mark.integration


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


async def course(node, batch, *, until=None):
    """Runs until the batch is finished, or `until`; returns the batch, its output and its errors."""

    async def is_over(store):
        found = await store.call(Store.get_batch, "t", batch.batch_id)
        return found.is_finished or (until is not None and until(found))

    await node.run_gateway(is_over)
    store = Store(node.directory)
    found = store.get_batch("t", batch.batch_id)
    output, errors = (read_lines(store, file_id) for file_id in (found.output_file_id, found.error_file_id))
    store.close()
    return found, output, errors


def read_lines(store, file_id):
    return [json.loads(one) for one in store.path_of(file_id).read_bytes().splitlines()] if file_id else []


async def test_what_is_refused_for_now_is_asked_for_again(node):
    node.reply_to = lambda number, record_id: (refused if number <= 2 else answered)(number, record_id)
    batch, output, errors = await course(node, hand_in(node, items=3))
    assert (batch.status, len(output), errors) == ("completed", 3, [])
    assert len(node.spool) == 3
    assert all(record.outcome == "completed" for record in node.spool)


async def test_an_engine_that_fails_is_tried_three_times_and_nobody_pays_for_the_first_two(node):
    node.reply_to = failed
    batch, output, [error] = await course(node, hand_in(node, items=1))
    assert (batch.status, output) == ("completed", [])
    assert (batch.counts.completed, batch.counts.failed) == (0, 1)
    assert (error["response"]["status_code"], error["response"]["body"]) == (502, {"error": {}})
    [record] = node.spool
    assert (record.outcome, record.output_tokens, record.wasted_tokens) == ("failed", 3, 6)


async def test_an_item_that_is_more_than_a_limit_fails_at_once_with_the_reason(tmp_path):
    rule = LimitRule(limit_id="l", scope="tenant", kind="tokens_per_minute", amount=500)
    limits = [TenantLimits(tenant_id="gold", rules=[rule])]
    items = [line("small", chat_body(max_tokens=5)), line("large", chat_body(max_tokens=9000)), line("next")]
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]), limits=limits)
        async with (
            running_gateway(tmp_path, snapshot, batches=tmp_path / "batches") as gateway,
            sdk(gateway.port) as client,
        ):
            batch = await ended(client, await create(client, jsonl(items)))
            output = await lines_of(client, batch.output_file_id)
            [error] = await lines_of(client, batch.error_file_id)
            record = item_records(gateway)["large"]
    assert (batch.status, batch.request_counts.failed) == ("completed", 1)
    assert [one["custom_id"] for one in output] == ["small", "next"]
    assert (error["custom_id"], error["response"]["status_code"]) == ("large", 429)
    assert error["response"]["body"]["error"]["code"] == "larger_than_limit"
    assert (record.error_code, record.usage_source, record.cost_pico_usd) == ("larger_than_limit", "none", 0)


async def test_a_second_try_that_succeeds_is_the_answer(node):
    node.reply_to = lambda number, record_id: (failed if number == 1 else answered)(number, record_id)
    _, [one], errors = await course(node, hand_in(node, items=1))
    assert (one["response"]["status_code"], errors) == (200, [])
    [record] = node.spool
    assert (record.outcome, record.output_tokens, record.wasted_tokens) == ("completed", 2, 3)


async def test_a_key_that_is_gone_before_the_batch_is_looked_at_fails_it(node):
    node.is_granted = False
    batch, output, errors = await course(node, hand_in(node, items=2))
    assert (batch.status, batch.errors[0].code) == ("failed", "invalid_api_key")
    assert (output, errors, node.spool) == ([], [], [])


async def test_a_key_that_is_revoked_on_the_way_spends_no_more(node):
    def reply_and_revoke(number, record_id):
        node.is_granted = False
        return answered(number, record_id)

    node.reply_to, node.slots = reply_and_revoke, 2
    batch, output, errors = await course(node, hand_in(node, items=3))
    assert (batch.status, len(output), len(errors)) == ("completed", 1, 2)
    assert {error["response"]["status_code"] for error in errors} == {401}
    assert errors[0]["response"]["body"]["error"]["code"] == "invalid_api_key"
    assert len(node.spool) == 1


@pytest.mark.parametrize("tries", [1, 2])
async def test_what_failed_before_its_key_was_revoked_is_waste(node, tries):
    def fail_and_revoke(number, record_id):
        node.is_granted = number < tries
        return failed(number, record_id)

    node.reply_to = fail_and_revoke
    _, _, [error] = await course(node, hand_in(node, items=1))
    assert error["response"]["status_code"] == 401
    [record] = node.spool
    assert (record.error_code, record.usage_source, record.cost_pico_usd) == ("invalid_api_key", "none", 0)
    assert (record.output_tokens, record.wasted_tokens) == (0, 3 * tries)


async def test_what_failed_before_its_batch_was_up_is_waste_and_is_told_that_it_ran(node):
    def fail_and_let_time_pass(number, record_id):
        node.now += 2000
        return failed(number, record_id)

    node.reply_to, node.slots = fail_and_let_time_pass, 1
    batch, output, errors = await course(node, hand_in(node, items=2))
    assert (batch.status, output, len(errors)) == ("expired", [], 2)
    [record] = node.spool
    assert (record.error_code, record.usage_source) == ("batch_expired", "none")
    assert (record.output_tokens, record.wasted_tokens) == (0, 3)


async def test_at_the_end_of_its_time_the_rest_is_told_that_it_never_ran(node):
    def reply_and_let_time_pass(number, record_id):
        if number == 2:
            node.now += 2000
            return refused(number, record_id)
        return answered(number, record_id)

    node.reply_to = reply_and_let_time_pass
    batch, output, errors = await course(node, hand_in(node, items=4))
    assert (batch.status, batch.expired_at) == ("expired", node.now)
    assert {error["error"]["code"] for error in errors} == {"batch_expired"}
    assert len(output) + len(errors) == batch.counts.total == 4
    assert batch.counts.completed == len(output) == len(node.spool) > 0


async def test_what_still_runs_long_after_the_end_is_withdrawn_and_costs_nothing(node):
    def reply_and_let_time_pass(number, record_id):
        node.now += 1000 + CLOSING_GRACE_S + 1
        return withdrawn(number, record_id)

    node.reply_to = reply_and_let_time_pass
    batch, output, [error] = await course(node, hand_in(node, items=1))
    assert (batch.status, output, error["error"]["code"]) == ("expired", [], "batch_expired")
    [record] = node.spool
    assert (record.outcome, record.error_code, record.usage_source) == ("client_left", "batch_expired", "none")
    assert (record.output_tokens, record.wasted_tokens, record.cost_pico_usd) == (0, 2, 0)


async def test_an_input_file_that_is_gone_fails_the_batch(node):
    batch = hand_in(node, items=1)
    store = Store(node.directory)
    store.delete_file(batch.input_file_id)
    store.close()
    batch, _, _ = await course(node, batch)
    assert (batch.status, batch.errors[0].code) == ("failed", "input_file_not_found")


async def test_what_is_wrong_with_one_batch_holds_up_no_other(node, monkeypatch):
    faulty, sound = hand_in(node, items=2), hand_in(node, items=2, batch_id="sound")
    begin = stages.begin

    def begin_but_one(store, batch, check, now):
        if batch.batch_id == faulty.batch_id:
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "as of a custom_id")
        begin(store, batch, check, now)

    monkeypatch.setattr(stages, "begin", begin_but_one)
    batch, output, _ = await course(node, sound)
    assert (batch.status, len(output)) == ("completed", 2)
    monkeypatch.setattr(stages, "begin", begin)
    batch, output, _ = await course(node, faulty)
    assert (batch.status, len(output)) == ("completed", 2)


async def test_items_keep_their_order_whatever_they_hold(node):
    content = (
        b"\n\r\n" + jsonl([line("ünï"), line("b", {"model": "m", "prompt": "\u2028\n"})]) + b"  \n" + jsonl([line("c")])
    )
    batch, output, _ = await course(node, hand_in(node, items=3, content=content))
    assert [one["custom_id"] for one in output] == ["ünï", "b", "c"]
    assert batch.counts.total == 3


async def test_one_gateway_of_several_runs_batches_and_the_next_goes_on(node):
    first, second = Store(node.directory), Store(node.directory)
    assert first.may_run()
    assert first.may_run()
    assert not second.may_run()
    first.leave_running()
    assert second.may_run()
    first.close()
    second.close()
