"""What a job gives to a task, and how it reads what the tasks have made."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake_runs import export, listed, without_spark
from tests.support.samples import ORDERS

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow.parquet")

from pyspark import cloudpickle

from kfmt_cli.arrow.output import read_whole
from kfmt_cli.spark import results, work
from kfmt_cli.spark.worker import Home


def add_partitions(logs: Path, n: int) -> Path:
    """Partitions of a segment each."""
    for number in range(n):
        folder = logs / f"orders-{number:04}"
        folder.mkdir(parents=True)
        shutil.copy(ORDERS, folder)
    return logs


@pytest.mark.parametrize(("asked", "n_rows"), [({}, 240), ({"last": "5"}, 5)])
def test_a_task_gets_its_own_share(
    asked: dict[str, str], n_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not what the others get."""
    given: list[int] = []

    def here(
        spark: Any, function: Callable[[bytes], bool], shares: list[bytes], *_: Any
    ) -> list[bool]:
        del spark
        common = len(cloudpickle.dumps(function))  # type: ignore[no-untyped-call]
        given.append(common + max(map(len, shares)))
        return [function(share) for share in shares]

    monkeypatch.setattr(work, "in_tasks", here)
    monkeypatch.setattr(work, "home_for", lambda _: Home(None))
    for n in (4, 64):
        logs, to = add_partitions(tmp_path / f"{n}/in", n), tmp_path / f"{n}/to"
        export(to, logs, one_file_per_partition=True, asked=asked)
        assert sum(listed(to).values()) == n * n_rows
    few, many = given
    assert many < few + 100


def test_results_in_a_store_are_read_once_and_several_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    monkeypatch.setattr(results, "IN_MEMORY", 1000)
    monkeypatch.setattr(results, "is_local", lambda _: False)
    read: Counter[str] = Counter()
    at_once, most = 0, 0
    lock, real = threading.Lock(), read_whole

    def slow(path: str) -> bytes | None:
        nonlocal at_once, most
        with lock:
            read[path] += 1
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.01)
        with lock:
            at_once -= 1
        return real(path)

    monkeypatch.setattr(results, "read_whole", slow)
    logs, to = add_partitions(tmp_path / "in", 40), tmp_path / "to"
    for mode, n_left in (("append", 40), ("append", 40), ("sync", 38)):
        export(to, logs, one_file_per_partition=True, mode=mode)
        assert len(read) == 40
        assert set(read.values()) == {1}
        assert most > 4
        assert sum(listed(to).values()) == n_left * 240
        read.clear()
        shutil.rmtree(min(logs.iterdir()))
