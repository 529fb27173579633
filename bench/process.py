"""Timings of entire processes, and their tables in docs/benchmarks.md."""

from __future__ import annotations

import compileall
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools import kafka

KFMT = [sys.executable, "-m", "kfmt_cli"]


@dataclass(frozen=True)
class Timing:
    """Seconds, the peak of memory in MB and the seconds of CPU of one process, the best of
    several."""

    seconds: float
    megabytes: float
    cpu: float = 0.0


@cache
def _compile() -> None:
    """Compile the sources, as pip does for an installed kfmt. If Python may not write bytecode,
    each start would otherwise take 0.2 s longer."""
    compileall.compile_dir(kafka.ROOT / "kfmt_cli", quiet=1)


def measure(command: list[str], runs: int) -> Timing:
    """The best time of some runs, and the memory of the largest."""
    _compile()
    best, peak, cpu = 1e9, 0.0, 1e9
    for _ in range(runs):
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=kafka.ROOT
        )
        assert process.stderr is not None
        stderr = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
        best = min(best, time.perf_counter() - began)
        peak = max(peak, usage.ru_maxrss / 1024)
        cpu = min(cpu, usage.ru_utime + usage.ru_stime)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} failed: {stderr.decode()}")
    return Timing(best, peak, cpu)


def machine() -> str:
    """A short description of this machine."""
    model = "unknown processor"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, {platform.system()}, "
        f"Python {platform.python_version()}"
    )


def write_table(name: str, lines: list[str]) -> None:
    """Write a table between its markers in docs/benchmarks.md."""
    page = kafka.ROOT / "docs" / "benchmarks.md"
    prefix, _, remaining = page.read_text().partition(f"<!-- {name} -->")
    _, _, suffix = remaining.partition(f"<!-- end of {name} -->")
    table = "\n".join(lines)
    page.write_text(f"{prefix}<!-- {name} -->\n{table}\n<!-- end of {name} -->{suffix}")
