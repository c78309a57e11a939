"""The processes of a live run, and what they take of a core."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_WITHIN_S = 60.0
STOP_WITHIN_S = 10.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Running:
    """`cpu_s` is what the process has used so far, all its threads together."""

    def __init__(self, process_id: int) -> None:
        self._stat = Path(f"/proc/{process_id}/stat")

    def cpu_s(self) -> float:
        fields = self._stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def cpu_s_of_this() -> float:
    times = os.times()
    return times.user + times.system


@contextmanager
def running(arguments: list[str]) -> Iterator[Running]:
    process = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.DEVNULL)
    try:
        yield Running(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_WITHIN_S)


async def listening(port: int) -> None:
    async with asyncio.timeout(START_WITHIN_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return
