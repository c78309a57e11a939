"""How the body of a stream is cut into events, whatever pieces it comes in."""

MAX_EVENT_BYTES = 8 * 1024 * 1024
EVENT_END = b"\n\n"


class EventStream:
    """Fed with the body's bytes as they come; what `_pass` makes of each event goes out, always whole events.

    Any division of the same bytes into pieces gives the same events in the same order.
    """

    _tail = b""
    _line_end = b""  # where it is another than LF
    _ended_in_cr = False

    def feed(self, chunk: bytes) -> bytes:
        if self._ended_in_cr or b"\r" in chunk:
            return self._feed_other_lines(chunk)
        return self._cut(chunk)

    def _cut(self, chunk: bytes) -> bytes:
        chunk = self._tail + chunk if self._tail else chunk
        first = chunk.find(EVENT_END)
        if first < 0:
            self._tail = chunk
            return b""
        if first + 2 == len(chunk):
            self._tail = b""
            return self._pass(chunk[:first])
        end = chunk.rfind(EVENT_END)
        self._tail = chunk[end + 2 :]
        return self._pass(chunk[:first]) if first == end else self._pass_all(chunk[: end + 2])

    def _feed_other_lines(self, chunk: bytes) -> bytes:
        """Lines that end in CR LF or CR are cut as if they ended in LF, and go out as they came."""
        if self._ended_in_cr:
            self._line_end = self._line_end or (b"\r\n" if chunk.startswith(b"\n") else b"\r")
            chunk = chunk.removeprefix(b"\n")
        self._ended_in_cr = chunk.endswith(b"\r")
        first = chunk.find(b"\r")
        if not self._line_end and 0 <= first < len(chunk) - 1:
            self._line_end = b"\r\n" if chunk.startswith(b"\n", first + 1) else b"\r"
        passed = self._cut(chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        return passed.replace(b"\n", self._line_end or b"\n")

    def finish(self) -> bytes:
        """What is left when the engine has ended its answer: without an end of its own it passes as it is."""
        rest, self._tail = self._tail, b""
        return rest

    def finish_whole_events(self) -> bytes:
        """The same when it has broken off: half an event is dropped."""
        self._tail = b""
        return self.finish()

    @property
    def is_too_long(self) -> bool:
        return len(self._tail) > MAX_EVENT_BYTES

    def _pass_all(self, events: bytes) -> bytes:
        return self._pass_each(events)

    def _pass_each(self, events: bytes) -> bytes:
        *whole, rest = events.split(EVENT_END)
        self._tail = rest + self._tail  # a third line end in a row
        return b"".join([self._pass(event) for event in whole])

    def _pass(self, event: bytes) -> bytes:
        """What goes out for an event, which comes without its end and goes with it; may be nothing."""
        raise NotImplementedError
