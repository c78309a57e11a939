"""Which blocks of tokens one engine has cached, named so that all engines of a version name them alike."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

from workers.engines.vllm.cache_events import AllBlocksCleared, BlockRemoved, BlockStored, CacheEvent

# More than any KV cache has; what an engine never takes back is dropped in the order in which it came.
MAX_BLOCKS = 2_000_000

BlockHash = int | bytes


def root_name(adapter: str | None, extra: Sequence[object] | None) -> int:
    """The name of what comes before the first block. Of equal tokens an adapter or a cache salt makes others."""
    digest = blake2b(repr((adapter or "", list(extra or ()))).encode(), digest_size=8).digest()
    return int.from_bytes(digest)


def name_blocks(root: int, tokens: Sequence[int], block_tokens: int) -> Iterator[int]:
    """Each full block by everything up to and including it; the same within one process."""
    name = root
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        name = hash((name, *tokens[end - block_tokens : end]))
        yield name


class CachedBlocks:
    """Names by the engine's own hashes, and how often it has each: two requests at once may compute the same block.

    `apply` gives (whether it is new or gone, name) for each block of which that changes; None for all at once.
    """

    def __init__(self, names: dict[BlockHash, int] | None = None, counts: dict[int, int] | None = None) -> None:
        self.names = names or {}
        self.counts = counts or {}
        self.block_tokens = 0

    def __len__(self) -> int:
        return len(self.counts)

    def __contains__(self, name: int) -> bool:
        return name in self.counts

    def apply(self, event: CacheEvent) -> Iterator[tuple[bool, int] | None]:
        if isinstance(event, BlockStored):
            yield from self._store(event)
        elif isinstance(event, BlockRemoved):
            for block in event.block_hashes:
                yield from self._remove(block)
        elif isinstance(event, AllBlocksCleared):
            self.names.clear()
            self.counts.clear()
            yield None

    def _store(self, event: BlockStored) -> Iterator[tuple[bool, int]]:
        parent = event.parent_block_hash
        name = root_name(event.lora_name, None) if parent is None else self.names.get(parent)
        if name is None or event.block_size <= 0:
            return
        self.block_tokens = event.block_size
        extra_keys = event.extra_keys or []
        for index, block in enumerate(event.block_hashes):
            extra = _without_adapter(extra_keys[index] if index < len(extra_keys) else None, event.lora_name)
            if extra:
                is_first = parent is None and index == 0
                name = root_name(event.lora_name, extra) if is_first else hash((name, root_name(None, extra)))
            start = index * event.block_size
            name = hash((name, *event.token_ids[start : start + event.block_size]))
            yield from self._count(block, name)

    def _count(self, block: BlockHash, name: int) -> Iterator[tuple[bool, int]]:
        self.names[block] = name
        count = self.counts.get(name, 0)
        self.counts[name] = count + 1
        if not count:
            yield True, name
            if len(self.names) > MAX_BLOCKS:
                yield from self._remove(next(iter(self.names)))

    def _remove(self, block: BlockHash) -> Iterator[tuple[bool, int]]:
        name = self.names.get(block)
        if name is None:
            return
        count = self.counts[name] - 1
        if count:
            self.counts[name] = count
        else:
            del self.counts[name], self.names[block]
            yield False, name


def _without_adapter(extra: Sequence[object] | None, adapter: str | None) -> list[object]:
    return [each for each in extra or () if each != adapter]
