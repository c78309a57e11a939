"""Which endpoints a request would find its prompt cached at, and how much of it."""

from workers.scheduling.endpoint import EndpointModel
from workers.scheduling.interface import Request
from workers.scheduling.prefix.index import PrefixIndex
from workers.scheduling.prefix.levels import PREFIX_LEVELS, numbers_in
from workers.scheduling.ticket import Matches, Ticket

MAX_WITH_PREFIX = 2
MAX_MASKS = 1000
NO_HITS: dict[int, int] = {}


class PrefixLookup:
    """Sets `ticket.hits`: of the endpoints with the longest matches, some that run least."""

    def __init__(self, index: PrefixIndex, endpoints: dict[int, EndpointModel]) -> None:
        self._index = index
        self._numbers: dict[int, list[int]] = {}
        self._endpoints = endpoints

    def find(self, ticket: Ticket) -> None:
        """For a newcomer."""
        ticket.matched_at = ticket.matched_like = -1
        self.find_again(ticket)

    def find_again(self, ticket: Ticket) -> None:
        """The index may have changed while it waited."""
        blocks, index = ticket.request.prefix_blocks, self._index
        if not blocks:
            ticket.hits = NO_HITS
            return
        changes = index.changes()
        if ticket.matched_at != changes:
            ticket.matched_at = changes
            self._match_again(ticket)
        ticket.hits = self._hits(ticket.request, ticket.matches)

    def _match_again(self, ticket: Ticket) -> None:
        blocks = ticket.request.prefix_blocks
        changes = self._index.changes_like(blocks)
        if ticket.matched_like != changes:
            ticket.matches, ticket.matched_like = self._index.match(blocks), changes

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
            if len(hits) == MAX_WITH_PREFIX:
                break
            tokens = _tokens_of(request, blocks)
            for number in self._least_running(mask, MAX_WITH_PREFIX - len(hits)):
                hits[number] = tokens
        return hits

    def _least_running(self, mask: int, count: int) -> list[int]:
        """What many share must not always be looked for at the same ones."""
        numbers = self._numbers_in(mask)
        if len(numbers) <= count:
            return numbers
        chosen: list[int] = []
        while len(chosen) < count:
            chosen.append(self._least_loaded(numbers, chosen))
        return chosen

    def _numbers_in(self, mask: int) -> list[int]:
        """Of a mask; the same few come again and again."""
        numbers = self._numbers.get(mask)
        if numbers is None:
            if len(self._numbers) >= MAX_MASKS:
                self._numbers.clear()
            numbers = self._numbers[mask] = numbers_in(mask)
        return numbers

    def _least_loaded(self, numbers: list[int], chosen: list[int]) -> int:
        """Of those that run as much, the one that was sent to the longest ago comes first."""
        best, least, longest_ago = -1, 0, 0.0
        for number in numbers:
            endpoint = self._endpoints[number]
            running, sent_at = len(endpoint.running), endpoint.sent_at
            is_less = running < least or (running == least and sent_at < longest_ago)
            if (best < 0 or is_less) and number not in chosen:
                best, least, longest_ago = number, running, sent_at
        return best


def _tokens_of(request: Request, blocks: int) -> int:
    return min(max(0, request.prompt_tokens - 1), blocks * request.block_tokens)
