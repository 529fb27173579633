"""The files that a commit writes, and how kfmt reads a manifest of several parts."""

from __future__ import annotations

import json
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake_runs import export, file_rows, manifest, manifest_rows, without_spark
from tests.support.samples import ORDERS

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow.parquet")

from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.spark.job import JobDefinition
from kfmt_cli.spark.job_directory import JobDirectory
from kfmt_cli.spark.lake.change_files import (
    ChangeFile,
    append_changes,
    delete_unlisted_files,
    iter_changed_values,
)
from kfmt_cli.spark.source_options import parse_request


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)


def add_partitions(logs: Path, first: int, end: int) -> None:
    """Create partitions of a segment each, whose files have equal sizes."""
    for partition in range(first, end):
        directory = logs / f"orders-{partition:04}"
        directory.mkdir(parents=True)
        shutil.copy(ORDERS, directory)
        os.utime(directory / ORDERS.name, (1_700_000_000, 1_700_000_000))


def count_written_bytes(to: Path, *paths: Path, **options: Any) -> int:
    """Bytes that a run writes into the table's own directory, without the list of its files."""

    def files() -> dict[Path, tuple[int, int]]:
        all_files = [path for path in (to / "_kfmt").rglob("*") if path.is_file()]
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in all_files}

    files_before = files()
    export(to, *paths, one_file_per_partition=True, **options)
    changed = (path for path, state in files().items() if files_before.get(path) != state)
    return sum(path.stat().st_size for path in changed if path.name != "manifest.json")


def test_a_commit_writes_no_more_to_a_larger_table(tmp_path: Path) -> None:
    written_bytes = []
    for name, n in (("few", 4), ("many", 64)):
        logs, to = tmp_path / name / "in", tmp_path / name / "to"
        add_partitions(logs, 0, n)
        count_written_bytes(to, logs)
        add_partitions(logs, n, n + 1)
        written_bytes.append(count_written_bytes(to, logs))
        assert manifest_rows(to) == file_rows(to)
        assert len(manifest(to)["inputs"]) == n + 1
    small_table, large_table = written_bytes
    assert large_table < small_table * 1.1


def test_many_commits_have_few_parts(tmp_path: Path) -> None:
    logs, to = tmp_path / "in", tmp_path / "to"
    for n in range(20):
        add_partitions(logs, n, n + 1)
        count_written_bytes(to, logs, mode="sync")
        assert len(list((to / "_kfmt/manifest").iterdir())) <= 5
    assert len(manifest(to)["inputs"]) == 20
    shutil.rmtree(logs / "orders-0007")
    count_written_bytes(to, logs, mode="sync")
    assert len(manifest(to)["inputs"]) == 19
    assert manifest_rows(to) == file_rows(to)


@pytest.mark.parametrize("seed", range(20))
def test_parts_have_the_last_values(seed: int, tmp_path: Path) -> None:
    """And each value is rewritten only a few times."""
    rng, directory = random.Random(seed), str(tmp_path)
    expected: dict[str, Any] = {}
    parts: tuple[ChangeFile, ...] = ()
    for commit in range(1, 60):
        keys = {f"key {rng.randrange(40)}" for _ in range(rng.choice((1, 1, 2, 30)))}
        changes = {key: rng.choice((None, {"a": commit}, "x" * 50)) for key in keys}
        parts = append_changes(directory, parts, commit, changes.items())
        expected |= changes
        values = dict(iter_changed_values(directory, parts))
        assert {key: values[key] for key in values if values[key] is not None} == {
            key: value for key, value in expected.items() if value is not None
        }
        sizes = [part.bytes for part in parts]
        assert sizes == [(tmp_path / part.name).stat().st_size for part in parts]
        assert len(sizes) < 12
        delete_unlisted_files(directory, parts)
        assert {path.name for path in tmp_path.iterdir()} == {part.name for part in parts}
    assert append_changes(directory, parts, 60, ()) == parts


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone.jsonl: No such file"):
        list(iter_changed_values(str(tmp_path), [ChangeFile("gone.jsonl", 1)]))


def large_logs(n: int) -> FileSplits:
    size = 100 << 20
    return FileSplits(FileSplit(f"/a-{i}/0.log", LOG_KIND, 0, size, 7, 0, size) for i in range(n))


def plan_split_starts(to: Path, files: FileSplits, split_mib: int) -> list[int]:
    """The starts of the splits of the last file, in MiB."""
    job_directory = JobDirectory(str(to), JobDefinition("verify", lambda *_: [], {}))
    job_directory.check_stored_job()
    job_directory.plan_splits(
        replace(parse_request({}), max_split_bytes=split_mib << 20, parallelism=1), files
    )
    return [split.start >> 20 for split in job_directory.splits if split.path == files[-1].path]


def test_an_input_that_has_not_changed_keeps_its_parts(tmp_path: Path) -> None:
    def plan() -> dict[str, Any]:
        parts = json.loads((tmp_path / "_kfmt/plan.json").read_text())["parts"]
        return dict(
            iter_changed_values(f"{tmp_path}/_kfmt/plan", [ChangeFile(**part) for part in parts])
        )

    assert plan_split_starts(tmp_path, large_logs(3), 200) == [0]
    assert plan() == {}
    assert plan_split_starts(tmp_path, large_logs(3), 50) == [0, 50]
    modified_times = {
        path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()
    }
    assert plan_split_starts(tmp_path, large_logs(3), 50) == [0, 50]
    assert modified_times == {path: path.stat().st_mtime_ns for path in modified_times}
    assert plan_split_starts(tmp_path, large_logs(4), 200) == [0]
    assert plan_split_starts(tmp_path, large_logs(3), 200) == [0, 50]
    shorter = [replace(split, file_size=50 << 20, end=50 << 20) for split in large_logs(1)]
    assert plan_split_starts(tmp_path, FileSplits(shorter), 50) == [0]
    assert {path for path, value in plan().items() if value is not None} == set()


def test_an_unsplit_file_is_not_split_by_a_job_with_less_to_do(tmp_path: Path) -> None:
    """A job with few inputs has smaller splits, but not if it continues an earlier one."""
    log = large_logs(1)
    for files in (large_logs(40), log):
        job_directory = JobDirectory(str(tmp_path), JobDefinition("verify", lambda *_: [], {}))
        job_directory.check_stored_job()
        job_directory.plan_splits(replace(parse_request({}), parallelism=30), files)
        assert job_directory.splits == files
