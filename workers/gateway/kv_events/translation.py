"""Of one version: which text blocks end at which blocks of tokens, and what engines' events so change in the index."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from workers.engines.vllm.cache_events import CacheEvent
from workers.gateway.kv_events.cached import CachedBlocks
from workers.scheduling.interface import KVChange

# 25 MiB of prompts.
MAX_TEXT_BLOCKS = 50_000


class TextBlock(Struct, frozen=True):
    """`name` is of the block of tokens that it ends in, which stands for those before it: engines drop ends first."""

    name: int
    parent: int | None


class Translation:
    """Endpoints are told of here once everything is known that they have cached; their changes come back by id.

    Text blocks are forgotten the longest unused first; of one text its last ones.
    """

    def __init__(self) -> None:
        self.block_tokens = 0
        self._is_size_sure = False
        self._blocks: OrderedDict[int, TextBlock] = OrderedDict()
        self._by_name: dict[int, list[int]] = {}
        self._told: dict[str, CachedBlocks] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def told_caches(self) -> list[CachedBlocks]:
        return list(self._told.values())

    def tells(self, endpoint_id: str) -> bool:
        return endpoint_id in self._told

    def expect_size(self, block_tokens: int) -> None:
        """As an engine says of itself; its events may know better."""
        self.block_tokens = self.block_tokens or block_tokens

    def agree(self, block_tokens: int) -> bool:
        """Whether an engine with such blocks is understood: all have the size of the first whose events said it.

        0 is unknown.
        """
        if block_tokens and not self._is_size_sure:
            self._is_size_sure = True
            if block_tokens != self.block_tokens:
                self._blocks.clear()
                self._by_name.clear()
                self.block_tokens = block_tokens
        return block_tokens in (0, self.block_tokens)

    def known(self, blocks: Sequence[int]) -> int:
        """How many leading ones."""
        low, high = 0, len(blocks)
        while low < high:
            middle = (low + high + 1) // 2
            if blocks[middle - 1] in self._blocks:
                low = middle
            else:
                high = middle - 1
        return low

    def used(self, blocks: Sequence[int]) -> None:
        for block in reversed(blocks[: self.known(blocks)]):
            self._blocks.move_to_end(block)

    def begin(self, endpoint_id: str, cached: CachedBlocks) -> list[KVChange]:
        """From now on the endpoint is told of. Everything that is known here, and whether it has it."""
        self._told[endpoint_id] = cached
        has = [block for block, known in self._blocks.items() if known.name in cached]
        return [KVChange(is_cleared=True), *self._stored(has)]

    def end(self, endpoint_id: str) -> list[KVChange]:
        return [KVChange(is_last=True)] if self._told.pop(endpoint_id, None) is not None else []

    def apply(self, endpoint_id: str, events: Iterable[CacheEvent]) -> list[KVChange]:
        """Changes of the endpoint's cache, which has not been given them yet."""
        changes: list[KVChange] = []
        for event in events:
            for change in self._told[endpoint_id].apply(event):
                if change is None:
                    changes = [KVChange(is_cleared=True)]
                    continue
                is_new, name = change
                blocks = self._by_name.get(name, ())
                changes += self._stored(blocks) if is_new else _removed(blocks)
        return changes

    def learn(self, blocks: Sequence[int], names: Sequence[int]) -> dict[str, list[KVChange]]:
        """The first `names` of the text blocks end in these blocks of tokens."""
        first = self.known(blocks)
        new = blocks[first : len(names)]
        parent = blocks[first - 1] if first else None
        for block, name in zip(new, names[first:], strict=True):
            self._blocks[block] = TextBlock(name, parent)
            self._by_name.setdefault(name, []).append(block)
            parent = block
        self.used(blocks)
        forgotten = self._forget_oldest()
        return {
            endpoint_id: [*self._told_of(new, cached), *_removed(forgotten)]
            for endpoint_id, cached in self._told.items()
        }

    def _told_of(self, blocks: Sequence[int], cached: CachedBlocks) -> list[KVChange]:
        """Also what it has not, for we may have guessed that it has."""
        known = [(block, self._blocks[block].name in cached) for block in blocks if block in self._blocks]
        absent = [block for block, is_there in known if not is_there]
        return [*_removed(absent), *self._stored([block for block, is_there in known if is_there])]

    def _stored(self, blocks: Iterable[int]) -> list[KVChange]:
        return [KVChange(stored=(block,), parent=self._blocks[block].parent) for block in blocks]

    def _forget_oldest(self) -> list[int]:
        forgotten = []
        while len(self._blocks) > MAX_TEXT_BLOCKS:
            block, known = self._blocks.popitem(last=False)
            others = self._by_name[known.name]
            others.remove(block)
            if not others:
                del self._by_name[known.name]
            forgotten.append(block)
        return forgotten


def _removed(blocks: Iterable[int]) -> list[KVChange]:
    gone = tuple(blocks)
    return [KVChange(removed=gone)] if gone else []
