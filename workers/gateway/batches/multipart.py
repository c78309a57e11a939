"""A form that is read as it comes: one part of it may be large and is handed on, the others are short and kept."""

from workers.gateway.errors import GatewayError, bad_request
from workers.gateway.payload.forms import MAX_PART_HEAD_BYTES, MAX_PARTS, boundary_of, part_names

MAX_VALUE_BYTES = 4096
_END_OF_HEAD = b"\r\n\r\n"


class FormReader:
    """Any division of the same bytes gives the same content and the same values. Raises a 400 for what is no form.

    `large` is the name of the large part, `filename` what its head says of it, None before it has come. `is_over` once
    the form has ended.
    """

    def __init__(self, content_type: bytes, *, large: str) -> None:
        self._delimiter = b"\r\n--" + boundary_of(content_type)
        self._large = large
        self._held = b"\r\n"  # the first delimiter may stand at the very beginning
        self._is_in_head = False
        self._name: str | None = None
        self._value = b""
        self._parts = 0
        self.filename: str | None = None
        self.values: dict[str, str] = {}
        self.is_over = False

    def feed(self, data: bytes) -> list[bytes]:
        """What of the large part is in it."""
        self._held += data
        pieces: list[bytes] = []
        is_going_on = True
        while is_going_on and not self.is_over:
            is_going_on = self._read_head() if self._is_in_head else self._read_content(pieces)
        return pieces

    def _read_content(self, pieces: list[bytes]) -> bool:
        """Up to the next delimiter, or to where one may begin."""
        held, delimiter = self._held, self._delimiter
        end = held.find(delimiter)
        sure = end if end >= 0 else max(len(held) - len(delimiter) + 1, 0)
        self._take(held[:sure], pieces)
        self._held = held[end + len(delimiter) :] if end >= 0 else held[sure:]
        if end >= 0:
            self._end_part()
        return end >= 0

    def _take(self, content: bytes, pieces: list[bytes]) -> None:
        if not content or self._name is None:
            return
        if self._name == self._large:
            pieces.append(content)
            return
        self._value += content
        if len(self._value) > MAX_VALUE_BYTES:
            raise bad_request("invalid_form", f"The field `{self._name[:100]}` is too long.", self._name[:100])

    def _end_part(self) -> None:
        if self._name is not None and self._name != self._large:
            self.values[self._name] = self._value.decode("utf-8", "replace")
        self._value = b""
        self._is_in_head = True

    def _read_head(self) -> bool:
        if self._held.startswith(b"--"):
            self.is_over = True
            return False
        end = self._held.find(_END_OF_HEAD, 0, MAX_PART_HEAD_BYTES)
        if end < 0:
            if len(self._held) >= MAX_PART_HEAD_BYTES:
                raise bad_request("invalid_form", "The head of a part is too long.")
            return False
        self._open_part(self._held[:end])
        self._held = self._held[end + len(_END_OF_HEAD) :]
        return True

    def _open_part(self, head: bytes) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise bad_request("invalid_form", f"The form has more than {MAX_PARTS} parts.")
        self._name, filename = part_names(head)
        self._is_in_head = False
        if self._name == self._large:
            self._require_first()
            self.filename = filename

    def _require_first(self) -> None:
        if self.filename is not None:
            raise bad_request("invalid_form", f"The form has more than one `{self._large}`.", self._large)


def cut_short() -> GatewayError:
    return bad_request("invalid_form", "The form has no end.")
