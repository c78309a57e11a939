"""Medians over rounds, as a table and as ratios to one target."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

Row = dict[str, dict[str, Any]]

COLUMNS: dict[str, tuple[str, Callable[[Row], float]]] = {
    "rps/core": ("{:.0f}", lambda row: 1e6 / _per_request(row["requests"])),
    "µs/request": ("{:.1f}", lambda row: _per_request(row["requests"])),
    "p50@1 µs": ("{:.0f}", lambda row: row["single"]["latency_p50_us"]),
    "p99@1 µs": ("{:.0f}", lambda row: row["single"]["latency_p99_us"]),
    "µs/chunk paced": ("{:.1f}", lambda row: _per_event(row["paced"])),
    "lockstep": ("{:.1f}", lambda row: _per_event(row["lockstep"])),
    "burst": ("{:.2f}", lambda row: _per_event(row["burst"])),
    "burst chunks/s": ("{:.0f}", lambda row: row["burst"]["events"] / row["burst"]["wall_s"]),
    "RSS MB": ("{:.0f}", lambda row: row["memory"]["peak_mb"]),
    "failures": ("{:.0f}", lambda row: sum(load.get("failed", 0) for load in row.values())),
}


def medians(rows: Sequence[Row]) -> dict[str, float]:
    return {name: median(read(row) for row in rows) for name, (_, read) in COLUMNS.items()}


def table(by_target: dict[str, list[Row]]) -> str:
    lines = [["target", *COLUMNS]]
    for target, rows in by_target.items():
        found = medians(rows)
        lines.append([target, *(COLUMNS[name][0].format(value) for name, value in found.items())])
    return _aligned(lines)


def ratios(by_target: dict[str, list[Row]], reference: str) -> str:
    """Each figure divided by the reference's."""
    base = medians(by_target[reference])
    names = [name for name in COLUMNS if name != "failures"]
    lines = [[f"/ {reference}", *names]]
    for target, rows in by_target.items():
        found = medians(rows)
        lines.append([target, *(f"{found[name] / base[name]:.2f}" if base[name] else "–" for name in names)])
    return _aligned(lines)


def _per_request(load: dict[str, Any]) -> float:
    return float(load["cpu_us"] / max(load["answered"], 1))


def _per_event(load: dict[str, Any]) -> float:
    return float(load["cpu_us"] / max(load["events"], 1))


def _aligned(lines: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )
