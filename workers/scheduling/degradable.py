"""What waits and may run on another version."""

from itertools import islice

from workers.scheduling.ticket import Ticket

LOOKED_AT = 64
"""At a time: with room elsewhere for all that wait, thousands are through within seconds."""
Alternatives = tuple[str, ...]


class Degradable:
    """By their alternatives, so that of many that wait for the same nobody is looked at while there is no room."""

    def __init__(self) -> None:
        self._alike: dict[Alternatives, dict[int, Ticket]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._alike.values()))

    def __bool__(self) -> bool:
        return bool(self._alike)

    def add(self, ticket: Ticket) -> None:
        if ticket.request.alternatives:
            self._alike.setdefault(ticket.request.alternatives, {})[ticket.number] = ticket

    def remove(self, ticket: Ticket) -> None:
        """Where it was not added, too."""
        alike = self._alike.get(ticket.request.alternatives)
        if alike is not None and alike.pop(ticket.number, None) is not None and not alike:
            del self._alike[ticket.request.alternatives]

    def holds(self, ticket: Ticket) -> bool:
        return ticket.number in self._alike.get(ticket.request.alternatives, {})

    def alternatives(self) -> list[Alternatives]:
        return list(self._alike)

    def next_of(self, alternatives: Alternatives) -> list[Ticket]:
        """Some of them, others each time."""
        alike = self._alike[alternatives]
        numbers = list(islice(alike, LOOKED_AT))
        tickets = [alike.pop(number) for number in numbers]
        alike.update(zip(numbers, tickets, strict=True))
        return tickets
