from hashlib import sha256

import msgspec
import pytest

from workers.contracts.example import build_snapshot
from workers.gateway.apis.paths import ENGINE_PATHS
from workers.gateway.front.introduction import Introduction
from workers.gateway.http.heads import RequestHead
from workers.gateway.http.requests import HttpRequest
from workers.gateway.snapshots.directory import Directory

pytestmark = pytest.mark.unit

PATH = b"/v1/chat/completions"
SNAPSHOT = build_snapshot(model="m", versions=[("m", 100, ["http://h:1"])], keys={"gold": "ty-g"}, now=0.0)


def directory_of(**key) -> Directory:
    keys = [msgspec.structs.replace(SNAPSHOT.keys[0], key_sha256=sha256(b"ty-g").hexdigest(), **key)]
    return Directory(msgspec.structs.replace(SNAPSHOT, keys=keys))


def introduction(directory: Directory, *headers: tuple[bytes, bytes]) -> Introduction:
    head = RequestHead(b"POST", PATH, list(headers), is_http_10=False, keeps_alive=True)
    grant = directory.find_grant(b"ty-g", 1.0)
    assert grant is not None
    return Introduction(directory, grant, ENGINE_PATHS[PATH], HttpRequest(head, b"", 0.0, keeps_alive=True), [])


def test_it_holds_as_long_as_nothing_changes():
    directory = directory_of()

    assert introduction(directory).holds(directory, 1e9)


def test_with_another_snapshot_the_key_is_asked_for_anew():
    assert not introduction(directory_of()).holds(directory_of(), 1.0)
    assert not introduction(directory_of()).holds(None, 1.0)


def test_a_key_that_ends_ends_on_a_connection_that_is_open_too():
    directory = directory_of(expires_at=500.0)

    assert introduction(directory).holds(directory, 499.9)
    assert not introduction(directory).holds(directory, 500.0)


@pytest.mark.parametrize(("given", "kept"), [(b"mine-1", "mine-1"), (b"", ""), (b"a" * 129, ""), (b"a\x7f", "")])
def test_the_clients_own_id_is_kept_if_it_may_stand_in_a_header(given: bytes, kept: str):
    assert introduction(directory_of(), (b"x-request-id", given)).given_id == kept


def test_a_trace_is_made_up_only_for_who_brings_none():
    directory = directory_of()

    assert introduction(directory).is_untraced
    assert not introduction(directory, (b"traceparent", b"00-x-y-01")).is_untraced
    assert not introduction(directory, (b"x-request-id", b"mine")).is_untraced


def test_a_key_with_a_scope_is_looked_at_each_time():
    assert introduction(directory_of(networks=["10.0.0.0/8"])).is_scoped
    assert not introduction(directory_of()).is_scoped
