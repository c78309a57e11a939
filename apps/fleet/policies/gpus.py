"""GPU models by the name their driver gives them. Prices are indicative list prices; a label on the node overrides."""

from dataclasses import dataclass

_GIB = 1024**3
# Of two boards of one name, the larger says so by its memory.
_A100_LARGE_BYTES = 60 * _GIB


@dataclass(frozen=True, kw_only=True, slots=True)
class GPUModel:
    """`hbm_bytes_per_s` and `bf16_flops` are of one GPU, dense."""

    name: str
    memory_bytes: int
    hbm_bytes_per_s: float
    bf16_flops: float
    usd_per_h: float
    has_fp8: bool
    generation: str


_GENERATIONS_WITH_FP8 = {"ada", "hopper", "blackwell", "cdna3"}
# Name, GiB, GB/s of memory, dense bf16 TFLOP/s, USD per hour, generation.
_ROWS = (
    ("A10", 24, 600, 125, 1.3, "ampere"),
    ("L4", 24, 300, 121, 0.8, "ada"),
    ("L40S", 45, 864, 362.05, 1.8, "ada"),
    ("A100-40", 40, 1555, 312, 3.0, "ampere"),
    ("A100-80", 80, 2039, 312, 3.5, "ampere"),
    ("H100", 80, 3350, 989, 4.5, "hopper"),
    ("H200", 141, 4800, 989, 5.75, "hopper"),
    ("B200", 180, 7700, 2250, 7.25, "blackwell"),
    ("GH200", 96, 4000, 989, 1.99, "hopper"),
    ("MI300X", 192, 5300, 1307, 3.75, "cdna3"),
    ("RTX4090", 24, 1008, 165.2, 0.4, "ada"),
)
CATALOGUE = {
    name: GPUModel(
        name=name,
        memory_bytes=gib * _GIB,
        hbm_bytes_per_s=hbm * 1e9,
        bf16_flops=tflops * 1e12,
        usd_per_h=usd,
        has_fp8=generation in _GENERATIONS_WITH_FP8,
        generation=generation,
    )
    for name, gib, hbm, tflops, usd, generation in _ROWS
}
# GH200 holds "H200" and L40S holds "L4": the longer names come first.
_MARKS = ("GH200", "H200", "H100", "B200", "A100", "L40S", "L4", "A10", "MI300X", "RTX4090")


def model_of(driver_name: str, memory_bytes: int | None) -> GPUModel | None:
    """None for a GPU that is not in the catalogue: its price and speed are unknown, its memory is what it reports."""
    text = driver_name.upper().replace(" ", "")
    mark = next((mark for mark in _MARKS if mark in text), None)
    if mark == "A100":
        return CATALOGUE["A100-80" if (memory_bytes or 0) > _A100_LARGE_BYTES else "A100-40"]
    return CATALOGUE.get(mark) if mark else None
