"""Which endpoints a request would find its prompt cached at, and how much of it."""

from workers.scheduling.endpoint import EndpointModel
from workers.scheduling.interface import Request
from workers.scheduling.prefix.index import PREFIX_LEVELS, PrefixIndex
from workers.scheduling.ticket import Matches, Ticket

MAX_WITH_PREFIX = 2
NO_HITS: dict[int, int] = {}


class PrefixLookup:
    """Sets `ticket.hits`: of the endpoints with the longest matches, some that run least."""

    def __init__(self, index: PrefixIndex, endpoints: dict[int, EndpointModel]) -> None:
        self._index = index
        self._endpoints = endpoints

    def find(self, ticket: Ticket) -> None:
        """For a newcomer."""
        ticket.matched_at = -1
        self.find_again(ticket)

    def find_again(self, ticket: Ticket) -> None:
        """The index may have changed while it waited."""
        blocks, index = ticket.request.prefix_blocks, self._index
        if not blocks:
            ticket.hits = NO_HITS
            return
        if ticket.matched_at != index.changes:
            ticket.matches, ticket.matched_at = index.match(blocks), index.changes
        ticket.hits = self._hits(ticket.request, ticket.matches)

    def tokens_at(self, ticket: Ticket, number: int) -> int:
        """Of any endpoint: that others have the prefix, too, and run less, does not make its cache empty."""
        tokens = ticket.hits.get(number)
        return _tokens_of(ticket.request, self._blocks_at(ticket, number)) if tokens is None else tokens

    def _blocks_at(self, ticket: Ticket, number: int) -> int:
        for blocks, mask in ticket.matches:
            if mask >> number & 1:
                return blocks
        if len(ticket.matches) < PREFIX_LEVELS:
            return 0
        return self._index.count(ticket.request.prefix_blocks, number)

    def _hits(self, request: Request, matches: Matches) -> dict[int, int]:
        hits: dict[int, int] = {}
        for blocks, mask in matches:
            tokens = _tokens_of(request, blocks)
            for number in self._least_running(mask, MAX_WITH_PREFIX - len(hits)):
                hits[number] = tokens
        return hits

    def _least_running(self, mask: int, count: int) -> list[int]:
        """What many share must not always be looked for at the same ones."""
        numbers = []
        while mask:
            bit = mask & -mask
            numbers.append(bit.bit_length() - 1)
            mask ^= bit
        if len(numbers) <= count:
            return numbers
        loads = [self._load_of(number) for number in numbers]
        chosen: list[int] = []
        while len(chosen) < count:
            place = loads.index(min(loads))
            chosen.append(numbers.pop(place))
            del loads[place]
        return chosen

    def _load_of(self, number: int) -> tuple[int, float]:
        """Of those that run as much, the one that was sent to the longest ago comes first."""
        endpoint = self._endpoints[number]
        return len(endpoint.running), endpoint.sent_at


def _tokens_of(request: Request, blocks: int) -> int:
    return min(max(0, request.prompt_tokens - 1), blocks * request.block_tokens)
