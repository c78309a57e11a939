"""Where engines publish their KV events, which of them do, and what vLLM's batches say."""

import json

import msgspec
import pytest

from tests.support.specs import replica_spec
from workers.engines.environments.locate import MARKER, environment_path
from workers.engines.environments.recipes import VLLM_CPU
from workers.engines.kv_sockets import events_config, kv_events_of
from workers.engines.registry import build_adapters
from workers.engines.site import Site
from workers.engines.vllm.cache_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    UnreadableError,
    decode_batch,
)

pytestmark = pytest.mark.unit

# As vLLM 0.32 sent it on a CPU, with fewer tokens.
STORED = {
    "type": "BlockStored", "block_hashes": [201214799920017512, 2**64 - 1], "parent_block_hash": None,
    "token_ids": [1, 9690, 198, 2683], "block_size": 2, "lora_id": None, "medium": "GPU", "lora_name": None,
    "extra_keys": [None, None], "group_idx": 0, "kv_cache_spec_kind": "full_attention",
}  # fmt: skip


def batch(*events):
    return msgspec.msgpack.encode([1795960944.79, list(events), 0])


def site(tmp_path, **changes):
    return Site(cache=tmp_path, gpu_count=0, python="/usr/bin/python", **({"sockets": tmp_path / "sockets"} | changes))


def vllm_plan(tmp_path, config="replay_endpoint: str | None = None", sockets=None, **spec):
    environment = environment_path(VLLM_CPU, tmp_path)
    package = environment / "lib/python3.11/site-packages/vllm/config"
    package.mkdir(parents=True, exist_ok=True)
    (environment / MARKER).touch()
    if config:
        (package / "kv_events.py").write_text(config)
    found = site(tmp_path) if sockets is None else site(tmp_path, sockets=None)
    return build_adapters(found)["vllm"].plan(replica_spec(engine="vllm", **spec))


def test_a_batch_is_read_as_vllm_sends_it():
    removed = {"type": "BlockRemoved", "block_hashes": [7], "medium": "GPU", "group_idx": 0}
    events = decode_batch(batch(STORED, removed, {"type": "AllBlocksCleared"}))
    stored = BlockStored(
        block_hashes=[201214799920017512, 2**64 - 1], parent_block_hash=None, token_ids=[1, 9690, 198, 2683],
        block_size=2, medium="GPU", extra_keys=[None, None], group_idx=0,
    )  # fmt: skip
    assert events == [stored, BlockRemoved(block_hashes=[7], medium="GPU", group_idx=0), AllBlocksCleared()]


@pytest.mark.parametrize("change", [{"medium": "CPU"}, {"group_idx": 1}, {"locality": "REMOTE"}])
def test_copies_elsewhere_and_other_groups_of_layers_are_left_out(change):
    assert decode_batch(batch(STORED | change)) == []


@pytest.mark.parametrize("payload", [b"", b"junk", msgspec.msgpack.encode({"ts": 1}), batch({"type": "Unheard"})])
def test_what_is_not_a_batch_is_refused(payload):
    with pytest.raises(UnreadableError):
        decode_batch(payload)


def test_the_agents_vllm_publishes_where_the_gateway_listens(tmp_path):
    plan = vllm_plan(tmp_path)
    config = json.loads(plan.argv[plan.argv.index("--kv-events-config") + 1])
    events = plan.shape.kv_events
    assert (config["endpoint"], config["replay_endpoint"]) == (events.publisher, events.replay)
    assert config["enable_kv_cache_events"]
    assert config["publisher"] == "zmq"


@pytest.mark.parametrize(
    "changes",
    [
        {"config": ""},
        {"config": "an older one"},
        {"sockets": False},
        {"task": "embed"},
        {"engine_args": {"kv_events": False}},
        {"engine_args": {"extra": ["--no-enable-prefix-caching"]}},
        {"engine_args": {"extra": ["--no_enable_prefix_caching"]}},
        {"engine_args": {"extra": ["--data-parallel-size", "2"]}},
        {"engine_args": {"extra": ['--kv-events-config={"publisher": "zmq"}']}},
    ],
)
def test_an_engine_that_cannot_or_should_not_is_not_told_to_publish(tmp_path, changes):
    plan = vllm_plan(tmp_path, **changes)
    assert plan.shape.kv_events is None
    assert "buffer_steps" not in " ".join(plan.argv)


def test_the_fake_engine_publishes_in_the_same_way(tmp_path):
    fake = build_adapters(site(tmp_path))["fake"]
    plan = fake.plan(replica_spec())
    assert plan.argv[-2:] == ["--kv-events-config", events_config(plan.shape.kv_events)]
    assert fake.plan(replica_spec(engine_args={"kv_events": False})).shape.kv_events is None


def test_each_replica_has_sockets_of_its_own_that_only_this_user_reaches(tmp_path):
    one, other = (kv_events_of(site(tmp_path), name) for name in ("replica-1", "replica-2"))
    assert len({one.publisher, one.replay, other.publisher, other.replay}) == 4
    assert (tmp_path / "sockets").stat().st_mode & 0o777 == 0o700


def test_a_path_that_is_too_long_for_a_socket_is_replaced_by_a_short_one(tmp_path):
    events = kv_events_of(site(tmp_path, sockets=tmp_path / ("deep" * 30) / "sockets"), "replica-1")
    assert len(events.replay) <= 107 + len("ipc://")
    assert "deep" not in events.replay
