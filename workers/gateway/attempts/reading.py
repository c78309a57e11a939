"""How the stream of an engine's answer is read, for the question that was asked."""

from workers.contracts.endpoints import Endpoint
from workers.gateway.apis.interface import AnswerStream
from workers.gateway.apis.paths import CHAT_TEXT_MARK
from workers.gateway.attempts.asking import Question
from workers.gateway.attempts.engines import Engine
from workers.gateway.events.dialects import dialect_of
from workers.gateway.events.streams import StreamFilter
from workers.gateway.payload.peeks import choices_of


def open_stream(question: Question, engine: Engine) -> AnswerStream:
    rename = (question.served_name, question.public_model) if question.is_renamed else None
    named = question.path.api.open_stream(rename, keeps_text=engine.endpoint.reports_continuous_usage)
    return named or open_filter(question, engine, rename)


def open_filter(question: Question, engine: Engine, rename: tuple[str, str] | None) -> StreamFilter:
    peek = question.peek
    dialect = dialect_of(engine.endpoint)
    return StreamFilter(
        dialect,
        hide_usage=question.needs_usage and dialect.hides_usage_event(peek),
        hide_counts=question.needs_usage and dialect.hides_counts(peek),
        rename=rename,
        fingerprint=engine.fingerprint,
        choices_per_prompt=choices_of(peek),
        text_mark=question.path.text_mark,
        keeps_text=_may_be_continued(question, engine.endpoint),
    )


def open_chat(engine: Engine) -> StreamFilter:
    """A chat by which another API's answer is gone on with: nobody sees it as it is."""
    return StreamFilter(
        dialect_of(engine.endpoint), hide_usage=False, hide_counts=False, text_mark=CHAT_TEXT_MARK, keeps_text=True
    )


def _may_be_continued(question: Question, endpoint: Endpoint) -> bool:
    """The engine must count along, and its like be able to go on from a text."""
    is_one = bool(question.path.text_mark) and choices_of(question.peek) == 1
    return is_one and (endpoint.engine == "llamacpp" or endpoint.reports_continuous_usage)
