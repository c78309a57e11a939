"""What the agent keeps, and what it refuses to keep."""

import os

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.specs import replica_spec
from workers.agent.node_files import NodeFiles, RefusedError
from workers.contracts import layout
from workers.contracts.decisions import DecisionFile, RequestDecision
from workers.contracts.desired import DesiredState
from workers.contracts.endpoints import Endpoint, EndpointList
from workers.contracts.signing import public_key_text, sign
from workers.contracts.snapshot import Snapshot
from workers.contracts.telemetry import GatewayReport
from workers.gateway.snapshots.files import EndpointsFile

pytestmark = pytest.mark.unit

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))


def files(tmp_path):
    return NodeFiles(tmp_path, "node-1")


def desired(*, generation=1, fence=1, node_id="node-1"):
    return DesiredState(node_id=node_id, generation=generation, fence=fence, replicas=[replica_spec()])


def snapshot(generation):
    return Snapshot(
        generation=generation,
        compiled_at=1.0,
        service_classes=[],
        slo_profiles=[],
        tenants=[],
        keys=[],
        versions=[],
        routes=[],
    )


def test_the_desired_state_survives_the_agent(tmp_path):
    files(tmp_path).keep_desired(desired(generation=4))
    assert files(tmp_path).desired == desired(generation=4)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (desired(fence=4, generation=9), "fence 4"),
        (desired(fence=5, generation=1), "generation 1"),
        (desired(fence=6, node_id="node-2"), "node-2"),
    ],
)
def test_a_stale_controller_or_anothers_state_is_refused(state, reason, tmp_path):
    held = files(tmp_path)
    held.keep_desired(desired(fence=5, generation=2))
    with pytest.raises(RefusedError, match=reason):
        held.keep_desired(state)
    assert files(tmp_path).desired_generation == 2


def test_the_controller_of_a_higher_fence_is_believed_whatever_its_generation(tmp_path):
    held = files(tmp_path)
    held.keep_desired(desired(fence=5, generation=7))
    held.keep_desired(desired(fence=6, generation=3))
    assert held.desired_generation == 3


def test_a_damaged_desired_state_is_an_unknown_one(tmp_path):
    (tmp_path / layout.DESIRED_FILE).write_text('{"node_id": "nod')
    assert files(tmp_path).desired is None


def test_a_signed_snapshot_is_kept_byte_for_byte(tmp_path):
    held, envelope = files(tmp_path), sign(snapshot(7), KEY)
    held.keep_public_key(public_key_text(KEY))
    held.write_public_key()
    held.keep_snapshot(envelope)
    assert (tmp_path / layout.SNAPSHOT_FILE).read_bytes() == envelope
    assert held.snapshot_generation == files(tmp_path).snapshot_generation == 7


def test_a_snapshot_that_another_signed_or_nobody_is_refused_and_the_last_one_stays(tmp_path):
    held = files(tmp_path)
    held.keep_public_key(public_key_text(KEY))
    held.write_public_key()
    held.keep_snapshot(sign(snapshot(7), KEY))
    for envelope in (sign(snapshot(8), OTHER_KEY), msgspec.json.encode(snapshot(8)), b"{}"):
        with pytest.raises(RefusedError):
            held.keep_snapshot(envelope)
    assert files(tmp_path).snapshot_generation == 7


def test_without_a_key_no_snapshot_is_believed(tmp_path):
    with pytest.raises(RefusedError):
        files(tmp_path).keep_snapshot(sign(snapshot(7), KEY))


def test_the_first_key_stays(tmp_path):
    held = files(tmp_path)
    held.keep_public_key(public_key_text(KEY))
    held.keep_public_key(public_key_text(OTHER_KEY))
    held.write_public_key()
    assert (tmp_path / layout.PUBLIC_KEY_FILE).read_text() == public_key_text(KEY)


def test_a_damaged_snapshot_counts_as_none_so_that_it_is_sent_again(tmp_path):
    held = files(tmp_path)
    held.keep_public_key(public_key_text(KEY))
    held.write_public_key()
    held.keep_snapshot(sign(snapshot(7), KEY))
    (tmp_path / layout.SNAPSHOT_FILE).write_bytes(b"{")
    assert files(tmp_path).snapshot_generation == 0


def test_offers_are_written_when_they_change_and_numbered(tmp_path):
    held = files(tmp_path)
    endpoint = Endpoint(endpoint_id="e", version_id="v", base_url="http://127.0.0.1:9000")
    for offer in ([], [endpoint], [endpoint]):
        held.offer(offer)
    written = msgspec.json.decode((tmp_path / layout.ENDPOINTS_FILE).read_bytes(), type=EndpointList)
    assert (written.sequence, written.endpoints) == (2, [endpoint])


def test_what_is_coming_is_told_apart_from_what_serves(tmp_path):
    held = files(tmp_path)
    endpoint = Endpoint(endpoint_id="e", version_id="v", base_url="http://127.0.0.1:9000", warmth="loading")
    for _ in range(2):
        held.offer([], [endpoint])
    written = msgspec.json.decode((tmp_path / layout.ENDPOINTS_FILE).read_bytes(), type=EndpointList)
    assert (written.sequence, written.endpoints, written.coming) == (1, [], [endpoint])
    assert EndpointsFile(tmp_path / layout.ENDPOINTS_FILE).read_if_changed() == [endpoint]


def test_a_gateway_report_of_some_time_ago_says_nothing_about_now(tmp_path):
    path = tmp_path / layout.GATEWAY_REPORT_FILE
    report = GatewayReport(gateway_id="g", boot_id="b", active_generation=3)
    path.write_bytes(msgspec.json.encode(report))
    os.utime(path, (1000, 1000))
    assert files(tmp_path).read_gateway_report(now=1004) == report
    assert files(tmp_path).read_gateway_report(now=1006) is None


def test_no_gateway_report_or_half_of_one_is_unknown(tmp_path):
    assert files(tmp_path).read_gateway_report(now=0) is None
    (tmp_path / layout.GATEWAY_REPORT_FILE).write_text('{"gateway_id"')
    assert files(tmp_path).read_gateway_report(now=0) is None


def decisions_of(*names):
    return [
        RequestDecision(
            request_id=name, tenant_id="t", service_class="gold", version_id="v", arrived_at=1.0, is_over=True
        )
        for name in names
    ]


def test_decisions_are_taken_once(tmp_path):
    held = files(tmp_path)
    path = tmp_path / layout.DECISIONS_FILE
    path.write_bytes(msgspec.json.encode(DecisionFile(boot_id="b", decisions=decisions_of("r1", "r2"))))
    assert [decision.request_id for decision in held.take_decisions()] == ["r1", "r2"]
    assert held.take_decisions() == []
    path.write_bytes(msgspec.json.encode(DecisionFile(boot_id="b", first=1, decisions=decisions_of("r2", "r3"))))
    assert [decision.request_id for decision in held.take_decisions()] == ["r3"]


def test_a_gateway_that_has_restarted_counts_anew(tmp_path):
    held = files(tmp_path)
    path = tmp_path / layout.DECISIONS_FILE
    for boot_id in ("b1", "b2"):
        path.write_bytes(msgspec.json.encode(DecisionFile(boot_id=boot_id, decisions=decisions_of(boot_id))))
        assert [decision.request_id for decision in held.take_decisions()] == [boot_id]


def test_a_damaged_file_tells_of_nothing(tmp_path):
    held = files(tmp_path)
    (tmp_path / layout.DECISIONS_FILE).write_bytes(b"{")
    assert held.take_decisions() == []


def test_where_limits_are_shared_is_kept_for_the_gateway_and_for_nobody_else(tmp_path):
    kept = tmp_path / layout.LIMITS_FILE
    files(tmp_path).keep_limits_url("")
    assert not kept.exists()
    files(tmp_path).keep_limits_url("redis://:secret@host")
    kept.write_bytes(b"\xff\xfe")  # torn
    files(tmp_path).keep_limits_url("redis://:other@host")
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("redis://:other@host", 0o600)
