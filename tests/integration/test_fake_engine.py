"""The fake engine over real sockets: who leaves, what fails, and how much it carries."""

import asyncio
import gc
import json
import socket
import sys

import pytest

from tests.support.fake_engines import fake_engine, fake_engine_process, free_port
from tests.support.raw_http import call, exchange, request_bytes
from workers.engines.fake.faults import Faults

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"


def chat(words="hello", **fields):
    return {"messages": [{"role": "user", "content": words}]} | fields


def endless(**fields):
    return chat(max_tokens=4000, ignore_eos=True, stream=True, **fields)


async def until(condition, timeout_s=10):
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 the engine has no event for what only tests ask
            await asyncio.sleep(0.005)


async def ledger(server, request_id):
    response = await call(server.port, "GET", f"/fake/requests?request_id={request_id}")
    [entry] = response.json()["requests"]
    return entry


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_is_being_accepted_as_the_engine_closes_is_closed_too(turns):
    async with fake_engine() as server:
        client = socket.create_connection(("127.0.0.1", server.port))
        for _ in range(turns):
            await asyncio.sleep(0)
    client.close()
    gc.collect()  # which warns of what is open, and that fails the test


def words_of(response):
    chunks = [event for event in response.events() if event != "[DONE]" and event.get("choices")]
    return "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks).split()


async def test_the_client_can_count_the_tokens_it_was_sent():
    async with fake_engine() as server:
        body = chat(max_tokens=70, ignore_eos=True, stream=True, stream_options={"include_usage": True})
        response = await call(server.port, "POST", CHAT, body, {"X-Request-Id": "r1"})
        entry = await ledger(server, "r1")
    usage = response.events()[-2]["usage"]
    assert len(words_of(response)) == usage["completion_tokens"] == entry["completion_tokens"] == 70
    assert usage["prompt_tokens"] == entry["prompt_tokens"]
    assert entry["outcome"] == "length"


async def test_a_client_that_leaves_mid_stream_frees_the_engine():
    async with fake_engine() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_bytes("POST", CHAT, endless(), {"X-Request-Id": "leaver"}))
        await reader.readuntil(b"finish_reason")
        writer.close()
        await until(lambda: server.engine.load == 0)
        entry = await ledger(server, "leaver")
        metrics = await call(server.port, "GET", "/metrics")
    assert entry["outcome"] == "abort"
    assert 0 < entry["completion_tokens"] < 4000
    assert server.engine.batch.running_count == server.engine.batch.kv.used == 0
    assert b'finished_reason="abort",model_name="fake-model"} 1.0' in metrics.body


async def test_a_client_that_leaves_while_it_waits_is_never_run():
    async with fake_engine("--max-num-seqs", "1") as server:
        running = asyncio.create_task(exchange(server.port, request_bytes("POST", CHAT, endless())))
        await until(lambda: server.engine.batch.running_count == 1)
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_bytes("POST", CHAT, endless(), {"X-Request-Id": "impatient"}))
        await until(lambda: server.engine.batch.waiting_count == 1)
        writer.close()
        await until(lambda: server.engine.load == 1)
        entry = await ledger(server, "impatient")
        running.cancel()
    assert (entry["outcome"], entry["completion_tokens"]) == ("abort", 0)


async def test_stream_headers_go_out_before_the_prompt_is_read():
    async with fake_engine("--hang") as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_bytes("POST", CHAT, endless()))
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        writer.close()
    assert head.startswith(b"HTTP/1.1 200 OK")


async def test_a_hanging_engine_takes_requests_answers_health_and_moves_on_when_the_fault_ends():
    async with fake_engine("--hang") as server:
        answer = asyncio.create_task(call(server.port, "POST", CHAT, chat(max_tokens=3)))
        await until(lambda: server.engine.load == 1)
        health = await call(server.port, "GET", "/health")
        assert server.engine.batch.running_count == 0
        await call(server.port, "POST", "/fake/faults", {"is_hanging": False})
        assert (await answer).status == health.status == 200


async def test_a_slow_health_check_is_slow_and_nothing_else():
    async with fake_engine("--health-delay-s", "30") as server:
        health = asyncio.create_task(call(server.port, "GET", "/health"))
        assert (await call(server.port, "POST", CHAT, chat(max_tokens=3))).status == 200
        assert not health.done()
        health.cancel()


async def test_a_share_of_requests_is_answered_500():
    async with fake_engine("--error-rate", "0.25") as server:
        statuses = [(await call(server.port, "POST", CHAT, chat(max_tokens=1))).status for _ in range(8)]
    assert statuses.count(500) == 2
    assert statuses.count(200) == 6


async def test_streams_are_reset_after_so_many_tokens():
    async with fake_engine("--reset-after-tokens", "5", "--time-scale", "1") as server:
        with pytest.raises(ConnectionResetError):
            await exchange(server.port, request_bytes("POST", CHAT, endless(), {"X-Request-Id": "cut"}))
        entry = await ledger(server, "cut")
    assert (entry["outcome"], entry["completion_tokens"]) == ("error", 5)
    assert server.engine.batch.kv.used == 0


async def test_a_refusing_engine_refuses_for_so_long_and_opens_again():
    async with fake_engine() as server:
        await call(server.port, "POST", "/fake/faults", {"refuse_for_s": 0.3})
        with pytest.raises(ConnectionRefusedError):
            await call(server.port, "GET", "/health")
        async with asyncio.timeout(10):
            while True:
                try:
                    assert (await call(server.port, "GET", "/health")).status == 200
                    break
                except ConnectionRefusedError:
                    await asyncio.sleep(0.02)


async def test_stale_metrics_stand_still_until_the_fault_ends():
    async with fake_engine() as server:
        server.engine.set_faults(Faults(metrics_are_stale=True))
        before = (await call(server.port, "GET", "/metrics")).body
        await call(server.port, "POST", CHAT, chat(max_tokens=3))
        assert (await call(server.port, "GET", "/metrics")).body == before
        server.engine.set_faults(Faults())
        assert (await call(server.port, "GET", "/metrics")).body != before


@pytest.mark.parametrize("body", [{"hang": True}, {"error_rate": "half"}, {"crash_mode": "loudly"}])
async def test_an_unknown_fault_is_refused_and_changes_nothing(body):
    async with fake_engine() as server:
        refused = await call(server.port, "POST", "/fake/faults", body)
        faults = await call(server.port, "GET", "/fake/faults")
    assert refused.status == 422
    assert faults.json()["error_rate"] == 0.0


async def test_an_engine_told_to_crash_ends_after_so_many_tokens():
    port = free_port()
    with fake_engine_process(port, "--crash-after-tokens", "20", "--time-scale", "1") as process:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_bytes("POST", CHAT, endless()))
        assert await asyncio.to_thread(process.wait, 10) == 1
        writer.close()


async def test_an_engine_is_not_there_until_it_has_loaded():
    port = free_port()
    with fake_engine_process(port, "--load-time-s", "1") as process:
        assert (await call(port, "GET", "/health")).status == 200
        process.terminate()
        assert process.wait(timeout=10) == 0


async def test_a_taken_port_is_named():
    async with fake_engine() as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "workers.engines.fake", "--port", str(server.port)),
            stderr=asyncio.subprocess.PIPE,
        )
        _, stderr = await process.communicate()
    assert process.returncode == 1
    assert str(server.port) in stderr.decode()


async def test_requests_on_one_connection_are_answered_in_their_order():
    async with fake_engine() as server:
        requests = [
            request_bytes(
                "POST", CHAT, chat(max_tokens=count), {"Connection": "keep-alive", "X-Request-Id": f"r{count}"}
            )
            for count in (40, 1)
        ]
        raw = b"".join([*requests, request_bytes("GET", "/version")])
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(raw)
        answer = await asyncio.wait_for(reader.read(-1), 10)
        writer.close()
    assert answer.index(b"chatcmpl-r40") < answer.index(b"chatcmpl-r1") < answer.index(b'{"version"')


async def test_bytes_that_are_not_http_are_refused():
    async with fake_engine() as server:
        assert (await exchange(server.port, b"GREETINGS\r\n\r\n")).status == 400


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [None, 5, [], {"role": 7}]},
        {"messages": [{"role": "user", "content": {"deep": [1]}}]},
        {"messages": [], "stop": [None]},
        {"messages": [], "logprobs": True, "top_logprobs": "x"},
        {"messages": [], "logprobs": True, "top_logprobs": 10**9},
        {"messages": [], "seed": 1e300},
        {"messages": [], "model": 5},
        {"messages": [], "n": 10**30},
    ],
)
async def test_odd_bodies_are_no_reason_to_fail(body):
    async with fake_engine() as server:
        response = await call(server.port, "POST", CHAT, {"max_tokens": 1} | body)
        assert response.status < 500
        assert (await call(server.port, "GET", "/health")).status == 200


async def test_five_hundred_streams_at_once_all_get_every_token():
    body = chat(max_tokens=40, ignore_eos=True, stream=True, stream_options={"include_usage": True})
    async with fake_engine("--max-num-seqs", "512", "--time-scale", "1") as server:
        answers = await asyncio.gather(
            *(exchange(server.port, request_bytes("POST", CHAT, body), timeout_s=60) for _ in range(500))
        )
        entries = (await call(server.port, "GET", "/fake/requests")).json()["requests"]
    assert {len(words_of(answer)) for answer in answers} == {40}
    assert len(entries) == 500
    assert sum(entry["completion_tokens"] for entry in entries) == 500 * 40
    assert server.engine.metrics.generation_tokens_total == 500 * 40
    assert server.engine.batch.kv.used == 0


async def test_running_usage_of_a_completion_has_three_counts_and_counts_up():
    """As seen from vLLM 0.32 on the CPU; a chat has a fourth key."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"prompt": "hi", "max_tokens": 3, "stream": True, "stream_options": options}
    async with fake_engine("--time-scale", "20") as server:
        response = await call(server.port, "POST", "/v1/completions", body)
    usages = [event["usage"] for event in response.events() if event != "[DONE]" and event["choices"]]
    assert usages == [
        {"prompt_tokens": 1, "total_tokens": 1 + count, "completion_tokens": count} for count in (1, 2, 3)
    ]


async def test_completions_with_several_prompts_and_choices_number_them_in_order():
    async with fake_engine() as server:
        response = await call(
            server.port, "POST", "/v1/completions", {"prompt": ["the sky", "grass"], "n": 2, "max_tokens": 4}
        )
    answer = json.loads(response.body)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (3, 16)


async def test_a_stream_with_logprobs_has_them_for_each_token():
    async with fake_engine("--time-scale", "20") as server:
        body = chat(max_tokens=3, stream=True, logprobs=True, top_logprobs=2)
        chats = await call(server.port, "POST", CHAT, body)
        completions = await call(
            server.port, "POST", "/v1/completions", {"prompt": "hi", "max_tokens": 3, "stream": True, "logprobs": 2}
        )
    entries = [event["choices"][0]["logprobs"] for event in chats.events()[1:-1]]
    assert [len(entry["content"][0]["top_logprobs"]) for entry in entries] == [2, 2, 2]
    choices = [event["choices"][0] for event in completions.events()[:-1]]
    assert [choice["logprobs"]["tokens"] for choice in choices] == [[choice["text"]] for choice in choices]
    assert choices[1]["logprobs"]["text_offset"] == [len(choices[0]["text"])]


async def test_a_prompt_asked_again_is_served_from_the_cache_until_that_is_emptied():
    question = chat("word " * 100, max_tokens=1)
    async with fake_engine() as server:
        cached = []
        for empties_cache in (False, False, True):
            if empties_cache:
                await call(server.port, "POST", "/reset_prefix_cache")
            usage = (await call(server.port, "POST", CHAT, question)).json()["usage"]
            cached.append(usage["prompt_tokens_details"]["cached_tokens"])
    assert cached == [0, 96, 0]


async def test_tenants_with_different_salts_share_no_cache():
    async with fake_engine() as server:
        for salt in ("one", "two"):
            question = chat("word " * 100, max_tokens=1, cache_salt=salt)
            usage = (await call(server.port, "POST", CHAT, question)).json()["usage"]
            assert usage["prompt_tokens_details"]["cached_tokens"] == 0


async def test_an_embedding_whose_client_leaves_is_given_up():
    async with fake_engine("--task", "embed", "--hang") as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_bytes("POST", "/v1/embeddings", {"input": ["a", "b"]}, {"X-Request-Id": "gone"}))
        await until(lambda: server.engine.load == 1)
        writer.close()
        await until(lambda: server.engine.load == 0)
        entry = await ledger(server, "gone")
    assert entry["outcome"] == "abort"
    assert server.engine.batch.waiting_count == 0


async def test_a_preempted_request_counts_its_prompt_once():
    """Two requests that do not fit together: one gives way, and is computed again."""
    body = chat("word " * 20, max_tokens=150, ignore_eos=True)
    options = ("--num-gpu-blocks-override", "16", "--max-model-len", "256")
    async with fake_engine(*options) as server:
        answers = await asyncio.gather(*(call(server.port, "POST", CHAT, body) for _ in range(2)))
    assert server.engine.batch.preemptions_total > 0
    assert server.engine.metrics.prompt_tokens_total == sum(
        answer.json()["usage"]["prompt_tokens"] for answer in answers
    )
    assert [len(answer.json()["choices"][0]["message"]["content"].split()) for answer in answers] == [150, 150]


def test_no_event_comes_without_a_token_at_the_pace_of_a_real_engine():
    """In a process of its own, whose loop's timers ring to the millisecond only."""
    port = free_port()
    body = {"model": "fake-model", "messages": [{"role": "user", "content": "x"}], "stream": True, "max_tokens": 20}
    with fake_engine_process(port, "--time-scale", "1"):
        answer = asyncio.run(call(port, "POST", "/v1/chat/completions", body | {"ignore_eos": True}))
    deltas = [event["choices"][0]["delta"] for event in answer.events() if event != "[DONE]"]
    assert [delta for delta in deltas if not delta["content"]] == [{"role": "assistant", "content": ""}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, chat("\ud83d half a pair")),
        (CHAT, chat(cache_salt="\ud800")),
        ("/v1/completions", {"prompt": "\ud83d half a pair"}),
        ("/v1/responses", {"input": "hello", "metadata": {"a": "\ud800"}}),
        ("/tokenize", {"prompt": "\udc00"}),
    ],
)
async def test_half_a_surrogate_pair_is_refused_and_breaks_no_connection(path, body):
    async with fake_engine() as server:
        response = await call(server.port, "POST", path, body)
    assert response.status == 400
    assert b"surrogates" in response.body or b"unicode" in response.body
