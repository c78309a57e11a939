from hashlib import sha256

import msgspec
import pytest

from workers.contracts.example import build_snapshot
from workers.contracts.snapshot import KeyGrant
from workers.gateway.snapshots.directory import Directory

pytestmark = pytest.mark.unit

KEYS = {"gold": "ty-g", "standard": "ty-s", "batch": "ty-b"}


def snapshot(**changes):
    base = build_snapshot(
        model="m", versions=[("m", 90, ["http://h:1"]), ("m", 10, ["http://h:2"])], keys=KEYS, now=1000.0
    )
    return msgspec.structs.replace(base, **changes)


def grant_for(key, **fields):
    return KeyGrant(key_id="k", key_sha256=sha256(key).hexdigest(), tenant_id="gold", **fields)


def every(version_id):
    return True


def test_a_key_is_found_by_its_hash():
    grant = Directory(snapshot()).find_grant(b"ty-s", 0)
    assert grant is not None
    assert (grant.tenant.name, grant.rank) == ("standard", 1)


@pytest.mark.parametrize("key", [b"", b"ty-", b"ty-gg", b"TY-G", b"\xff"])
def test_other_keys_are_not_found(key):
    assert Directory(snapshot()).find_grant(key, 0) is None


def test_a_key_stops_working_when_it_expires():
    directory = Directory(snapshot(keys=[grant_for(b"old", expires_at=500.0)]))
    assert directory.find_grant(b"old", 499.9) is not None
    assert directory.find_grant(b"old", 500.0) is None


def test_a_key_whose_tenant_is_gone_may_do_nothing():
    assert Directory(snapshot(tenants=[])).find_grant(b"ty-g", 0) is None


def test_tenants_whose_weight_was_edited_are_known():
    first = snapshot()
    gold = next(tenant for tenant in first.tenants if tenant.tenant_id == "gold")
    edited = msgspec.structs.replace(gold, weight=gold.weight + 1)
    others = [tenant for tenant in first.tenants if tenant.tenant_id != "gold"]
    second = Directory(msgspec.structs.replace(first, tenants=[edited, *others]))
    assert second.reweighed_since(Directory(first)) == [edited]
    assert second.reweighed_since(second) == second.reweighed_since(None) == []


def test_a_key_bound_to_models_sees_and_uses_only_those():
    directory = Directory(snapshot(keys=[grant_for(b"bound", models=["other"])]))
    grant = directory.find_grant(b"bound", 0)
    assert grant is not None
    assert directory.list_routes(grant) == []
    assert not directory.may_use(grant, "m")


def test_the_memory_of_a_split_survives_a_new_snapshot_that_leaves_the_route_alone():
    first = Directory(snapshot())
    chosen = {user: first.choose_version("m", user, every) for user in map(str, range(300))}
    second = Directory(snapshot(generation=2), first)
    assert {user: second.choose_version("m", user, every) for user in chosen} == chosen


def test_a_route_to_a_version_that_is_not_in_the_snapshot_leads_nowhere():
    assert Directory(snapshot(versions=[])).choose_version("m", "", every) is None


def test_a_version_without_engines_is_stood_in_for_by_another_of_its_route():
    directory = Directory(snapshot())
    chosen = {directory.choose_version("m", "", lambda version_id: version_id == "v2").version_id for _ in range(20)}
    assert chosen == {"v2"}


def test_when_no_version_has_engines_the_chosen_one_is_waited_for():
    directory = Directory(snapshot())
    chosen = [directory.choose_version("m", "", lambda version_id: False).version_id for _ in range(20)]
    assert (chosen.count("v1"), chosen.count("v2")) == (18, 2)
