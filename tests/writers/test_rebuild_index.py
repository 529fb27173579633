"""rebuild-index: where its files go, and what it does with damage. What is in them is compared with
a real broker's in interop/test_indexes.py."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.cli.options import CommonOptions
from kfmt_cli.commands.rebuild_index import command as rebuilding
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import UsageError
from kfmt_cli.writers.rebuilt_log import RebuiltLog, rebuild_files
from tests.support.samples import ORDERS, TXN, kfmt
from tests.support.segments import positions
from tools.kafka import SAMPLES

LAST = f"{736:020}.snapshot"
NEVER = ("--producer-id-expiration-ms", "9000000000000")


def copied(folder: Path, to: Path) -> Path:
    """A partition without its indexes."""
    to.mkdir(parents=True)
    for log in folder.glob("*.log"):
        shutil.copy(log, to)
    return to


def test_what_a_broker_recovered_last_is_rebuilt(tmp_path: Path) -> None:
    """The samples' snapshots and transaction indexes follow from their logs alone."""
    out = tmp_path / "out"
    assert kfmt("rebuild-index", copied(TXN.parent, tmp_path / "txn-0"), out, *NEVER).code == 0
    for name in ("txnindex", "snapshot"):
        for file in TXN.parent.glob(f"*.{name}"):
            assert (out / file.name).read_bytes() == file.read_bytes()
    assert kfmt("index-check", out).code == 0


def test_in_place_keeps_the_old_files_and_leaves_right_ones_alone(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    shutil.copytree(ORDERS.parent, folder)
    first = folder / ORDERS.with_suffix(".index").name
    was = first.read_bytes()
    broken = was[:8] + b"\0\0\0\1\0\0\0\1" + was[16:]
    first.write_bytes(broken)
    assert kfmt("index-check", folder).code == 1
    done = kfmt("rebuild-index", "--in-place", folder, "--index-interval-bytes", "2048")
    assert done.code == 0
    assert f"{first.name}.old" in done.err
    assert (folder / f"{first.name}.old").read_bytes() == broken
    assert kfmt("index-check", folder).code == 0
    times = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = kfmt("rebuild-index", "--in-place", folder, "--index-interval-bytes", "2048")
    assert (again.code, again.err) == (0, "")
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == times
    other = kfmt("rebuild-index", "--in-place", folder, "--index-interval-bytes", "100000")
    assert f"{first.name}.old2" in other.err
    assert not list(folder.glob("*kfmt*"))


def test_one_partition_goes_flat_several_keep_their_folders(tmp_path: Path) -> None:
    flat, deep, two = (tmp_path / name for name in ("flat", "deep", "two"))
    assert kfmt("rebuild-index", ORDERS, flat).code == 0
    assert {path.name for path in flat.iterdir()} == {
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000240.snapshot",
    }
    assert kfmt("rebuild-index", SAMPLES / "kafka-3.9.1-broker2", deep).code == 0
    assert (deep / "txn-1/00000000000000000000.txnindex").exists()
    assert kfmt("rebuild-index", ORDERS.parent, TXN.parent, two).code == 0
    assert {path.name for path in two.iterdir()} == {"orders-0", "txn-0"}


def test_an_existing_file_is_kept_without_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert kfmt("rebuild-index", ORDERS, out).code == 0
    refused = kfmt("rebuild-index", ORDERS, out)
    assert refused.code == 2
    assert "--force" in refused.err
    assert kfmt("rebuild-index", ORDERS, out, "--force").code == 0
    assert kfmt("rebuild-index", ORDERS).code == 2
    missing = kfmt("rebuild-index", tmp_path / "none", tmp_path / "out2")
    assert missing.code == 3
    assert not (tmp_path / "out2").exists()


def test_the_indexes_of_a_damaged_log_end_where_a_broker_cuts_it(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    at = positions(data)[6]
    for name, damaged in (
        ("flip", data[: at + 80] + bytes([data[at + 80] ^ 1]) + data[at + 81 :]),
        ("cut", data[: at + 200]),
        ("zeros", data[:at] + bytes(4096)),
    ):
        log = tmp_path / name / ORDERS.name
        log.parent.mkdir()
        log.write_bytes(damaged)
        assert kfmt("rebuild-index", log, tmp_path / f"{name}-out").code == 1
        whole = tmp_path / f"{name}-whole" / ORDERS.name
        whole.parent.mkdir()
        whole.write_bytes(data[:at])
        assert kfmt("rebuild-index", whole, tmp_path / f"{name}-right").code == 0
        for suffix in (".index", ".timeindex"):
            ours = (tmp_path / f"{name}-out" / ORDERS.name).with_suffix(suffix).read_bytes()
            right = (tmp_path / f"{name}-right" / ORDERS.name).with_suffix(suffix).read_bytes()
            assert ours == right


def test_a_later_segment_alone_does_not_say_who_its_producers_are(tmp_path: Path) -> None:
    later = TXN.parent / "00000000000000000357.log"
    alone = tmp_path / "alone" / later.name
    alone.parent.mkdir()
    shutil.copy(later, alone)
    done = kfmt("rebuild-index", alone, tmp_path / "out", "--json")
    assert (done.code, done.codes) == (0, ["producers-unknown"])
    assert not list((tmp_path / "out").glob("*.snapshot"))
    shutil.copy(later.with_suffix(".snapshot"), alone.parent)
    done = kfmt("rebuild-index", alone, tmp_path / "known", "--json", *NEVER)
    assert done.codes == []
    for name in ("00000000000000000635.snapshot", "00000000000000000357.txnindex"):
        assert (tmp_path / "known" / name).read_bytes() == (TXN.parent / name).read_bytes()


def overlapping(to: Path, sample: Path, later: int) -> Path:
    """A partition with one segment's batches in a second segment too, from an offset on."""
    to.mkdir(parents=True)
    data = sample.read_bytes()
    (to / sample.name).write_bytes(data)
    at = next(
        position
        for position in positions(data)
        if int.from_bytes(data[position : position + 8], "big") == later
    )
    (to / f"{later:020}.log").write_bytes(data[at:])
    return to


def broken_copy(to: Path) -> Path:
    """A partition whose first index is wrong, in a log directory."""
    folder = to / "orders-0"
    shutil.copytree(ORDERS.parent, folder)
    (folder / f"{0:020}.index").write_bytes(b"\0\0\0\1\0\0\0\1")
    return folder


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Names, contents and times of the files below a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(file): (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


@pytest.mark.parametrize("place", [".lock", "orders-0/.lock"])
def test_in_place_refuses_a_log_directory_that_a_broker_holds(place: str, tmp_path: Path) -> None:
    folder = broken_copy(tmp_path)
    lock = tmp_path / place
    lock.touch()
    before = state(tmp_path)
    with lock.open("r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)  # as a Java FileLock is
        for path in (folder, tmp_path, folder / ORDERS.name):
            refused = kfmt("rebuild-index", "--in-place", path, apart=True)
            assert refused.code == 2
            assert ".lock is held by a broker" in refused.err
            assert "--force" in refused.err
        assert state(tmp_path) == before
        assert kfmt("rebuild-index", "--in-place", "--force", folder).code == 0
        assert kfmt("index-check", folder).code == 0
    shutil.rmtree(folder)
    broken_copy(tmp_path)
    lock.touch()  # a lock file that nobody holds is there after a crash, too
    assert kfmt("rebuild-index", "--in-place", folder).code == 0


def test_in_place_refuses_a_log_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def while_it_grows(logs: list[InputFile], *rest: Any, **more: Any) -> Iterator[RebuiltLog]:
        for done in rebuild_files(logs, *rest, **more):
            if done.log.path.endswith("240.log"):
                with Path(done.log.path).open("ab") as log:
                    log.write(ORDERS.read_bytes()[:100])
            yield done

    monkeypatch.setattr(rebuilding, "rebuild_files", while_it_grows)
    for force in (False, True):
        folder = broken_copy(tmp_path / str(force))
        (folder / f"{240:020}.index").write_bytes(b"")
        run = CommonOptions("never").start_run(rebuilding.REBUILD_RESULT)
        task = rebuilding.RebuildIndexCommand(run, 4096, force, all_files=False)
        if force:
            task.rebuild((str(folder),), None)
        else:
            with pytest.raises(UsageError, match=r"240\.log: the log grew while it was being read"):
                task.rebuild((str(folder),), None)
        assert bool((folder / f"{240:020}.index").read_bytes()) == force


def test_in_place_writes_no_files_beside_the_indexes_unless_asked(tmp_path: Path) -> None:
    folder = tmp_path / "txn-0"
    shutil.copytree(TXN.parent, folder)
    for name in (f"{0:020}.txnindex", f"{357:020}.snapshot"):
        (folder / name).unlink()
    (folder / f"{357:020}.txnindex").write_bytes(b"")
    first = folder / f"{0:020}.index"
    first.unlink()
    done = kfmt("rebuild-index", "--in-place", folder)
    assert done.code == 0
    assert first.exists()
    for name, what in ((f"{0:020}.txnindex", "is missing"), (f"{357:020}.snapshot", "is missing")):
        assert not (folder / name).exists()
        assert f"{name}: {what}; use --all-files to write it as well" in done.err
    assert f"{357:020}.txnindex: does not match the log; use --all-files" in done.err
    assert kfmt("rebuild-index", "--in-place", "--all-files", folder).code == 0
    for file in TXN.parent.glob("*.[ts][xn]*"):
        assert (folder / file.name).read_bytes() == file.read_bytes()


def test_what_a_killed_run_left_is_taken_away_and_said(tmp_path: Path) -> None:
    folder = broken_copy(tmp_path)
    left = folder / ".kfmt-unfinished-abc.deleted"
    left.write_bytes(b"x")
    used = folder / ".kfmt-unfinished-def.deleted"
    with used.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # of a run that goes on
        os.utime(used, (1, 1))
        os.utime(left, (1, 1))
        done = kfmt("rebuild-index", "--in-place", folder)
        assert done.code == 0
        assert f"{left}: leftover of an interrupted run, removed" in done.err
        assert not left.exists()
        assert used.exists()


def test_a_run_killed_before_it_replaced_a_file_has_kept_the_old_one(tmp_path: Path) -> None:
    folder = broken_copy(tmp_path)
    index = folder / f"{0:020}.index"
    wrong = index.read_bytes()
    kept = index.with_name(f"{index.name}.old")
    os.link(index, kept)
    assert kfmt("rebuild-index", "--in-place", folder).code == 0
    assert kept.read_bytes() == wrong
    assert index.read_bytes() != wrong
    assert not list(folder.glob("*.old2"))


def test_segments_that_overlap_get_a_snapshot_each(tmp_path: Path) -> None:
    folder = overlapping(tmp_path / "orders-0", ORDERS, 100)
    done = kfmt("rebuild-index", folder, tmp_path / "out")
    assert done.code in (0, 1), done.err
    assert "cannot be written" not in done.err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    snapshots = {f"{offset:020}.snapshot" for offset in (100, 240)}
    assert {name for name in names if name.endswith(".snapshot")} == snapshots
    assert kfmt("rebuild-index", "--in-place", "--all-files", folder).code == done.code
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {
        path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".log"
    }


def test_a_log_without_producers_that_begins_later_gets_its_snapshot(tmp_path: Path) -> None:
    later = copied(ORDERS.parent, tmp_path / "orders-0")
    (later / ORDERS.name).unlink()
    done = kfmt("rebuild-index", later, tmp_path / "out", "--json")
    assert (done.code, done.codes) == (0, [])
    for file in ORDERS.parent.glob("*.snapshot"):
        if int(file.stem) > 240:
            assert (tmp_path / "out" / file.name).read_bytes() == file.read_bytes()
    # What earlier segments hold is not known when they lie there and are not given.
    middle = later / "00000000000000000480.log"
    done = kfmt("rebuild-index", middle, tmp_path / "one", "--json")
    assert (done.code, done.codes) == (0, ["producers-unknown"])
    assert not list((tmp_path / "one").glob("*.snapshot"))


def test_in_place_leaves_the_index_of_a_damaged_log_alone(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    shutil.copytree(ORDERS.parent, folder)
    log, index = (folder / f"{240:020}{name}" for name in (".log", ".index"))
    data = bytearray(log.read_bytes())
    data[13500] ^= 1
    log.write_bytes(bytes(data))
    before = index.read_bytes()
    done = kfmt("rebuild-index", "--in-place", folder)
    assert done.code != 0
    assert "may reach beyond it" in done.err
    assert index.read_bytes() == before
    kfmt("rebuild-index", "--in-place", "--force", folder)
    assert index.read_bytes() != before


def test_logs_that_no_broker_starts_on_get_no_indexes(tmp_path: Path) -> None:
    broker, out = tmp_path / "broker", tmp_path / "out"
    copied(TXN.parent, broker / "txn-0")
    renamed = broker / "orders-0" / f"{100:020}.log"  # it begins with offset 0
    renamed.parent.mkdir()
    shutil.copy(ORDERS, renamed)
    done = kfmt("rebuild-index", broker, out)
    assert done.code == 3
    assert f"a broker would not start on these logs: {renamed}: " in done.err
    assert "a batch has offsets below the segment's base offset" in done.err
    assert [path.name for path in out.iterdir()] == ["txn-0"]
    renamed.with_suffix(".index").write_bytes(b"\0\0\0\1\0\0\0\1")
    before = state(renamed.parent)
    done = kfmt("rebuild-index", "--in-place", "--force", renamed.parent)
    assert (done.code, state(renamed.parent)) == (3, before)
    assert "a broker would not start on these logs" in done.err


def test_the_interval_is_the_topics_own(tmp_path: Path) -> None:
    broker = tmp_path / "broker"
    shutil.copytree(
        SAMPLES / "kafka-3.9.1-broker1/__cluster_metadata-0", broker / "__cluster_metadata-0"
    )
    shutil.copytree(ORDERS.parent, broker / "orders-0")
    assert kfmt("rebuild-index", broker / "orders-0", tmp_path / "own").code == 0
    options = ("--index-interval-bytes", "1024")
    assert kfmt("rebuild-index", ORDERS.parent, tmp_path / "given", *options).code == 0
    name = f"{240:020}.index"
    assert (tmp_path / "own" / name).read_bytes() == (tmp_path / "given" / name).read_bytes()


def test_a_destination_that_is_the_source_keeps_the_old_files(tmp_path: Path) -> None:
    folder = broken_copy(tmp_path)
    index = folder / f"{0:020}.index"
    broken = index.read_bytes()
    assert kfmt("rebuild-index", folder, folder).code == 2
    assert index.read_bytes() == broken
    assert kfmt("rebuild-index", folder, folder, "--force", *NEVER).code == 0
    assert (folder / f"{index.name}.old").read_bytes() == broken
    assert kfmt("index-check", folder).code == 0


def test_snapshots_leave_out_producers_that_expired(tmp_path: Path) -> None:
    source = copied(TXN.parent, tmp_path / "txn-0")
    assert kfmt("rebuild-index", source, tmp_path / "now").code == 0
    assert kfmt("rebuild-index", source, tmp_path / "never", *NEVER).code == 0
    assert kfmt("rebuild-index", "--in-place", "--all-files", source).code == 0
    folders = (tmp_path / "now", tmp_path / "never", source)
    now, never, in_place = (len(kfmt("dump", folder / LAST, "--json").rows) for folder in folders)
    assert now < never == in_place
