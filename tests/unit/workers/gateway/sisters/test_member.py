import asyncio
from types import SimpleNamespace

import pytest

from tests.unit.workers.gateway.sisters.test_ownership import engine, snapshot
from workers.gateway.http.request_heads import read_head
from workers.gateway.http.requests import HttpRequest
from workers.gateway.sisters import control
from workers.gateway.sisters.channel import MAX_HOPS, REFUSED
from workers.gateway.sisters.company import Parts
from workers.gateway.sisters.figures import SisterFigures
from workers.gateway.sisters.member import Ends, Member

pytestmark = pytest.mark.unit

OWNERS = {"a": 0, "b": 1}


class Surface:
    def __init__(self):
        self.directory = SimpleNamespace(snapshot=snapshot(dict.fromkeys("abc", ""), [(n, [n], []) for n in "abc"]))
        self.exchanges = []
        self.stop_reason = None
        self.handled = []

    def handle(self, client, request):
        self.handled.append((request.body, self.stop_reason))


class Client:
    owner = None


class Process:
    """Number 0 of two, which has joined."""

    def __init__(self):
        self.surface = Surface()
        self.figures = SisterFigures()
        self.member = Member(Ends(number=0, serve=None, control=None, inbox=None, inboxes=[]))
        self.member.join(
            Parts(surface=self.surface, connections=None, turn=None, figures=self.figures, open_connection=None)
        )
        self.hear(control.Owners(OWNERS))

    def hear(self, message):
        self.member._hear(message)

    def ask(self, model, hops=0):
        """Whether it is answered here."""
        client, before = Client(), len(self.surface.handled)
        head = read_head(b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n\r\n")
        request = HttpRequest(head, b'{"model":"%b"}' % model.encode(), 0.0, keeps_alive=True)
        self.member.handle(client, request, hops)
        is_here = len(self.surface.handled) > before
        assert is_here != (client.owner is not None)
        return is_here


@pytest.fixture
async def process():
    return Process()


async def test_it_answers_what_is_its_own_or_nobodys_and_passes_what_is_a_sisters(process):
    assert process.ask("a")
    assert process.ask("c")
    assert process.ask("unknown")
    assert not process.ask("b")


async def test_what_was_passed_to_and_fro_is_answered_where_it_is(process):
    assert not process.ask("b", hops=MAX_HOPS - 1)
    assert process.ask("b", hops=MAX_HOPS)


async def test_what_waited_for_an_owner_that_does_not_come_back_is_refused_with_its_record(process):
    assert process.ask("b", hops=REFUSED)
    assert process.ask("a", hops=REFUSED)  # which is this one's own by now
    (_, refused), (_, taken_up) = process.surface.handled
    assert (refused.code, taken_up) == ("owner_unavailable", None)


async def test_one_that_stops_or_leaves_answers_whatever_its_clients_ask(process):
    process.surface.stop_reason = "stopping"
    assert process.ask("b")
    process.surface.stop_reason = None
    assert not process.ask("b")
    process.member.begin_leaving(has_successor=True)
    assert process.surface.handled[-1] == (b'{"model":"b"}', None)  # what waited to be passed
    assert process.ask("b")


async def test_what_cannot_be_passed_is_refused_as_whatever_is_refused_for_now(process):
    process.member.refuse(Client(), SimpleNamespace(body=b"asked"))
    [(_, reason)] = process.surface.handled
    assert (reason.status, reason.code, reason.retry_after_s) == (503, "owner_unavailable", 1)
    assert process.surface.stop_reason is None
    assert process.figures.refused == 1


async def test_it_sends_to_its_own_engines_and_of_a_model_that_it_lost_while_something_of_it_runs(process):
    offered = [engine("a"), engine("b")]
    assert process.member.owned(offered) == offered[:1]
    running = SimpleNamespace(settlement=SimpleNamespace(version_id="a"))
    process.surface.exchanges.append(running)
    process.hear(control.Owners({"a": 1, "b": 1}))
    assert not process.ask("a")
    assert process.member.owned(offered) == offered[:1]
    process.surface.exchanges.clear()
    assert process.member.owned(offered) == []
    process.member.begin_leaving(has_successor=True)
    assert process.member.owned(offered) == offered


async def test_it_knows_who_is_up_and_when_it_is_succeeded(process):
    process.hear(control.Up([0]))
    assert not process.member.is_up(1)
    process.hear(control.Up([0, 1]))
    assert process.member.is_up(1)
    process.hear(control.Succeeded())
    assert process.member.succeeded.is_set()


async def test_questions_are_answered_by_number_and_not_for_ever():
    questions, asked = control.Questions(), []
    answering = asyncio.create_task(questions.ask(asked.append, 5.0))
    await asyncio.sleep(0)
    questions.answered(asked[0] + 1, control.Ready())
    questions.answered(asked[0], control.Succeeded())
    assert await answering == control.Succeeded()
    with pytest.raises(TimeoutError):
        await questions.ask(asked.append, 0.0)
