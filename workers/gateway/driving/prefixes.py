"""The leading blocks of a prompt, numbered so that equal numbers mean equal text up to and including the block."""

from collections.abc import Sequence
from hashlib import blake2b

BLOCK_BYTES = 512
# 512 KiB of prompt; what comes after hardly ever makes the difference between two endpoints.
MAX_BLOCKS = 1024
# Of a shorter prompt the cache saves less time than a detour costs.
MIN_BYTES = 4 * BLOCK_BYTES


def number_blocks(text: Sequence[bytes], seed: bytes) -> tuple[int, ...]:
    """A chain of hashes, the same in every process. `seed` is what keeps equal prompts apart: model and cache salt.

    The last block, which is not full, has no number.
    """
    whole = text[0] if len(text) == 1 else b"".join(text)
    blocks = min(len(whole) // BLOCK_BYTES, MAX_BLOCKS)
    chain = blake2b(seed, digest_size=8)
    numbers = []
    view = memoryview(whole)
    for start in range(0, blocks * BLOCK_BYTES, BLOCK_BYTES):
        chain.update(view[start : start + BLOCK_BYTES])
        numbers.append(int.from_bytes(chain.copy().digest()))
    return tuple(numbers)
