"""Strangers who send a byte at a time keep nobody from console and REST: there are more of them than web threads."""

import json
import socket
import urllib.request
from contextlib import ExitStack

import pytest
from django.db import connection

from controlplane.asgi import WEB_THREADS
from tests.support.controlplane import running_web

pytestmark = pytest.mark.integration

JOIN = "/api/v1/join/"
BEGUN = '{"token":'


@pytest.fixture
def address(postgres, transactional_db, valkey):
    url = postgres.url(connection.settings_dict["NAME"])
    with running_web({"DJANGO_SETTINGS_MODULE": "controlplane.settings.test", "TOKENYARD_DATABASE_URL": url}) as found:
        yield found


def head_of(address, length):
    lines = [f"POST {JOIN} HTTP/1.1", f"Host: {address}", "Content-Type: application/json", length]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_forms_that_never_come_keep_nobody_out(address):
    host, port = address.split(":")
    with ExitStack() as slow:
        for _ in range(2 * WEB_THREADS):
            stranger = slow.enter_context(socket.create_connection((host, int(port))))
            stranger.sendall(head_of(address, "Content-Length: 100000") + BEGUN.encode())
        with urllib.request.urlopen(f"http://{address}/sign-in/", timeout=15) as page:
            assert page.status == 200


@pytest.mark.parametrize("length", ["Content-Length: {}", "Transfer-Encoding: chunked"])
def test_a_body_is_read_whether_or_not_it_says_how_long_it_is(address, length):
    body = json.dumps({"token": "tyj-nobody", "name": "n9"}).encode()
    host, port = address.split(":")
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    with socket.create_connection((host, int(port)), timeout=15) as client:
        client.sendall(head_of(address, length.format(len(body))) + (body if "{}" in length else chunked))
        answer = b""
        while b"this join token is not known" not in answer:  # or until the time-out of the socket
            part = client.recv(65536)
            assert part, answer
            answer += part
    assert answer.startswith(b"HTTP/1.1 403 ")
