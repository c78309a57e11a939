"""A real S3-speaking server (moto's, which checks signatures) behind a door that can hold and break off."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
from botocore.config import Config

from workers.contracts.stores import StoreAddress

BUCKET = "models"
REGION = "eu-central-1"
_POLICY = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}'


class Store:
    """`breaks_after` bytes of an object its connection ends, once; `asked` are paths and ranges of what was read."""

    def __init__(self, url: str, server_url: str) -> None:
        self.url = url
        self.asked: list[tuple[str, str | None]] = []
        self.breaks_after: int | None = None
        self.damages: list[bytes] = []
        self.is_open = threading.Event()
        self.is_open.set()
        self.keys: dict[str, str] = {}
        self.server_url = server_url

    @property
    def address(self) -> StoreAddress:
        return StoreAddress(name="ours", endpoint=self.url, region=REGION)

    @property
    def environ(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.keys["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": self.keys["SecretAccessKey"]}

    def client(self, service: str = "s3") -> Any:
        keys = {"aws_access_key_id": self.keys["AccessKeyId"], "aws_secret_access_key": self.keys["SecretAccessKey"]}
        config = Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"})
        return boto3.client(service, endpoint_url=self.server_url, region_name=REGION, config=config, **keys)

    def put(self, key: str, content: bytes) -> None:
        self.client().put_object(Bucket=BUCKET, Key=key, Body=content)


@contextmanager
def running_store(objects: dict[str, bytes]) -> Iterator[Store]:
    with _server() as server_port:
        store = Store("", f"http://127.0.0.1:{server_port}")
        door = ThreadingHTTPServer(("127.0.0.1", 0), _door_of(store, server_port))
        store.url = f"http://127.0.0.1:{door.server_address[1]}"
        thread = threading.Thread(target=door.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            _set_up(store, objects)
            yield store
        finally:
            store.is_open.set()
            door.shutdown()
            door.server_close()
            thread.join()


def _set_up(store: Store, objects: dict[str, bytes]) -> None:
    """Whoever reads is one user with one policy; from then on every request is checked."""
    store.keys = {"AccessKeyId": "first", "SecretAccessKey": "first"}
    identities = store.client("iam")
    identities.create_user(UserName="agent")
    identities.put_user_policy(UserName="agent", PolicyName="read", PolicyDocument=_POLICY)
    keys = identities.create_access_key(UserName="agent")["AccessKey"]
    store.client().create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    for key, content in objects.items():
        store.put(key, content)
    store.keys = keys
    connection = HTTPConnection(store.server_url.removeprefix("http://"), timeout=10)
    connection.request("POST", "/moto-api/reset-auth", body="0")
    connection.getresponse().read()
    connection.close()


@contextmanager
def _server() -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        command, stdout=quiet, stderr=quiet, env=os.environ | {"INITIAL_NO_AUTH_ACTION_COUNT": "999"}
    )
    try:
        _await_port(port, process)
        yield port
    finally:
        process.kill()
        process.wait()


def _await_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, "the store's server has ended"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("the store's server does not listen")


def _door_of(store: Store, server_port: int) -> type[BaseHTTPRequestHandler]:
    return type("Door", (_Door,), {"store": store, "server_port": server_port})


class _Door(BaseHTTPRequestHandler):
    store: Store
    server_port: int

    def do_GET(self) -> None:
        is_listing = "list-type" in self.path
        if not is_listing:
            self.store.is_open.wait(20)
            self.store.asked.append((self.path, self.headers.get("Range")))
        self._pass_on(may_break=not is_listing)

    def do_HEAD(self) -> None:
        self._pass_on(may_break=False)

    def _pass_on(self, *, may_break: bool) -> None:
        answer, content = self._ask()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self._as_sent(content) if may_break and answer.status < 300 else content)

    def _ask(self) -> tuple[HTTPResponse, bytes]:
        """With the headers as they came: they are signed."""
        connection = HTTPConnection("127.0.0.1", self.server_port, timeout=20)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer, content

    def _as_sent(self, content: bytes) -> bytes:
        if self.store.breaks_after is not None and len(content) > self.store.breaks_after:
            content, self.store.breaks_after = content[: self.store.breaks_after], None
            self.close_connection = True
        elif self.store.damages and len(content) > 1000:
            content = self.store.damages.pop() + content[1:]
        return content

    def log_message(self, *_: object) -> None:
        return
