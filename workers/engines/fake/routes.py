"""Paths of the engine: vLLM's, and our own under /fake/."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from workers.engines.fake import shapes
from workers.engines.fake.calls import GenerationCall, decode_body, read_chat, read_completion
from workers.engines.fake.chat_calls import count_message_tokens, read_message_call, read_response_call
from workers.engines.fake.embedding import answer_embeddings
from workers.engines.fake.engine import FakeEngine
from workers.engines.fake.errors import APIError, bad_request, for_messages, unsupported_media_type
from workers.engines.fake.exposition import CONTENT_TYPE
from workers.engines.fake.faults import Faults
from workers.engines.fake.http import JSON, Exchange
from workers.engines.fake.inputs import EmbeddingCall, read_detokenize, read_embedding, read_tokenize
from workers.engines.fake.scoring import answer_rerank, answer_score, read_rerank, read_score
from workers.engines.fake.words import shown_token

Route = Callable[[Exchange], None]


class Routes:
    """`listen_again_after` stops listening for so many seconds. `new_id` gives 16 hex digits."""

    def __init__(
        self,
        engine: FakeEngine,
        loop: asyncio.AbstractEventLoop,
        listen_again_after: Callable[[float], None],
        new_id: Callable[[], str],
        created_at: float,
    ) -> None:
        self._engine = engine
        self._loop = loop
        self._listen_again_after = listen_again_after
        self._new_id = new_id
        self._created_at = int(created_at)
        self._table = self._common() | (self._embed() if engine.served.task == "embed" else self._generate())
        self._table |= self._sleep() if engine.options.can_sleep else {}

    def __call__(self, exchange: Exchange) -> None:
        methods = self._table.get(exchange.request.path)
        if methods is None:
            exchange.answer(404, b'{"detail":"Not Found"}')
            return
        route = methods.get(exchange.request.method)
        if route is None:
            allow = (("allow", ", ".join(methods)),)
            exchange.answer(405, b'{"detail":"Method Not Allowed"}', JSON, allow)
            return
        try:
            route(exchange)
        except APIError as error:
            exchange.answer(error.status, error.encode())
        except UnicodeEncodeError as error:
            exchange.answer(400, bad_request(str(error)).encode())

    def _common(self) -> dict[str, dict[str, Route]]:
        return {
            "/health": {"GET": self._health},
            "/ping": {"GET": self._health, "POST": self._health},
            "/load": {"GET": lambda exchange: exchange.answer(200, b'{"server_load":%d}' % self._engine.load)},
            "/version": {"GET": lambda exchange: exchange.answer(200, shapes.encode({"version": shapes.VERSION}))},
            "/metrics": {"GET": lambda exchange: exchange.answer(200, self._engine.metrics_text(), CONTENT_TYPE)},
            "/v1/models": {"GET": self._models},
            "/tokenize": {"POST": self._tokenize},
            "/detokenize": {"POST": self._detokenize},
            "/reset_prefix_cache": {"POST": self._reset_prefix_cache},
            "/fake/faults": {"GET": self._show_faults, "POST": self._set_faults},
            "/fake/requests": {"GET": self._show_requests},
        }

    def _generate(self) -> dict[str, dict[str, Route]]:
        return {
            "/v1/chat/completions": {"POST": self._chat},
            "/v1/completions": {"POST": self._completion},
            "/v1/responses": {"POST": self._response},
            "/v1/messages": {"POST": self._message},
            "/v1/messages/count_tokens": {"POST": self._count_message_tokens},
        }

    def _sleep(self) -> dict[str, dict[str, Route]]:
        return {
            "/sleep": {"POST": lambda exchange: self._lie_down(exchange, is_asleep=True)},
            "/wake_up": {"POST": lambda exchange: self._lie_down(exchange, is_asleep=False)},
            "/is_sleeping": {
                "GET": lambda exchange: exchange.answer(200, shapes.encode({"is_sleeping": self._engine.is_asleep}))
            },
        }

    def _embed(self) -> dict[str, dict[str, Route]]:
        table: dict[str, dict[str, Route]] = {"/v1/embeddings": {"POST": self._embedding}}
        for path in ("/v1/rerank", "/v2/rerank", "/rerank"):
            table[path] = {"POST": self._rerank}
        for path in ("/v1/score", "/score"):
            table[path] = {"POST": self._score}
        return table

    # inference

    def _chat(self, exchange: Exchange) -> None:
        priority = exchange.request.headers.get("x-vllm-priority")
        self._start(exchange, read_chat(_body(exchange), self._engine.served, priority))

    def _completion(self, exchange: Exchange) -> None:
        priority = exchange.request.headers.get("x-vllm-priority")
        engine = self._engine
        self._start(exchange, read_completion(_body(exchange), engine.served, priority, engine.ids))

    def _response(self, exchange: Exchange) -> None:
        priority = exchange.request.headers.get("x-vllm-priority")
        self._start(exchange, read_response_call(_body(exchange), self._engine.served, priority))

    def _message(self, exchange: Exchange) -> None:
        priority = exchange.request.headers.get("x-vllm-priority")
        call = read_message_call(_body(exchange), self._engine.served, priority)
        try:
            self._start(exchange, call)
        except APIError as error:
            raise for_messages(error) from error

    def _count_message_tokens(self, exchange: Exchange) -> None:
        count = count_message_tokens(_body(exchange))
        answer = {"input_tokens": count, "context_management": {"original_input_tokens": count}}
        exchange.answer(200, shapes.encode(answer))

    def _start(self, exchange: Exchange, call: GenerationCall) -> None:
        request_id = self._request_id(exchange, call)
        work = self._engine.generate(call, request_id, exchange.request.path, exchange)
        exchange.on_disconnect = work.abandon

    def _embedding(self, exchange: Exchange) -> None:
        priority = exchange.request.headers.get("x-vllm-priority")
        engine = self._engine
        call = read_embedding(_body(exchange), engine.served, priority, engine.ids)
        head = engine.list_head("embd", self._request_id(exchange, call))
        dimensions = engine.options.embedding_dimensions
        self._pool(exchange, call, lambda: answer_embeddings(head, call, dimensions))

    def _rerank(self, exchange: Exchange) -> None:
        body = _body(exchange)
        call = read_rerank(body, self._engine.served)
        request_id, model, documents = self._request_id(exchange, call), self._engine.served.name, body["documents"]
        self._pool(exchange, call, lambda: answer_rerank(call, request_id, model, documents, body.get("top_n")))

    def _score(self, exchange: Exchange) -> None:
        call = read_score(_body(exchange), self._engine.served)
        head = self._engine.list_head("score", self._request_id(exchange, call))
        self._pool(exchange, call, lambda: answer_score(call, head))

    def _pool(self, exchange: Exchange, call: EmbeddingCall, answer: Callable[[], bytes]) -> None:
        request_id = self._request_id(exchange, call)
        work = self._engine.embed(call, request_id, exchange.request.path, exchange, answer)
        exchange.on_disconnect = work.abandon

    def _request_id(self, exchange: Exchange, call: GenerationCall | EmbeddingCall) -> str:
        return exchange.request.headers.get("x-request-id") or call.request_id or self._new_id()

    def _tokenize(self, exchange: Exchange) -> None:
        body = _body(exchange)
        tokens = read_tokenize(body, self._engine.served)
        answer = {
            "count": len(tokens),
            "max_model_len": self._engine.served.max_model_tokens,
            "tokens": [self._engine.ids.encode(token) for token in tokens],
            "token_strs": list(map(shown_token, tokens)) if body.get("return_token_strs") else None,
        }
        exchange.answer(200, shapes.encode(answer))

    def _detokenize(self, exchange: Exchange) -> None:
        text = read_detokenize(_body(exchange), self._engine.served, self._engine.ids)
        exchange.answer(200, shapes.encode({"prompt": text}))

    # state

    def _health(self, exchange: Exchange) -> None:
        status = 503 if self._engine.is_dead else 200
        delay_s = self._engine.faults.health_delay_s
        if delay_s:
            self._loop.call_later(delay_s, exchange.answer, status, b"")
        else:
            exchange.answer(status, b"")

    def _models(self, exchange: Exchange) -> None:
        served = self._engine.served
        body = shapes.model_list(served.name, self._created_at, served.max_model_tokens, self._new_id())
        exchange.answer(200, body)

    def _reset_prefix_cache(self, exchange: Exchange) -> None:
        self._engine.forget_cache()
        exchange.answer(200, b'{"success":true}')

    def _lie_down(self, exchange: Exchange, *, is_asleep: bool) -> None:
        self._engine.lie_down(is_asleep=is_asleep)
        exchange.answer(200, b"")

    # ours

    def _show_faults(self, exchange: Exchange) -> None:
        exchange.answer(200, shapes.encode(self._engine.faults))

    def _set_faults(self, exchange: Exchange) -> None:
        try:
            changes = decode_body(exchange.request.body)
            faults = msgspec.convert(msgspec.to_builtins(self._engine.faults) | changes, Faults)
        except msgspec.ValidationError as error:
            exchange.answer(422, shapes.encode({"detail": str(error)}))
            return
        self._engine.set_faults(faults)
        exchange.answer(200, shapes.encode(faults))
        if "refuse_for_s" in changes and faults.refuse_for_s > 0:
            self._listen_again_after(faults.refuse_for_s)

    def _show_requests(self, exchange: Exchange) -> None:
        entries = self._engine.ledger.entries(exchange.request.query.get("request_id"))
        exchange.answer(200, shapes.encode({"requests": entries}))


def _body(exchange: Exchange) -> dict[str, Any]:
    media_type = exchange.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON:
        raise unsupported_media_type()
    return decode_body(exchange.request.body)
