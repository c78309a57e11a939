"""Files of sealed prompts go to the control plane, and only what is stored there is deleted here."""

import msgspec
import pytest

from workers.agent.reporting import prompt_shipper
from workers.agent.reporting.prompt_shipper import PromptShipper
from workers.contracts.link import PromptAck
from workers.contracts.prompts import PromptFile, SealedPrompt

pytestmark = pytest.mark.unit

PROMPT = SealedPrompt(record_id="r", tenant_id="t", arrived_at=1.0, sealed="AAAA")


class ControlPlane:
    """Acknowledges what it gets, unless it is told to be silent or away."""

    def __init__(self, directory):
        self.shipper = PromptShipper(directory, self.take)
        self.got = []
        self.is_silent = self.is_away = False

    async def take(self, batch):
        if self.is_away:
            raise ConnectionError("no link")
        self.got.append(batch)
        if not self.is_silent:
            self.shipper.acknowledged(PromptAck(batch_id=batch.batch_id))

    async def turn(self):
        return await self.shipper._turn()


@pytest.fixture
def plane(tmp_path):
    return ControlPlane(tmp_path)


def write(directory, name):
    (directory / name).write_bytes(msgspec.json.encode(PromptFile(prompts=[PROMPT])))


async def test_the_oldest_file_goes_first_and_is_deleted_once_it_is_stored(plane, tmp_path):
    write(tmp_path, "b.json")
    write(tmp_path, "a.json")
    assert [await plane.turn() for _ in range(3)] == [True, True, False]
    assert [batch.batch_id for batch in plane.got] == ["a.json", "b.json"]
    assert list(tmp_path.iterdir()) == []


async def test_without_a_link_the_file_stays(plane, tmp_path):
    write(tmp_path, "a.json")
    plane.is_away = True
    assert await plane.turn() is False
    plane.is_away = False
    assert await plane.turn() is True
    assert plane.got[0].prompts == [PROMPT]


async def test_without_an_answer_the_file_is_sent_again(plane, tmp_path, monkeypatch):
    monkeypatch.setattr(prompt_shipper, "_ACK_TIMEOUT_S", 0)
    write(tmp_path, "a.json")
    plane.is_silent = True
    assert await plane.turn() is False
    assert (tmp_path / "a.json").exists()


async def test_a_damaged_file_goes_and_holds_up_no_other(plane, tmp_path):
    (tmp_path / "a.json").write_bytes(b"{")
    write(tmp_path, "b.json")
    assert [await plane.turn() for _ in range(2)] == [True, True]
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_is_still_being_written_is_left_alone(plane, tmp_path):
    write(tmp_path, ".a.json.7")
    assert await plane.turn() is False


async def test_where_no_tenant_keeps_prompts_there_is_nothing_to_do(tmp_path):
    assert await ControlPlane(tmp_path / "none").turn() is False
