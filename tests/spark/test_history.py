"""The table that exports write to: rows that stay, rows that go, and its state after a kill."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake_runs import (
    Row,
    export,
    file_rows,
    forecast,
    manifest,
    manifest_rows,
    without_spark,
)
from tests.support.samples import ORDERS, kfmt
from tests.support.segments import positions, with_bytes

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow.parquet")

from kfmt_cli.core.small_objects import ConditionalWriteError
from kfmt_cli.errors import UsageError
from kfmt_cli.spark.lake import lake_table
from kfmt_cli.spark.lake import lease as leases
from kfmt_cli.spark.lake.lease import hold_lease

BROKER1 = ORDERS.parent.parent
NEW_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Partition orders-0: 1,500 records in 7 segments."""
    shutil.copytree(ORDERS.parent, tmp_path / "in/orders-0")
    return tmp_path / "in"


def rows(first: int, end: int, directory: Path = ORDERS.parent) -> Counter[Row]:
    """The rows of some offsets, each once."""
    return Counter((topic_id(directory), 0, offset) for offset in range(first, end))


def topic_id(directory: Path) -> str:
    return (directory / "partition.metadata").read_text().split()[-1]


def segment(directory: Path, base: int) -> Path:
    return directory / f"orders-0/{base:020}.log"


def test_rows_of_a_deleted_segment_stay(logs: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    export(to, logs)
    segment(logs, 0).unlink()
    segment(logs, 240).unlink()
    summary = export(to, logs)
    assert manifest_rows(to) == file_rows(to) == rows(0, 1500)
    assert "480 records kept of 2 inputs that are gone or not part of this run" in summary.lines
    assert forecast(to, logs) == []
    messages = forecast(to, logs, mode="sync")
    assert messages[0] == "would remove 480 rows of 2 inputs that are gone:"
    assert manifest_rows(to) == rows(0, 1500)
    export(to, logs, mode="sync")
    assert manifest_rows(to) == file_rows(to) == rows(480, 1500)


@pytest.mark.parametrize("format_", ["parquet", "json", "csv"])
def test_rows_of_a_deleted_segment_stay_beside_those_of_a_segment_that_grew(
    format_: str, logs: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    last = segment(logs, 1440)
    data = last.read_bytes()
    last.write_bytes(data[: len(data) // 2])
    export(to, logs, format_=format_)
    assert sum(manifest_rows(to).values()) < 1500
    last.write_bytes(data)
    segment(logs, 0).unlink()
    export(to, logs, format_=format_)
    assert sorted(offset for *_, offset in manifest_rows(to).elements()) == [*range(1500)]
    assert manifest_rows(to) == file_rows(to)
    content = manifest(to)
    assert sum(row["rows"]["records"] for row in content["inputs"]) == 1500
    assert sum(row["rows"] for row in content["outputs"]) == 1500


def test_rows_by_date_stay(logs: Path, tmp_path: Path) -> None:
    to, options = tmp_path / "to", {"partition_by": "topic,date"}
    shutil.copytree(BROKER1 / "txn-0", logs / "txn-0")
    export(to, logs, **options)
    before = manifest_rows(to)
    last = segment(logs, 1440)
    data = last.read_bytes()
    last.write_bytes(data[:-40])
    segment(logs, 0).unlink()
    export(to, logs, **options)
    last.write_bytes(data)
    shutil.rmtree(logs / "txn-0")
    export(to, logs, **options)
    assert manifest_rows(to) == file_rows(to) == before


def test_another_input_takes_nothing_away(logs: Path, tmp_path: Path) -> None:
    to, other = tmp_path / "to", tmp_path / "other/txn-0"
    shutil.copytree(BROKER1 / "txn-0", other)
    export(to, logs)
    export(to, other.parent)
    n_txn = sum(Counter(topic for topic, *_ in manifest_rows(to).elements()).values()) - 1500
    assert n_txn > 700
    export(to, other.parent, mode="sync")
    assert sum(manifest_rows(to).values()) == 1500 + n_txn
    export(to, logs, topics="orders", mode="sync")
    assert sum(manifest_rows(to).values()) == 1500 + n_txn
    export(to, logs, mode="replace")
    assert manifest_rows(to) == file_rows(to) == rows(0, 1500)


def test_a_topic_that_is_not_there_is_an_error(logs: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    export(to, logs)
    with pytest.raises(UsageError, match=r"no topic 'orderz' .*did you mean orders"):
        export(to, logs, topics="orderz")
    assert manifest_rows(to) == rows(0, 1500)


def test_changed_options_are_reported(logs: Path, tmp_path: Path) -> None:
    export(tmp_path / "to", logs)
    with pytest.raises(UsageError, match=r"tables was \['records'\], is now \['batches'\]"):
        export(tmp_path / "to", logs, tables="batches")


def test_an_input_that_cannot_be_read_is_read_by_the_next_run(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows from an earlier run stay until then."""
    to = tmp_path / "to"
    closed = segment(logs, 480)
    original_open = os.open

    def denying(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied")
        return original_open(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", denying)
        summary = export(to, logs)
    assert len(summary.unreadable_inputs) == 1
    assert sum(manifest_rows(to).values()) == 1500 - 240
    assert not export(to, logs).unreadable_inputs
    assert manifest_rows(to) == file_rows(to) == rows(0, 1500)
    os.utime(closed, (1, 1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", denying)
        assert export(to, logs).unreadable_inputs
    assert manifest_rows(to) == file_rows(to) == rows(0, 1500)


def test_a_partition_that_moved_is_there_once(logs: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    export(to, logs)
    (tmp_path / "in/disk2").mkdir()
    shutil.move(logs / "orders-0", tmp_path / "in/disk2/orders-0")
    segment(tmp_path / "in/disk2", 0).unlink()
    export(to, logs)
    assert manifest_rows(to) == file_rows(to) == rows(0, 1500)


def test_a_topic_that_was_made_again_is_another(logs: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    export(to, logs)
    shutil.rmtree(logs / "orders-0")
    shutil.copytree(ORDERS.parent, logs / "orders-0")
    (logs / "orders-0/partition.metadata").write_text(f"version: 0\ntopic_id: {NEW_ID}")
    for base in (480, 720, 960, 1200, 1440):
        segment(logs, base).unlink()
    for path in (logs / "orders-0").iterdir():
        os.utime(path)
    export(to, logs)
    again = rows(0, 480, logs / "orders-0")
    assert manifest_rows(to) == rows(0, 1500) + again


def test_segments_that_the_cleaner_merged_are_there_once(logs: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    export(to, logs)
    first, second = segment(logs, 0), segment(logs, 240)
    first.write_bytes(first.read_bytes() + second.read_bytes())
    second.unlink()
    export(to, logs)
    assert manifest_rows(to) == file_rows(to) == rows(0, 1500)


class KilledError(BaseException):
    """A stand-in for SIGKILL: nothing may clean up after it."""


POINTS = (
    *("write_next_manifest", "write_commit", "commit_run", "_publish", "write_manifest"),
    "_delete_unreferenced",
)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_leaves_the_old_state_or_the_new(
    point: str, after: bool, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = tmp_path / "to"
    last = segment(logs, 1440)
    data = last.read_bytes()
    last.write_bytes(data[: len(data) // 2])
    export(to, logs)
    old = manifest_rows(to)
    last.write_bytes(data)
    segment(logs, 0).unlink()
    owner: Any = lake_table if hasattr(lake_table, point) else lake_table.LakeTable
    original = getattr(owner, point)

    def killed(*arguments: Any) -> None:
        if point == "_publish" and not arguments[0]._n_retained_rows:
            original(*arguments)  # at the start of the run
            return
        if after:
            original(*arguments)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(owner, point, killed)
        with pytest.raises(KilledError):
            export(to, logs)
    assert manifest_rows(to) in (old, rows(0, 1500))
    export(to, logs)
    assert manifest_rows(to) == file_rows(to) == rows(0, 1500)
    assert not (to / "_kfmt/staged").exists()
    refused = kfmt("export", logs, "--to", to, "--force")
    assert refused.code == 2
    assert "is a table of kfmt pipeline export" in refused.err


def test_a_second_job_says_who_has_the_directory(tmp_path: Path) -> None:
    to = str(tmp_path / "to")
    with (
        hold_lease(to, "export"),
        pytest.raises(UsageError, match=rf"kfmt pipeline export, process {os.getpid()} on "),
        hold_lease(to, "export"),
    ):
        pass
    with hold_lease(to, "export"):
        pass


def test_a_dead_owners_lease_is_taken_over(tmp_path: Path) -> None:
    script = (
        "import os, sys; from kfmt_cli.spark.lake.lease import hold_lease\n"
        "with hold_lease(sys.argv[1], 'export'): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "to")], check=False)
    assert json.loads((tmp_path / "to/_kfmt/lease.json").read_text())["job"] == "export"
    with hold_lease(str(tmp_path / "to"), "verify"):
        pass


def test_damage_is_no_input_that_was_not_read(logs: Path, tmp_path: Path) -> None:
    log = segment(logs, 480)
    log.write_bytes(with_bytes(log.read_bytes(), 5000, b"harm"))
    summary = export(tmp_path / "to", logs)
    assert (summary.n_errors, summary.unreadable_inputs) == (1, [])
    assert export(tmp_path / "to", logs).n_errors == 1


def test_a_beat_that_fails_is_not_the_end_of_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a store; the test uses a disk, without conditional writes."""
    monkeypatch.setattr(leases, "is_local", lambda _: False)
    monkeypatch.setattr(leases, "write_object_conditionally", _without_conditions)
    monkeypatch.setattr(leases, "read_object_etag", lambda _: None)
    monkeypatch.setattr(leases, "HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr(leases, "REREAD_DELAY_SECONDS", 0.01)
    to = str(tmp_path / "to")
    path = tmp_path / "to/_kfmt/lease.json"
    with hold_lease(to, "export") as lease:
        with (
            pytest.raises(UsageError, match="in use by kfmt pipeline export"),
            hold_lease(to, "stats"),
        ):
            pass
        path.write_text(json.dumps({**json.loads(path.read_text()), "owner": "another"}))
        assert lease.lost_event.wait(5)
        with pytest.raises(Exception, match="has taken over"):
            lease.raise_if_lost(to)
    dead = {**json.loads(path.read_text()), "beat": 0}
    path.write_text(json.dumps(dead))
    with hold_lease(to, "export"):
        assert json.loads(path.read_text())["owner"] != "another"
    assert not path.exists()
    assert threading.active_count() < 50


def _without_conditions(*_: object) -> None:
    raise ConditionalWriteError


@pytest.mark.parametrize("format_", ["parquet", "json", "csv"])
def test_rows_before_a_truncation_stay_when_their_segment_is_deleted(
    format_: str, logs: Path, tmp_path: Path
) -> None:
    """Segment 0 was truncated at 100, and the log continued in another; retention deleted it."""
    to = tmp_path / "to"
    export(to, logs, format_=format_)
    data = segment(logs, 0).read_bytes()
    again = data[positions(data)[5] :]
    segment(logs, 0).unlink()
    segment(logs, 100).write_bytes(again)
    export(to, logs, format_=format_)
    content = manifest(to)
    assert sorted(offset for *_, offset in manifest_rows(to).elements()) == [*range(1500)]
    assert manifest_rows(to) == file_rows(to)
    retained = next(row for row in content["inputs"] if row["file"].endswith(f"{0:020}.log"))
    assert (retained["rows"]["records"], retained["last_offset"]) == (100, 99)
    assert sum(row["rows"] for row in content["outputs"]) == 1500


@pytest.mark.parametrize("hash_", ["0123456789ab", "012345678901"])
@pytest.mark.parametrize("end", [".parquet", "-1.parquet", "-12.jsonl"])
def test_the_hash_of_a_name_is_found_even_if_it_looks_like_a_number(hash_: str, end: str) -> None:
    name = f"records/by_topic=a-{0:012}/a-0-{0:020}-{7:012}-{hash_}{end}"
    match = lake_table._OUTPUT_NAME.fullmatch(name)
    assert match is not None
    assert match["front"] == f"records/by_topic=a-{0:012}/a-0-{0:020}-{7:012}"
    assert match["end"] == end
