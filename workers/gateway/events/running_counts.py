"""What an engine counts along with the events of a stream, in vLLM's words and order: read digit by digit.

Whatever stands there otherwise is left to those who read all of JSON.
"""

import re

_FORM = re.compile(rb'("prompt_tokens":([1-9]\d{0,8}|0),"total_tokens":)\d{1,9},"completion_tokens":\d{1,9}\}\}')
_OUTPUT = b',"completion_tokens":'
_END = b"}}\n\n"  # of the count, of its event's object and of the event
_ZERO, _MAX_DIGIT = 48, 9
_MAX_DIGITS = 9


class CountsByChoice:
    """What an engine has counted by now of each choice, as it wrote it.

    `input_tokens` and `output_tokens` are of the only choice there is, where a RunningCount read them; an
    `output_tokens` below 0 says nothing, and `by_choice` is to be asked.
    """

    __slots__ = ("_written", "input_tokens", "output_tokens")

    def __init__(self) -> None:
        self._written: dict[bytes, bytes] = {}
        self.input_tokens = 0
        self.output_tokens = -1

    def note(self, choice: bytes, count: bytes) -> None:
        self.write_down()
        self._written[choice] = count

    def note_running(self, input_tokens: int, output_tokens: int) -> None:
        """Of the first choice."""
        self.input_tokens, self.output_tokens = input_tokens, output_tokens
        if len(self._written) > (b"0" in self._written):  # others count, too
            self.write_down()

    def by_choice(self) -> dict[bytes, bytes]:
        self.write_down()
        return self._written

    def write_down(self) -> None:
        """As an engine would write it, to be decoded with what else it wrote."""
        if self.output_tokens >= 0:
            numbers = (self.input_tokens, self.output_tokens)
            self._written[b"0"] = b'{"prompt_tokens":%d,"completion_tokens":%d}' % numbers
            self.output_tokens = -1


class RunningCount:
    """Of one choice, whose prompt stays the same: `lead` is what each count begins with, up to the total.

    `output_tokens` is of the count that was read last.
    """

    __slots__ = ("input_tokens", "lead", "output_tokens")

    def __init__(self, lead: bytes, input_tokens: int) -> None:
        self.lead = lead
        self.input_tokens = input_tokens
        self.output_tokens = 0

    def end_of_event(self, events: bytes, at: int) -> int:
        """Of one that ends with a count, behind whose lead is `at`; -1 where something else stands there."""
        total_end, _ = _read_number(events, at)
        output_at = total_end + len(_OUTPUT)
        if total_end == at or events[total_end:output_at] != _OUTPUT:
            return -1
        output_end, output_tokens = _read_number(events, output_at)
        end = output_end + len(_END)
        if output_end == output_at or events[output_end:end] != _END:
            return -1
        self.output_tokens = output_tokens
        return end


def running_count(count: bytes) -> RunningCount | None:
    """To read those like this one, which is all of an event behind the brace that opens its count."""
    found = _FORM.fullmatch(count)
    return RunningCount(found[1], int(found[2])) if found is not None else None


def _read_number(events: bytes, at: int) -> tuple[int, int]:
    """Where it ends, which is `at` if none stands there, and what it is."""
    number, start, last = 0, at, min(len(events), at + _MAX_DIGITS)
    while at < last:
        digit = events[at] - _ZERO
        if digit < 0 or digit > _MAX_DIGIT:
            break
        number = 10 * number + digit
        at += 1
    is_sound = at == start + 1 or (at > start and events[start] != _ZERO)
    return (at, number) if is_sound else (start, 0)
