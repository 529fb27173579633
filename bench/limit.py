"""The limit: `limit.c`, compiled if there is a compiler."""

from __future__ import annotations

import os
import subprocess
from functools import lru_cache
from pathlib import Path

from bench.make_files import BENCH_DIRECTORY


@lru_cache(maxsize=1)
def program() -> str | None:
    """The program's path; None without a compiler, or on a processor without CRC-32C."""
    source, path = BENCH_DIRECTORY / "limit.c", BENCH_DIRECTORY / "data" / "limit"
    if not path.exists() or path.stat().st_mtime < source.stat().st_mtime:
        path.parent.mkdir(exist_ok=True)
        command = [os.environ.get("CC", "cc"), "-O3", "-Wall", "-o", str(path), str(source)]
        if not any(map(_compiles, (_with_codecs(command), command))):
            return None
    return str(path)


def _with_codecs(command: list[str]) -> list[str]:
    """The command with liblz4 and libzstd, for machines that have their headers."""
    return [*command, "-DWITH_CODECS", "-llz4", "-lzstd"]


def _compiles(command: list[str]) -> bool:
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def limit_command(logs: str | Path, *options: str) -> list[str] | None:
    """The command that does the minimum of work on the logs; None without the program."""
    program_path = program()
    return None if program_path is None else [program_path, *options, str(logs)]
