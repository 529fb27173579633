"""What commands do for each partition of a broker, and what only once."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import kfmt
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
STARTS = "log-start-offset-checkpoint"
COMMANDS = {
    "dump": (),
    "cat": (),
    "stat": (),
    "find": ("--key", "customer-1"),
    "txn": (),
    "retention": (),
    "compaction": (),
}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A log directory with 20 partitions of a topic, from each of which records were deleted."""
    for partition in range(20):
        shutil.copytree(BROKER / "orders-0", tmp_path / f"disk/orders-{partition}")
    lines = [f"orders {partition} 300" for partition in range(20)]
    (tmp_path / "disk" / STARTS).write_text("\n".join(["0", "20", *lines, ""]))
    return tmp_path / "disk"


@pytest.mark.parametrize("command", COMMANDS)
def test_log_start_offsets_are_read_once_for_all_partitions(
    command: str, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: Counter[str] = Counter()
    original_open = os.open

    def counting_open(path: str, *arguments: Any, **keywords: Any) -> int:
        opened[Path(os.fsdecode(path)).name] += 1
        return original_open(path, *arguments, **keywords)

    monkeypatch.setattr(os, "open", counting_open)
    result = kfmt(command, *COMMANDS[command], disk)
    assert result.err.count("log start offset 300") == 20
    assert 1 <= opened[STARTS] <= 2  # retention also applies them


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unreadable_checkpoint_is_reported_once(command: str, disk: Path) -> None:
    (disk / STARTS).unlink()
    (disk / STARTS).symlink_to("/proc/self/mem")  # its first byte cannot be read
    result = kfmt(command, *COMMANDS[command], disk)
    assert result.code == 3
    assert result.err.count(STARTS) == 1
