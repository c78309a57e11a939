"""Threads never wait for a client: bodies come first, answers are taken off their hands."""

import asyncio
import json

import pytest

from controlplane import slow_clients
from controlplane.slow_clients import SlowClients

pytestmark = pytest.mark.unit

MOST = 1000


def scope_of(length=None):
    return {"type": "http", "headers": [] if length is None else [(b"content-length", str(length).encode())]}


class Client:
    """Says its pieces, and takes of the answer what it is let."""

    def __init__(self, *pieces, is_there=True):
        self.pieces = list(pieces)
        self.is_there = is_there
        self.got = []
        self.takes = asyncio.Event()
        self.takes.set()

    async def receive(self):
        if self.pieces:
            part = self.pieces.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self.pieces)}
        if not self.is_there:
            return {"type": "http.disconnect"}
        return await asyncio.Event().wait()

    async def send(self, message):
        await self.takes.wait()
        self.got.append(message)

    @property
    def status(self):
        return self.got[0]["status"]

    @property
    def body(self):
        return b"".join(message.get("body", b"") for message in self.got[1:])

    @property
    def is_complete(self):
        return not self.got[-1].get("more_body", False)


class Threads:
    """In the place of Django: answers with what it was asked, or with so many parts; notes when it had made them."""

    def __init__(self, *parts):
        self.parts = parts
        self.asked = None
        self.is_done = asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.headers = dict(scope["headers"])
        read, has_more = b"", int(self.headers.get(b"content-length", b"0")) > 0
        while has_more:
            message = await receive()
            read += message["body"]
            has_more = message["more_body"]
        self.asked = read
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in self.parts or (read,):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        self.is_done.set()


async def serve(threads, client, length=None, scope=None):
    app = SlowClients(threads, most_body_bytes=MOST)
    await app(scope or scope_of(length), client.receive, client.send)
    assert app._room.waiting_bytes == 0


async def test_a_body_is_whole_before_a_thread_hears_of_it_and_the_answer_is_the_same():
    threads, client = Threads(), Client(b"one ", b"two ", b"three")
    await serve(threads, client, 13)
    assert threads.asked == client.body == b"one two three"
    assert client.is_complete


async def test_one_without_a_body_is_answered():
    client = Client()
    await serve(Threads(b"page"), client)
    assert (client.status, client.body, client.is_complete) == (200, b"page", True)


async def test_a_body_that_does_not_come_takes_no_thread_and_is_refused(monkeypatch):
    monkeypatch.setattr(slow_clients, "BODY_WITHIN_S", 0.0)
    threads, client = Threads(), Client(b"one ", b"")
    client.pieces.pop()
    client.receive = _first_then_nothing(b"one ")
    await serve(threads, client, 100)
    assert threads.asked is None
    assert (client.status, json.loads(client.body)["code"]) == (408, "request_timeout")


def _first_then_nothing(part):
    pieces = [part]

    async def receive():
        if pieces:
            return {"type": "http.request", "body": pieces.pop(), "more_body": True}
        return await asyncio.Event().wait()

    return receive


@pytest.mark.parametrize("length", [MOST + 1, 10**17])
async def test_one_that_is_too_long_is_not_read(length):
    threads, client = Threads(), Client()
    await serve(threads, client, length)
    assert threads.asked is None
    assert (client.status, json.loads(client.body)["code"]) == (413, "too_big")


CHUNKED = {"type": "http", "headers": [(b"transfer-encoding", b"chunked")]}


async def test_a_body_that_does_not_say_its_length_has_one_when_it_is_here():
    threads, client = Threads(), Client(b"one ", b"two")
    await serve(threads, client, scope=CHUNKED)
    assert threads.asked == client.body == b"one two"
    assert threads.headers == {b"content-length": b"7"}


async def test_nor_may_such_a_one_be_too_long():
    threads, client = Threads(), Client(b"1" * MOST, b"2")
    await serve(threads, client, scope=CHUNKED)
    assert threads.asked is None
    assert client.status == 413


async def test_of_a_client_that_leaves_in_the_middle_no_thread_hears():
    threads, client = Threads(), Client(b"one", is_there=False)
    client.receive = _part_then_gone()
    await serve(threads, client, 100)
    assert threads.asked is None
    assert client.got == []


def _part_then_gone():
    messages = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"one", "more_body": True}]

    async def receive():
        return messages.pop()

    return receive


async def test_more_than_there_is_room_for_in_all_is_refused(monkeypatch):
    monkeypatch.setattr(slow_clients, "MOST_WAITING_BYTES_OF_ALL", 5)
    threads, client = Threads(), Client(b"123456", b"7")
    await serve(threads, client, 7)
    assert threads.asked is None
    assert client.status == 503


async def test_an_answer_leaves_its_thread_though_the_client_takes_nothing():
    parts = [bytes([number]) * 300_000 for number in range(8)]
    threads, client = Threads(*parts), Client()
    client.takes.clear()
    serving = asyncio.create_task(serve(threads, client))
    await asyncio.wait_for(threads.is_done.wait(), 10)
    assert client.got == []
    client.takes.set()
    await serving
    assert client.body == b"".join(parts)
    assert client.is_complete


async def test_beyond_the_bound_the_thread_waits_until_the_client_has_taken_what_there_is(monkeypatch):
    monkeypatch.setattr(slow_clients, "MOST_WAITING_BYTES", 10)
    parts = [b"a" * 10, b"b" * 10, b"c" * 10]
    threads, client = Threads(*parts), Client()
    client.takes.clear()
    serving = asyncio.create_task(serve(threads, client))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not threads.is_done.is_set()
    client.takes.set()
    await serving
    assert client.body == b"".join(parts)


async def test_who_takes_nothing_for_too_long_is_left_and_the_thread_is_told(monkeypatch):
    monkeypatch.setattr(slow_clients, "TAKEN_WITHIN_S", 0.0)
    monkeypatch.setattr(slow_clients, "MOST_WAITING_BYTES", 10)
    threads, client = Threads(b"a" * 10, b"b" * 10), Client()
    client.takes.clear()
    await serve(threads, client)
    assert not threads.is_done.is_set()
    assert client.got == []


async def test_a_server_that_can_send_no_more_holds_no_thread(monkeypatch):
    monkeypatch.setattr(slow_clients, "MOST_WAITING_BYTES", 10)
    threads, client = Threads(b"a" * 10, b"b" * 10), Client()

    async def gone(message):
        raise ConnectionResetError

    client.send = gone
    await asyncio.wait_for(serve(threads, client), 10)
    assert not threads.is_done.is_set()
