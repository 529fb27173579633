"""The Python functions: what they refuse, and what they return."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kfmt_cli
from kfmt_cli.errors import InputError, UsageError
from tests.support.samples import ORDERS
from tools.kafka import ROOT, SAMPLES

BROKER, DAMAGED = SAMPLES / "kafka-3.9.1-broker1", ROOT / "damaged_segments"
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "check": kfmt_cli.check,
    "stat": kfmt_cli.stat,
    "find": lambda path: kfmt_cli.find(path, offset=1),
    "txn": kfmt_cli.txn,
    "diff": lambda path: kfmt_cli.diff(path, BROKER),
    "diff with": lambda path: kfmt_cli.diff(BROKER, path),
    "retention": kfmt_cli.retention,
    "compaction": kfmt_cli.compaction,
    "state": kfmt_cli.state,
    "verify": kfmt_cli.verify,
    "read_records": lambda path: list(kfmt_cli.read_records(path).columns()),
    "read_batches": lambda path: list(kfmt_cli.read_batches(path).columns()),
    "read_file": kfmt_cli.read_file,
}
MULTI_PATH_FUNCTIONS = [
    name for name in FUNCTIONS if name not in ("diff", "diff with", "read_file")
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_path_where_there_is_nothing_raises(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory") as raised:
        FUNCTIONS[name](tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in str(raised.value)


@pytest.mark.parametrize("name", MULTI_PATH_FUNCTIONS)
def test_also_one_of_several(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: No such file or directory"):
        FUNCTIONS[name]([ORDERS.parent, tmp_path / "nowhere"])


def test_a_path_in_an_archive(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "backup.tar", "w") as archive:
        archive.add(ORDERS.parent, "orders-0")
    path = tmp_path / "backup.tar/orders-0"
    (row,) = kfmt_cli.stat(path).of("stat")
    assert row["records"] == 1500
    assert type(row["codecs"]) is type(row["magics"]) is dict
    with pytest.raises(InputError, match=r"backup.tar/orders-1: No such file or directory"):
        kfmt_cli.stat(tmp_path / "backup.tar/orders-1")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bytes_are_a_path(name: str) -> None:
    paths = {"read_file": ORDERS, "state": BROKER / "__consumer_offsets-1"}
    path = paths.get(name, ORDERS.parent)
    assert FUNCTIONS[name](os.fsencode(path)) is not None


@pytest.mark.parametrize("name", ["check", "stat", "txn", "retention", "verify"])
def test_a_directory_that_may_not_be_listed_raises(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orders-0").mkdir()
    original_scandir = os.scandir

    def denying(path: Any) -> Any:
        if str(path) == str(tmp_path):
            raise PermissionError(13, "Permission denied", str(path))
        return original_scandir(path)

    monkeypatch.setattr(os, "scandir", denying)
    with pytest.raises(InputError, match="Permission denied"):
        FUNCTIONS[name](tmp_path)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: kfmt_cli.find(BROKER), "pass exactly one of"),
        (lambda: kfmt_cli.retention(BROKER, retention=1), "no setting"),
        (
            lambda: kfmt_cli.stat(BROKER, by="nope"),
            "no level named 'nope'; choose from topic, partition",
        ),
        (lambda: kfmt_cli.stat(BROKER).of("stats"), "no row type named 'stats'; did you mean stat"),
        (lambda: kfmt_cli.read_records(ORDERS, from_offset="5"), "from_offset is '5'"),  # type: ignore[arg-type]
        (
            lambda: kfmt_cli.read_batches(ORDERS, to_time="no time"),
            "to_time 'no time': not a valid time",
        ),
    ],
)
def test_arguments_that_are_refused(function: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        function()


def test_keys_and_times_as_programs_have_them() -> None:
    assert kfmt_cli.find(ORDERS, key="customer-7") == kfmt_cli.find(ORDERS, key=b"customer-7")
    times = [row["timestamp"] for row in kfmt_cli.read_records(ORDERS).objects()]
    start_time = datetime.fromtimestamp(times[100] / 1000, timezone.utc)
    for since in (
        start_time,
        start_time.replace(tzinfo=None),
        start_time.astimezone(timezone(timedelta(hours=5))),
    ):
        rows = kfmt_cli.read_records(ORDERS, from_time=since).objects()
        assert sum(1 for _ in rows) == sum(time >= times[100] for time in times)
    between = start_time + timedelta(microseconds=500)
    rows = kfmt_cli.read_records(ORDERS, from_time=between).objects()
    assert sum(1 for _ in rows) == sum(time > times[100] for time in times)
    rows = kfmt_cli.read_records(ORDERS, to_time=between).objects()
    assert sum(1 for _ in rows) == sum(time <= times[100] for time in times)


def test_answers_are_short_on_a_screen() -> None:
    answer = kfmt_cli.check(DAMAGED)
    assert repr(answer).startswith("<Answer: ")
    assert f"{len(answer.of('finding'))} finding" in repr(answer)
    assert repr(answer).endswith("; exit code 1>")
    assert len(repr(answer)) < 200
    assert len(repr(kfmt_cli.read_records(ORDERS))) < len(str(ORDERS)) + 50
    page = answer._repr_html_()
    assert page.count("<table>") == len({row["type"] for row in answer})
    assert "<script" not in kfmt_cli.stat(ORDERS)._repr_html_()


def test_an_answer_of_one_type_is_a_table() -> None:
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    answer = kfmt_cli.find(ORDERS, key="customer-7")
    assert pl.DataFrame(answer).height == pa.table(answer).num_rows == len(answer) > 1
    state = kfmt_cli.state(BROKER)
    assert sum(map(len, state.tables.values())) == len(state)
    assert pl.DataFrame(state.tables["committed_offset"]).height > 0
    with pytest.raises(UsageError, match="rows of several types"):
        state.arrow()


def test_a_second_pass_finds_the_same() -> None:
    rows = kfmt_cli.read_records(DAMAGED)
    counts = []
    for _ in range(2):
        assert sum(len(columns["offset"]) for columns in rows.columns()) > 0
        counts.append((len(rows.findings), len(rows.unread)))
    assert counts[0] == counts[1]
    assert counts[0][0] > 0


def test_columns_are_those_that_were_asked_for() -> None:
    rows = kfmt_cli.read_records(ORDERS, columns=["offset", "timestamp"])
    for columns in rows.columns():
        assert list(columns) == ["offset", "timestamp"]


def test_columns_that_only_arrow_has_are_refused_for_numpy() -> None:
    rows = kfmt_cli.read_records(ORDERS, columns=["offset", "file"])
    with pytest.raises(UsageError, match="no NumPy column named 'file'"):
        next(rows.columns())


def test_null_keys_are_masked_in_numpy() -> None:
    keys = [row["key"] for row in kfmt_cli.read_records(ORDERS).objects()]
    columns = kfmt_cli.read_records(ORDERS, columns=["key"]).columns()
    masks = [bool(masked) for chunk in columns for masked in np.ma.getmaskarray(chunk["key"])]
    assert masks == [key is None for key in keys]
    assert any(masks)


@pytest.mark.parametrize("suffix", ["future", "delete", "stray"])
def test_marked_directories_are_read_only_by_name(suffix: str, tmp_path: Path) -> None:
    shutil.copytree(ORDERS.parent, tmp_path / "orders-0")
    marked_directory = tmp_path / f"orders-0.{'0' * 32}-{suffix}"
    shutil.copytree(ORDERS.parent, marked_directory)
    for function in (kfmt_cli.read_records, kfmt_cli.dataset):
        assert sum(len(chunk["offset"]) for chunk in iter_chunks(function(tmp_path))) == 1500
        assert (
            sum(len(chunk["offset"]) for chunk in iter_chunks(function(marked_directory))) == 1500
        )


def iter_chunks(rows: Any) -> Iterable[Any]:
    """The columns of rows, or of a dataset, in chunks."""
    chunks: Iterable[Any] = rows.to_batches() if hasattr(rows, "to_batches") else rows.columns()
    return chunks


def test_a_directory_has_the_records_of_its_logs() -> None:
    metadata = BROKER / "__cluster_metadata-0"
    files = {row["file"] for row in kfmt_cli.read_batches(metadata).objects()}
    assert files == set(map(str, metadata.glob("*.log")))
    (snapshot, *_) = metadata.glob("*.checkpoint")
    assert {row["file"] for row in kfmt_cli.read_batches(snapshot).objects()} == {str(snapshot)}


def test_logs_of_which_none_can_be_read_raise(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log").symlink_to(tmp_path / "nowhere")
    rows = kfmt_cli.read_records(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        list(rows.objects())
    shutil.copy(ORDERS, tmp_path / f"{240:020}.log")
    assert len(list(rows.objects())) == 240
    assert len(rows.unread) == 1


def test_a_file_in_an_archive_is_read(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(ORDERS, "orders-0/" + ORDERS.name)
    contents = kfmt_cli.read_file(tmp_path / "a.tar/orders-0" / ORDERS.name)
    assert len(list(contents.objects())) == 12
