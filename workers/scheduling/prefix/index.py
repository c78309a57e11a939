"""Which endpoint has which prefixes cached: as the engine says, or else as far as our own dispatches tell."""

from workers.scheduling.interface import KVChange
from workers.scheduling.prefix.exact import ExactCaches
from workers.scheduling.prefix.guesses import Guesses
from workers.scheduling.prefix.levels import Level, merge_levels


class PrefixIndex:
    """Each endpoint is told of by its engine's words or by our guesses, never by both."""

    def __init__(self) -> None:
        self._guesses = Guesses()
        self._exact = ExactCaches()
        self._changes = 0

    def __len__(self) -> int:
        """Blocks."""
        return len(self._guesses) + len(self._exact)

    def is_exact(self, endpoint: int) -> bool:
        return endpoint in self._exact

    def changes(self) -> int:
        """Grows with whatever may change what `match` finds of any prompt."""
        return self._changes + self._guesses.changes

    def changes_like(self, blocks: tuple[int, ...]) -> int:
        """The same of this prompt."""
        return self._changes + self._guesses.changes_like(blocks)

    def match(self, blocks: tuple[int, ...]) -> list[Level]:
        """Longest first, at most PREFIX_LEVELS."""
        guessed = self._guesses.match(blocks)
        return merge_levels(guessed, self._exact.match(blocks)) if len(self._exact) else guessed

    def count(self, blocks: tuple[int, ...], endpoint: int) -> int:
        """Leading blocks that this endpoint has."""
        known = self._exact if endpoint in self._exact else self._guesses
        return known.count(blocks, endpoint)

    def record(self, blocks: tuple[int, ...], endpoint: int, max_blocks: int, told_blocks: int | None = None) -> None:
        """The endpoint will have these; it keeps at most `max_blocks`.

        One that speaks for itself needs no guess, but of what comes after the `told_blocks` that its words are about.
        """
        if endpoint not in self._exact:
            self._guesses.use(blocks, endpoint)
            self._guesses.evict(endpoint, max_blocks)
        elif told_blocks is not None:
            self._changes += 1
            self._exact.guess_beside(blocks, endpoint, max_blocks, told_blocks)

    def changed(self, endpoint: int, changes: list[KVChange]) -> None:
        """What the engine says of its cache, in order; our guesses end with its first word."""
        self._changes += 1
        for change in changes:
            if change.is_last:
                self._take_as_guesses(endpoint)
                continue
            if change.is_cleared or endpoint not in self._exact:
                self.forget_endpoint(endpoint)
            self._exact.apply(endpoint, change)

    def forget_endpoint(self, endpoint: int) -> None:
        self._changes += 1
        self._exact.pop(endpoint)
        self._guesses.forget_endpoint(endpoint)

    def _take_as_guesses(self, endpoint: int) -> None:
        """What the engine said last stands until our own reckoning drops it; but for what follows a hole."""
        cache = self._exact.pop(endpoint)
        for chain in cache.chains() if cache is not None else ():
            self._guesses.use(chain, endpoint)
