import pytest

from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.upstream import UpstreamConnection, UpstreamError

pytestmark = pytest.mark.unit

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Transport:
    def write(self, data): ...
    def abort(self): ...
    def close(self): ...
    def is_closing(self):
        return False


class Turn:
    def write(self, transport, data): ...


class Reader:
    """`fault` is raised when an answer begins."""

    def __init__(self, fault=None):
        self.fault = fault
        self.errors = []

    def answer_began(self, head):
        if self.fault is not None:
            raise self.fault

    def answer_received(self, pieces): ...
    def answer_ended(self, pieces): ...

    def answer_failed(self, error):
        self.errors.append(error)


def asked(reader):
    connection = UpstreamConnection(EnginePool("http://engine:1", Turn()))
    connection.connection_made(Transport())
    connection.ask(b"", reader)
    return connection


def test_a_fault_of_the_gateway_in_reading_an_answer_is_logged_with_its_cause(caplog):
    reader = Reader(TypeError("no such stream"))

    asked(reader).data_received(ANSWER)

    assert "no such stream" in caplog.text
    assert [type(error) for error in reader.errors] == [UpstreamError]


NO_STATUS = b"HTTP/1.1 099 Odd\r\ncontent-length: 0\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: %b\r\n" % (number, b"a" * 60_000) for number in range(6))


@pytest.mark.parametrize("sent", [b"SSH-2.0-x\r\n", ANSWER + ANSWER, NO_STATUS, ENDLESS])
def test_what_an_engine_does_wrong_is_no_fault_of_the_gateway(caplog, sent):
    reader = Reader()

    asked(reader).data_received(sent)

    assert not caplog.text
    assert [type(error) for error in reader.errors] == [UpstreamError]
