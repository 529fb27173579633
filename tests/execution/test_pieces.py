"""Plans of many pieces: columns that give the same pieces, and what a driver keeps of each."""

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
from kfmt_cli.spark.split_processing import TaskInputs, group_by_task

NUMBERS = st.integers(0, (1 << 62))
PATHS = st.tuples(
    st.sampled_from(["", "/", "/a/orders-0/", "s3://bucket/\udcff/", "x y/"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1),
)
PIECES = st.builds(
    FileSplit,
    path=PATHS.map("".join),
    kind=st.sampled_from([LOG_KIND, KRAFT_SNAPSHOT_KIND, UNKNOWN_KIND]),
    base_offset=st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    size=NUMBERS,
    modified=NUMBERS,
    start=NUMBERS,
    end=NUMBERS,
    read_error=st.none() | st.text(max_size=5),
    is_batch_aligned=st.booleans(),
    is_tiered=st.booleans(),
    object_size=NUMBERS,
    topic_id_partition=st.none() | st.tuples(st.text(max_size=3), st.integers(0, 9)),
    encoded_chunking=st.binary(max_size=3),
)


@given(st.lists(PIECES, unique_by=lambda piece: piece.path), st.data())
def test_columns_give_the_pieces_that_were_put_in(
    pieces: list[FileSplit], data: st.DataObject
) -> None:
    held = FileSplits(pieces)
    assert list(held) == pieces == [held[i] for i in range(len(held))]
    assert held.n_bytes == sum(piece.end - piece.start for piece in pieces)
    numbers = data.draw(st.lists(st.sampled_from(range(len(pieces)))) if pieces else st.just([]))
    some = held.select_at(numbers)
    assert list(some) == [pieces[i] for i in numbers]
    assert pickle.loads(pickle.dumps(some)) == some  # noqa: S301 (of the line itself)
    assert held[1:3] == pieces[1:3]
    assert held.select_where(lambda piece: piece.is_tiered) == [
        piece for piece in pieces if piece.is_tiered
    ]


def test_parts_and_shares_are_those_of_pieces() -> None:
    files = [
        FileSplit(f"/t-0/{i:020}.log", LOG_KIND, i, size, 5, 0, size)
        for i, size in enumerate((0, 10, 45))
    ]
    held = FileSplits(files)
    parts = held.split_at(lambda file: compute_split_points(file, 20))
    assert parts == list(split_files(files, 20))
    assert [(piece.start, piece.end) for piece in parts] == [
        *((0, 0), (0, 10), (0, 15), (15, 30), (30, 45)),
    ]
    shares = list(parts.regrouped(group_splits(parts, 20, 0)))
    assert shares == list(group_splits(split_files(files, 20), 20, 0))
    assert len(pickle.dumps(shares[0])) < len(pickle.dumps(FileSplits(files * 50)))


def test_a_time_that_no_column_holds_stays_one_that_can_be_compared() -> None:
    """A disk can say the year 2400, which is more nanoseconds than 63 bits hold."""
    late = FileSplit("/t-0/0.log", LOG_KIND, 0, 1, 13_569_465_600 * 10**9, 0, 1)
    other = replace(late, path="/t-0/1.log", modified=late.modified + 1)
    first, second = (piece.modified for piece in FileSplits([late, other]))
    assert second - first == 1


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories that are named for how many segments are listed in them."""

    def listing(path: str) -> Iterator[StoredFile]:
        for i in range(int(path.rpartition("-")[2])):
            folder = f"/var/lib/kafka/data/some-topic-{i // 1000}-{i // 100 % 10}"
            for suffix in ("index", "log", "timeindex"):
                name = f"{folder}/{i % 100 * 1000:020}.{suffix}"
                yield StoredFile(name, 1 << 20, 1_700_000_000_000_000_000 + i)

    monkeypatch.setattr("kfmt_cli.arrow.input_files.iter_files", listing)


@pytest.mark.usefixtures("listed")
def test_what_a_driver_keeps_of_a_segment(tmp_path: Path) -> None:
    """Inputs, plan, shares, and where results are: 200 bytes."""

    def kept(n: int) -> tuple[int, object]:
        before = tracemalloc.get_traced_memory()[0]
        request = replace(parse_request({}), paths=(f"/segments-{n}",))
        files = list_input_files(request)
        ledger = JobDirectory(str(tmp_path / str(n)), JobDefinition("verify", lambda *_: [], {}))
        ledger.open()
        ledger.plan(request, files)
        numbers = ledger.unprocessed_indexes()
        shares = group_by_task(ledger.job, request, ledger.splits.select_at(numbers))
        for share in shares:
            results = {format_split_name(piece.path, piece.start): {"rows": 1} for piece in share}
            write_json_file(f"{ledger.results_directory}/{result_file_name(share, 0)}", results)
        ledger.add_results(numbers, shares)
        assert not ledger.unprocessed_indexes()
        assert sum(result["rows"] for _, result in ledger.iter_results()) == len(files) == n
        ledger._result_files.forget("")  # the one that was read last
        return tracemalloc.get_traced_memory()[0] - before, (files, ledger, shares)

    tracemalloc.start()
    try:
        few, _ = kept(1000)
        many, _held = kept(5000)
    finally:
        tracemalloc.stop()
    assert (many - few) / 4000 < 200


@pytest.mark.usefixtures("listed")
def test_what_tasks_get_is_made_when_it_is_sent() -> None:
    """The shares of a million segments are 100 MB."""
    request = replace(parse_request({}), paths=("/segments-5000",), parallelism=100)
    job = JobDefinition("verify", lambda *_: [], {})
    shares = TaskInputs(request, group_by_task(job, request, list_input_files(request)))
    assert len(shares) > 50
    tracemalloc.start()
    try:
        n_bytes = sum(map(len, shares))
        assert tracemalloc.get_traced_memory()[1] < n_bytes / 2
    finally:
        tracemalloc.stop()
    assert pickle.loads(shares[1])[0] == shares.task_splits[1]  # noqa: S301


@pytest.mark.usefixtures("listed")
def test_a_job_is_taken_up_where_it_was_left(tmp_path: Path) -> None:
    """What is done stays, what has changed is done anew with all that is in the same files."""
    job = JobDefinition("export", lambda *_: [], {"of": "it"})
    request = replace(parse_request({}), paths=("/segments-30",))
    files = list_input_files(request)

    def planned(files: FileSplits) -> JobDirectory:
        ledger = JobDirectory(str(tmp_path), job)
        ledger.open()
        ledger.plan(request, files)
        return ledger

    def keep(share: FileSplits) -> None:
        output = f"records/{share[0].base_offset}"
        (tmp_path / output).parent.mkdir(exist_ok=True)
        (tmp_path / output).touch()
        results: dict[str, dict[str, object]] = {
            format_split_name(piece.path, 0): {"about": split_identity(piece, request), "n": number}
            for number, piece in enumerate(share)
        }
        results[format_split_name(share[0].path, 0)]["outputs"] = [output]
        write_json_file(f"{tmp_path}/_kfmt/done/{result_file_name(share, 0)}", results)

    planned(files)
    keep(files[:10])
    keep(files[10:20])
    assert list(planned(files).unprocessed_indexes()) == [*range(20, 30)]
    done = planned(files).iter_results(lambda piece: piece.path == files[12].path)
    assert [result["n"] for _, result in done] == [2]
    with pytest.raises(UsageError, match="not visible here"):
        list(planned(files).iter_results())
    changed = FileSplits(
        replace(piece, modified=7) if i == 12 else piece for i, piece in enumerate(files)
    )
    assert list(planned(changed).unprocessed_indexes()) == [*range(10, 30)]
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["0"]
    assert list(planned(files[1:]).unprocessed_indexes()) == [*range(29)]  # the first is gone
    assert list((tmp_path / "records").iterdir()) == []


@pytest.mark.usefixtures("listed")
def test_a_torn_file_is_done_as_a_whole(tmp_path: Path) -> None:
    """With all that is in the same files; what is in others stays."""
    request = replace(parse_request({}), paths=("/segments-3",), max_split_bytes=40 << 20)
    first, large, last = list_input_files(request)
    files = FileSplits([first, replace(large, size=100 << 20, end=100 << 20), last])
    ledger = JobDirectory(str(tmp_path), JobDefinition("verify", lambda *_: [], {}))
    ledger.open()
    ledger.plan(request, files)
    assert [piece.start >> 20 for piece in ledger.splits] == [0, 0, 33, 66, 0]
    numbers, shares = ledger.unprocessed_indexes(), [ledger.splits[:2], ledger.splits[2:4]]
    for share in (*shares, ledger.splits[4:]):
        results = {
            format_split_name(piece.path, piece.start): {"about": split_identity(piece, request)}
            for piece in share
        }
        write_json_file(f"{ledger.results_directory}/{result_file_name(share, 0)}", results)
    ledger.add_results(numbers, [*shares, ledger.splits[4:]])
    assert not ledger.unprocessed_indexes()
    ledger.undo_splits({large.path})
    assert ledger.splits == files
    assert list(ledger.unprocessed_indexes()) == [0, 1]
    assert len(list((tmp_path / "_kfmt/done").iterdir())) == 1
