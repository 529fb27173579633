"""How often a command looks at a path: `stat`, `lstat`, `open` and listings are calls that a slow
disk, or one on a network, answers one by one."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import in_process
from tests.support.samples import environment
from tools.kafka import SAMPLES

# At most for each file, each directory in the path given, and this path.
MAX_LOOKS_BY_COMMAND = {
    "verify-crc": (3, 4, 11),
    "index-check": (4, 3, 10),
    "dump": (3, 3, 11),
    "cat": (3, 3, 9),
    "stat": (5, 7, 17),
    "check": (7, 6, 22),
    "txn": (4, 5, 10),
}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of calls, by absolute path."""
    counter = Counter[str]()

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(path, (str, os.PathLike)):
                counter[os.path.abspath(path)] += 1  # noqa: PTH100 (without a look)
            return function(path, *arguments, **options)

        return call

    for name in ("stat", "lstat", "open", "scandir"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    return counter


@pytest.mark.parametrize("command", MAX_LOOKS_BY_COMMAND)
def test_a_path_is_looked_at_a_few_times(command: str, looks: Counter[str], tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    for name in ("orders-0", "txn-0", "compacted-0"):
        shutil.copytree(SAMPLES / "kafka-3.9.1-broker1" / name, disk / name)
    looks.clear()
    code, _, error = in_process.run((command, "disk"), b"", tmp_path, environment())
    assert code == 0, error
    n_looks = Counter[int]()
    for path in map(Path, looks):
        if path.is_relative_to(disk):
            kind = 0 if path.is_file() else 1 + (path == disk)
            n_looks[kind] = max(n_looks[kind], looks[str(path)])
    assert all(n_looks[kind] <= bar for kind, bar in enumerate(MAX_LOOKS_BY_COMMAND[command]))
