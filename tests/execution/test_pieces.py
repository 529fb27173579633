"""Plans of many splits: columns that return equal splits, and a driver's memory for each."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from hypothesis import given
from hypothesis import strategies as st

from kfmt_cli.arrow.export.atomic_files import write_json_file
from kfmt_cli.arrow.input_files import list_input_files
from kfmt_cli.core.stores import StoredFile
from kfmt_cli.disk.kinds import UNKNOWN_KIND
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND, LOG_KIND
from kfmt_cli.errors import UsageError
from kfmt_cli.execution.file_split import (
    FileSplit,
    compute_split_points,
    format_split_name,
    group_splits,
    split_files,
)
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.spark.job import JobDefinition, split_identity
from kfmt_cli.spark.job_directory import JobDirectory, result_file_name
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.split_processing import TaskInputs, group_splits_by_task

NUMBERS = st.integers(0, (1 << 62))
PATHS = st.tuples(
    st.sampled_from(["", "/", "/a/orders-0/", "s3://bucket/\udcff/", "x y/"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1),
)
SPLITS = st.builds(
    FileSplit,
    path=PATHS.map("".join),
    kind=st.sampled_from([LOG_KIND, KRAFT_SNAPSHOT_KIND, UNKNOWN_KIND]),
    base_offset=st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    file_size=NUMBERS,
    modified_ns=NUMBERS,
    start=NUMBERS,
    end=NUMBERS,
    read_error=st.none() | st.text(max_size=5),
    is_batch_aligned=st.booleans(),
    is_tiered=st.booleans(),
    object_size=NUMBERS,
    topic_id_partition=st.none() | st.tuples(st.text(max_size=3), st.integers(0, 9)),
    encoded_chunking=st.binary(max_size=3),
)


@given(st.lists(SPLITS, unique_by=lambda split: split.path), st.data())
def test_columns_return_the_splits_that_were_added(
    splits: list[FileSplit], data: st.DataObject
) -> None:
    columns = FileSplits(splits)
    assert list(columns) == splits == [columns[i] for i in range(len(columns))]
    assert columns == splits
    assert columns != [*splits, *splits[:1], None]
    assert columns != object()
    assert columns.n_bytes == sum(split.end - split.start for split in splits)
    indexes = data.draw(st.lists(st.sampled_from(range(len(splits)))) if splits else st.just([]))
    selected = columns.select_at(indexes)
    assert list(selected) == [splits[i] for i in indexes]
    assert pickle.loads(pickle.dumps(selected)) == selected  # noqa: S301 (of the line itself)
    assert columns[1:3] == splits[1:3]
    assert columns.select_where(lambda split: split.is_tiered) == [
        split for split in splits if split.is_tiered
    ]


def test_splits_and_groups_are_those_of_separate_splits() -> None:
    files = [
        FileSplit(f"/t-0/{i:020}.log", LOG_KIND, i, size, 5, 0, size)
        for i, size in enumerate((0, 10, 45))
    ]
    columns = FileSplits(files)
    divided = columns.divide_splits(lambda file: compute_split_points(file, 20))
    assert divided == list(split_files(files, 20))
    assert [(split.start, split.end) for split in divided] == [
        *((0, 0), (0, 10), (0, 15), (15, 30), (30, 45)),
    ]
    groups = list(divided.iter_groups(group_splits(divided, 20, 0)))
    assert groups == list(group_splits(split_files(files, 20), 20, 0))
    assert len(pickle.dumps(groups[0])) < len(pickle.dumps(FileSplits(files * 50)))


def test_a_time_that_no_column_holds_stays_one_that_can_be_compared() -> None:
    """A file can be of the year 2400, which is more nanoseconds than 63 bits can store."""
    late = FileSplit("/t-0/0.log", LOG_KIND, 0, 1, 13_569_465_600 * 10**9, 0, 1)
    other = replace(late, path="/t-0/1.log", modified_ns=late.modified_ns + 1)
    first, second = (split.modified_ns for split in FileSplits([late, other]))
    assert second - first == 1


@pytest.fixture
def listed_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories whose names end in the number of segments listed in them."""

    def list_files(path: str) -> Iterator[StoredFile]:
        for i in range(int(path.rpartition("-")[2])):
            directory = f"/var/lib/kafka/data/some-topic-{i // 1000}-{i // 100 % 10}"
            for suffix in ("index", "log", "timeindex"):
                name = f"{directory}/{i % 100 * 1000:020}.{suffix}"
                yield StoredFile(name, 1 << 20, 1_700_000_000_000_000_000 + i)

    monkeypatch.setattr("kfmt_cli.arrow.input_files.iter_files", list_files)


@pytest.mark.usefixtures("listed_segments")
def test_what_a_driver_keeps_of_a_segment(tmp_path: Path) -> None:
    """Inputs, plan, task splits, and the paths of results: 200 bytes."""

    def measure(n: int) -> tuple[int, object]:
        bytes_before = tracemalloc.get_traced_memory()[0]
        request = replace(parse_request({}), paths=(f"/segments-{n}",))
        files = list_input_files(request)
        job_directory = JobDirectory(
            str(tmp_path / str(n)), JobDefinition("verify", lambda *_: [], {})
        )
        job_directory.check_stored_job()
        job_directory.plan_splits(request, files)
        indexes = job_directory.find_unprocessed_splits()
        tasks = group_splits_by_task(
            job_directory.job, request, job_directory.splits.select_at(indexes)
        )
        for splits in tasks:
            results = {format_split_name(split.path, split.start): {"rows": 1} for split in splits}
            write_json_file(
                f"{job_directory.results_directory}/{result_file_name(splits, 0)}", results
            )
        job_directory.record_results(indexes, tasks)
        assert not job_directory.find_unprocessed_splits()
        assert sum(result["rows"] for _, result in job_directory.iter_results()) == len(files) == n
        job_directory._result_files.drop_cached_file("")  # the one that was read last
        return tracemalloc.get_traced_memory()[0] - bytes_before, (files, job_directory, tasks)

    tracemalloc.start()
    try:
        small_plan, _ = measure(1000)
        large_plan, _retained = measure(5000)
    finally:
        tracemalloc.stop()
    assert (large_plan - small_plan) / 4000 < 200


@pytest.mark.usefixtures("listed_segments")
def test_what_tasks_get_is_made_when_it_is_sent() -> None:
    """The task inputs of a million segments are 100 MB."""
    request = replace(parse_request({}), paths=("/segments-5000",), parallelism=100)
    job = JobDefinition("verify", lambda *_: [], {})
    task_inputs = TaskInputs(request, group_splits_by_task(job, request, list_input_files(request)))
    assert len(task_inputs) > 50
    tracemalloc.start()
    try:
        n_bytes = sum(map(len, task_inputs))
        assert tracemalloc.get_traced_memory()[1] < n_bytes / 2
    finally:
        tracemalloc.stop()
    assert pickle.loads(task_inputs[1])[0] == task_inputs.splits_by_task[1]  # noqa: S301


@pytest.mark.usefixtures("listed_segments")
def test_a_job_is_resumed_where_it_stopped(tmp_path: Path) -> None:
    """Results stay; a changed input is processed again with all inputs of the same files."""
    job = JobDefinition("export", lambda *_: [], {"of": "it"})
    request = replace(parse_request({}), paths=("/segments-30",))
    files = list_input_files(request)

    def planned(files: FileSplits) -> JobDirectory:
        job_directory = JobDirectory(str(tmp_path), job)
        job_directory.check_stored_job()
        job_directory.plan_splits(request, files)
        return job_directory

    def store_results(splits: FileSplits) -> None:
        output = f"records/{splits[0].base_offset}"
        (tmp_path / output).parent.mkdir(exist_ok=True)
        (tmp_path / output).touch()
        results: dict[str, dict[str, object]] = {
            format_split_name(split.path, 0): {"about": split_identity(split, request), "n": index}
            for index, split in enumerate(splits)
        }
        results[format_split_name(splits[0].path, 0)]["outputs"] = [output]
        write_json_file(f"{tmp_path}/_kfmt/done/{result_file_name(splits, 0)}", results)

    planned(files)
    store_results(files[:10])
    store_results(files[10:20])
    assert list(planned(files).find_unprocessed_splits()) == [*range(20, 30)]
    results = planned(files).iter_results(lambda split: split.path == files[12].path)
    assert [result["n"] for _, result in results] == [2]
    with pytest.raises(UsageError, match="not visible here"):
        list(planned(files).iter_results())
    changed = FileSplits(
        replace(split, modified_ns=7) if i == 12 else split for i, split in enumerate(files)
    )
    assert list(planned(changed).find_unprocessed_splits()) == [*range(10, 30)]
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["0"]
    assert list(planned(files[1:]).find_unprocessed_splits()) == [
        *range(29)
    ]  # the first is deleted
    assert list((tmp_path / "records").iterdir()) == []


@pytest.mark.usefixtures("listed_segments")
def test_a_misaligned_file_is_processed_as_one_split(tmp_path: Path) -> None:
    """With all inputs of the same files; results in other files stay."""
    request = replace(parse_request({}), paths=("/segments-3",), max_split_bytes=40 << 20)
    first, large, last = list_input_files(request)
    files = FileSplits([first, replace(large, file_size=100 << 20, end=100 << 20), last])
    job_directory = JobDirectory(str(tmp_path), JobDefinition("verify", lambda *_: [], {}))
    job_directory.check_stored_job()
    job_directory.plan_splits(request, files)
    assert [split.start >> 20 for split in job_directory.splits] == [0, 0, 33, 66, 0]
    indexes = job_directory.find_unprocessed_splits()
    tasks = [job_directory.splits[:2], job_directory.splits[2:4]]
    for splits in (*tasks, job_directory.splits[4:]):
        results = {
            format_split_name(split.path, split.start): {"about": split_identity(split, request)}
            for split in splits
        }
        write_json_file(f"{job_directory.results_directory}/{result_file_name(splits, 0)}", results)
    job_directory.record_results(indexes, [*tasks, job_directory.splits[4:]])
    assert not job_directory.find_unprocessed_splits()
    job_directory.undo_splits({large.path})
    assert job_directory.splits == files
    assert list(job_directory.find_unprocessed_splits()) == [0, 1]
    assert len(list((tmp_path / "_kfmt/done").iterdir())) == 1
