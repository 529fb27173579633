"""The input that a job sends to a task, and how the job reads results."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake_runs import export, manifest_rows, without_spark
from tests.support.samples import ORDERS, TXN

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow.parquet")

from pyspark import cloudpickle

from kfmt_cli.arrow.export.atomic_files import read_file_bytes
from kfmt_cli.arrow.input_files import list_input_files
from kfmt_cli.core.source import FileSource
from kfmt_cli.errors import InputError
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.spark import results, selections, split_processing
from kfmt_cli.spark.input_partition import KfmtInputPartition
from kfmt_cli.spark.partition_reader import read_input_partition
from kfmt_cli.spark.selections import (
    find_selections_in_tasks,
    hash_selections,
    plan_input_partitions,
    selections_by_directory,
)
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.worker import DriverEnvironment

SELECTION_OPTIONS = [{"last": "3"}, {"isolation": "read_committed"}]


def add_partitions(logs: Path, n: int) -> Path:
    """Create partitions of a segment each."""
    for partition in range(n):
        directory = logs / f"orders-{partition:04}"
        directory.mkdir(parents=True)
        shutil.copy(ORDERS, directory)
    return logs


@pytest.mark.parametrize(("options", "n_rows"), [({}, 240), ({"last": "5"}, 5)])
def test_a_task_gets_its_own_share(
    options: dict[str, str], n_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not that of other tasks."""
    task_bytes: list[int] = []

    def run_here(
        spark: Any, function: Callable[[bytes], bytes], task_inputs: list[bytes], *_: Any
    ) -> list[bytes]:
        del spark
        common = len(cloudpickle.dumps(function))  # type: ignore[no-untyped-call]
        task_bytes.append(common + max(map(len, task_inputs)))
        return [function(task_input) for task_input in task_inputs]

    monkeypatch.setattr(split_processing, "run_in_tasks", run_here)
    monkeypatch.setattr(
        split_processing, "prepare_driver_environment", lambda _: DriverEnvironment(None)
    )
    for n in (4, 64):
        logs, to = add_partitions(tmp_path / f"{n}/in", n), tmp_path / f"{n}/to"
        export(to, logs, one_file_per_partition=True, request_options=options)
        assert sum(manifest_rows(to).values()) == n * n_rows
    small_job, large_job = task_bytes
    assert large_job < small_job + 100


def test_results_in_a_store_are_read_once_and_several_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    monkeypatch.setattr(results, "MAX_CACHE_MEMORY_BYTES", 1000)
    monkeypatch.setattr(results, "is_local", lambda _: False)
    n_reads: Counter[str] = Counter()
    at_once, max_at_once = 0, 0
    lock, original = threading.Lock(), read_file_bytes

    def slow(path: str) -> bytes | None:
        nonlocal at_once, max_at_once
        with lock:
            n_reads[path] += 1
            at_once += 1
            max_at_once = max(max_at_once, at_once)
        time.sleep(0.01)
        with lock:
            at_once -= 1
        return original(path)

    monkeypatch.setattr(results, "read_file_bytes", slow)
    logs, to = add_partitions(tmp_path / "in", 40), tmp_path / "to"
    for mode, n_remaining in (("append", 40), ("append", 40), ("sync", 38)):
        export(to, logs, one_file_per_partition=True, mode=mode)
        assert len(n_reads) == 40
        assert set(n_reads.values()) == {1}
        assert max_at_once > 4
        assert sum(manifest_rows(to).values()) == n_remaining * 240
        n_reads.clear()
        shutil.rmtree(min(logs.iterdir()))


class ReadError(Exception):
    """The driver has read a log."""


def reads_nothing(*_: object) -> bytes:
    raise ReadError


@pytest.mark.parametrize("options", SELECTION_OPTIONS)
def test_a_task_finds_the_selections_of_its_own_partitions(
    options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(TXN.parent, tmp_path / "in/txn-0")
    add_partitions(tmp_path / "in", 3)
    request = replace(parse_request(options), paths=(str(tmp_path / "in"),))
    with monkeypatch.context() as patch:
        patch.setattr(FileSource, "read_block", reads_nothing)
        splits = plan_input_partitions(request)
    assert [split.selection_by_directory for split in splits] == [{}]
    split_request = replace(request, max_split_bytes=3000)
    split_partitions = plan_input_partitions(split_request)
    assert sum(len(split.selection_by_directory) for split in split_partitions) > 4
    assert offsets(request, splits) == offsets(split_request, split_partitions)


def offsets(request: ReadRequest, splits: list[KfmtInputPartition]) -> list[tuple[str, int, int]]:
    return sorted(
        (row["topic"], row["partition"], row["offset"])
        for split in splits
        for batch in read_input_partition(request, split)
        for row in batch.to_pylist()
    )


@pytest.mark.parametrize("options", SELECTION_OPTIONS)
def test_tasks_of_a_job_find_its_selections(
    options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(TXN.parent, tmp_path / "in/txn-0")
    add_partitions(tmp_path / "in", 9)
    request = replace(parse_request(options), paths=(str(tmp_path / "in"),), parallelism=1)
    no_session: Any = None
    files, original_read, sizes = list_input_files(request), FileSource.read_block, list[int]()
    expected = selections_by_directory(request, files)

    def run_here(
        _: Any, function: Callable[[bytes], bytes], task_inputs: list[bytes], *__: Any
    ) -> Any:
        for task_input in task_inputs:
            sizes.append(len(task_input))
            with monkeypatch.context() as patch:
                patch.setattr(FileSource, "read_block", original_read)
                yield function(task_input)

    monkeypatch.setattr(selections, "run_in_tasks", run_here)
    monkeypatch.setattr(selections, "prepare_driver_environment", lambda _: DriverEnvironment(None))
    monkeypatch.setattr(FileSource, "read_block", reads_nothing)
    assert hash_selections(find_selections_in_tasks(no_session, request, files)) == hash_selections(
        expected
    )
    assert len(sizes) == 4
    assert len(expected) == 10

    def failing(*_: object) -> None:
        raise InputError("txn-0: no such object")

    monkeypatch.setattr(selections, "find_partition_selections", failing)
    with pytest.raises(InputError, match="txn-0: no such object"):
        find_selections_in_tasks(no_session, request, files)
