import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.unit.workers.gateway.snapshots.test_directory import snapshot
from workers.contracts.signing import SnapshotRefusedError, open_plain, open_signed, public_key_text, sign

pytestmark = pytest.mark.unit

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(b"o" * 32)


def test_a_signed_snapshot_opens_with_the_right_key():
    assert open_signed(sign(snapshot(), KEY), public_key_text(KEY)) == snapshot()


def test_another_keys_signature_is_refused():
    with pytest.raises(SnapshotRefusedError, match="not the control plane's"):
        open_signed(sign(snapshot(), OTHER_KEY), public_key_text(KEY))


def test_a_changed_payload_is_refused():
    envelope = sign(snapshot(), KEY).replace(b'"generation":1', b'"generation":2')
    with pytest.raises(SnapshotRefusedError, match="not the control plane's"):
        open_signed(envelope, public_key_text(KEY))


@pytest.mark.parametrize("envelope", [b"", b"{}", b"[]", b'{"signature":"!","payload":{}}', b'{"signature":5}'])
def test_what_is_no_envelope_is_refused(envelope):
    with pytest.raises(SnapshotRefusedError):
        open_signed(envelope, public_key_text(KEY))


def test_a_snapshot_of_another_schema_is_refused():
    with pytest.raises(SnapshotRefusedError, match="schema version 2"):
        open_plain(msgspec.json.encode(snapshot(schema_version=2)))


def test_fields_of_a_newer_control_plane_are_ignored():
    fields = msgspec.to_builtins(snapshot()) | {"new_field": 1}
    assert open_plain(msgspec.json.encode(fields)) == snapshot()
