"""The gateway keeps prompts only where it is told to, sealed, bounded, and never at the cost of a request."""

import base64
import json

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from workers.contracts.prompts import PromptFile, open_prompt
from workers.gateway.records import prompts
from workers.gateway.records.prompts import MAX_PROMPT_BYTES, PromptKeeper

pytestmark = pytest.mark.unit

KEY = X25519PrivateKey.from_private_bytes(b"\x01" * 32)
PUBLIC = base64.b64encode(KEY.public_key().public_bytes_raw()).decode()


@pytest.fixture
def keeper(tmp_path):
    made = PromptKeeper(tmp_path / "prompts", "boot")
    made.adopt(PUBLIC)
    return made


def keep(keeper, body, record_id="r"):
    keeper.keep(record_id, "t", 1.0, body)


def kept_in(directory):
    """Texts by record id, of every file."""
    files = [msgspec.json.decode(path.read_bytes(), type=PromptFile) for path in sorted(directory.glob("*.json"))]
    sealed = [prompt for file in files for prompt in file.prompts]
    return {
        each.record_id: open_prompt(each.sealed, record_id=each.record_id, tenant_id=each.tenant_id, private_key=KEY)
        for each in sealed
    }


def test_a_prompt_is_written_sealed_and_its_text_is_nowhere_on_the_disk(keeper, tmp_path):
    keep(keeper, b'{"prompt": "a planted secret"}')
    keeper.write()
    assert kept_in(tmp_path / "prompts") == {"r": b'{"prompt": "a planted secret"}'}
    assert not [path for path in tmp_path.rglob("*.json") if b"planted" in path.read_bytes()]


@pytest.mark.parametrize("key", ["", "no key", base64.b64encode(b"short").decode()])
def test_without_a_key_nothing_is_kept(keeper, tmp_path, key):
    keeper.adopt(key)
    keep(keeper, b"{}")
    keeper.write()
    assert not (tmp_path / "prompts").exists()


def test_a_gateway_alone_keeps_nothing():
    keeper = PromptKeeper(None, "boot")
    keeper.adopt(PUBLIC)
    keep(keeper, b"{}")
    keeper.write()
    assert keeper.dropped == 0


def test_pictures_are_left_out_and_long_prompts_are_cut(keeper, tmp_path):
    picture = "data:image/png;base64," + "QUJD" * 1000
    keep(keeper, json.dumps({"url": picture}).encode(), "picture")
    keep(keeper, b"x" * (2 * MAX_PROMPT_BYTES), "long")
    keeper.write()
    found = kept_in(tmp_path / "prompts")
    assert found["picture"] == b'{"url": "data:image/png;base64,(left out)"}'
    assert len(found["long"]) == MAX_PROMPT_BYTES


def test_what_memory_has_no_room_for_is_dropped_and_counted(keeper, monkeypatch, tmp_path):
    monkeypatch.setattr(prompts, "MAX_WAITING_BYTES", 10)
    keep(keeper, b"12345678", "first")
    keep(keeper, b"12345678", "second")
    keeper.write()
    assert (set(kept_in(tmp_path / "prompts")), keeper.dropped) == ({"first"}, 1)
    keep(keeper, b"12345678", "third")
    keeper.write()
    assert set(kept_in(tmp_path / "prompts")) == {"first", "third"}


def test_a_directory_that_nobody_empties_grows_no_further(keeper, monkeypatch, tmp_path):
    keep(keeper, b"first", "first")
    keeper.write()
    monkeypatch.setattr(prompts, "MAX_DIRECTORY_BYTES", 10)
    keep(keeper, b"second", "second")
    keeper.write()
    assert (set(kept_in(tmp_path / "prompts")), keeper.dropped) == ({"first"}, 1)


def test_many_prompts_go_into_files_of_a_bounded_size(keeper, monkeypatch, tmp_path):
    monkeypatch.setattr(prompts, "MAX_FILE_BYTES", 10)
    for number in range(5):
        keep(keeper, b"1234", str(number))
    keeper.write()
    assert len(list((tmp_path / "prompts").iterdir())) == 3
    assert len(kept_in(tmp_path / "prompts")) == 5
