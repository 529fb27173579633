"""The limit: `limit.c`, compiled when a compiler is there."""

from __future__ import annotations

import os
import subprocess
from functools import lru_cache
from pathlib import Path

from bench.make_files import HERE


@lru_cache(maxsize=1)
def program() -> str | None:
    """The program's path; None without a compiler, or on a processor without CRC-32C."""
    source, made = HERE / "limit.c", HERE / "data" / "limit"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        made.parent.mkdir(exist_ok=True)
        command = [os.environ.get("CC", "cc"), "-O3", "-Wall", "-o", str(made), str(source)]
        if not any(map(_compiles, (_with_codecs(command), command))):
            return None
    return str(made)


def _with_codecs(command: list[str]) -> list[str]:
    """With liblz4 and libzstd, where they and their headers are there."""
    return [*command, "-DWITH_CODECS", "-llz4", "-lzstd"]


def _compiles(command: list[str]) -> bool:
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def limit_of(path: str | Path, *options: str) -> list[str] | None:
    """The command that does the least that must be done with the logs at `path`."""
    made = program()
    return None if made is None else [made, *options, str(path)]
