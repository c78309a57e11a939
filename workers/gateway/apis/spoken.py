"""What a stream of named events has said so far: enough for another engine to go on from it, or that none can.

Only an answer that is one text can be gone on with. `text` is that text as it stands between the quotes of a JSON
string; it is None from the moment that the stream holds anything else.
"""

from workers.gateway.events.event_shape import end_of_string

_MESSAGE_TEXT = b'"delta":{"type":"text_delta","text":"'
_RESPONSE_TEXT = b'"delta":"'
_TEXT_BLOCK = b'"type":"text"'
_MESSAGE_ITEM = b'"type":"message"'
_TEXT_PART = b'"type":"output_text"'
_MESSAGE_CLOSINGS = frozenset((b"content_block_stop", b"message_delta", b"message_stop"))
_RESPONSE_CLOSINGS = frozenset(
    b"response.output_text.done response.content_part.done response.output_item.done response.completed"
    b" response.incomplete response.failed".split()
)
_WITHOUT_OUTPUT = frozenset((b"response.in_progress", b"response.queued"))


class Spoken:
    """`opening` is the data of the first event, `last` of the last; `is_open` says whether the text has begun.

    `closings` is how many of the events have come that follow the text. `tokens` is what an engine counted of the text
    when it broke off last.
    """

    text_mark = b""

    def __init__(self) -> None:
        self.text: bytearray | None = bytearray()
        self.opening = b""
        self.last = b""
        self.is_open = False
        self.closings = 0
        self.tokens = 0

    def note(self, name: bytes, data: bytes) -> None:
        self.last = data
        self._note(name, data)

    def _note(self, name: bytes, data: bytes) -> None:
        raise NotImplementedError

    def _add(self, data: bytes) -> None:
        at = data.find(self.text_mark)
        start = at + len(self.text_mark)
        end = end_of_string(data, start) if at >= 0 else -1
        if end < 0 or not self.is_open or self.closings:
            self.text = None
        elif self.text is not None:
            self.text += data[start:end]

    def _open(self, data: bytes, mark: bytes) -> None:
        if self.is_open or mark not in data:
            self.text = None
        self.is_open = True


class SpokenMessage(Spoken):
    """Of Anthropic's Messages."""

    text_mark = _MESSAGE_TEXT

    def _note(self, name: bytes, data: bytes) -> None:
        if name == b"content_block_delta":
            self._add(data)
        elif name == b"message_start":
            self.opening = data
        elif name == b"content_block_start":
            self._open(data, _TEXT_BLOCK)
        elif name in _MESSAGE_CLOSINGS:
            self.closings += 1


class SpokenResponse(Spoken):
    """Of OpenAI's Responses. `item` is the data of the event that opened the text's item."""

    text_mark = _RESPONSE_TEXT

    def __init__(self) -> None:
        super().__init__()
        self.item = b""

    def _note(self, name: bytes, data: bytes) -> None:
        if name == b"response.output_text.delta":
            self._add(data)
        elif name == b"response.created":
            self.opening = data
        elif name == b"response.output_item.added":
            self.text = None if self.item or _MESSAGE_ITEM not in data else self.text
            self.item = data
        elif name == b"response.content_part.added":
            self._open(data, _TEXT_PART)
        elif name in _RESPONSE_CLOSINGS:
            self.closings += 1
        elif name not in _WITHOUT_OUTPUT:
            self.text = None
