"""rebuild-index: where it writes files, and how it handles damage. interop/test_indexes.py compares
their contents with those of a real broker."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.commands.python.command_result import null_run
from kfmt_cli.commands.rebuild_index import command as rebuilding
from kfmt_cli.commands.rebuild_index.options import RebuildIndexOptions
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import UsageError
from kfmt_cli.writers.rebuilt_log import RebuiltLog, rebuild_files
from tests.support.samples import ORDERS, TXN, kfmt
from tests.support.segments import positions
from tools.kafka import SAMPLES

LAST = f"{736:020}.snapshot"
NEVER = ("--producer-id-expiration-ms", "9000000000000")


def copied(directory: Path, destination: Path) -> Path:
    """A partition without its indexes."""
    destination.mkdir(parents=True)
    for log in directory.glob("*.log"):
        shutil.copy(log, destination)
    return destination


def test_what_a_broker_recovered_last_is_rebuilt(tmp_path: Path) -> None:
    """The samples' snapshots and transaction indexes follow from their logs alone."""
    out = tmp_path / "out"
    assert kfmt("rebuild-index", copied(TXN.parent, tmp_path / "txn-0"), out, *NEVER).code == 0
    for name in ("txnindex", "snapshot"):
        for file in TXN.parent.glob(f"*.{name}"):
            assert (out / file.name).read_bytes() == file.read_bytes()
    assert kfmt("index-check", out).code == 0


def test_in_place_keeps_the_old_files_and_leaves_right_ones_alone(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    shutil.copytree(ORDERS.parent, directory)
    first = directory / ORDERS.with_suffix(".index").name
    original = first.read_bytes()
    broken = original[:8] + b"\0\0\0\1\0\0\0\1" + original[16:]
    first.write_bytes(broken)
    assert kfmt("index-check", directory).code == 1
    result = kfmt("rebuild-index", "--in-place", directory, "--index-interval-bytes", "2048")
    assert result.code == 0
    assert f"{first.name}.old" in result.err
    assert (directory / f"{first.name}.old").read_bytes() == broken
    assert kfmt("index-check", directory).code == 0
    times = {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
    second_run = kfmt("rebuild-index", "--in-place", directory, "--index-interval-bytes", "2048")
    assert (second_run.code, second_run.err) == (0, "")
    assert {path.name: path.stat().st_mtime_ns for path in directory.iterdir()} == times
    third_run = kfmt("rebuild-index", "--in-place", directory, "--index-interval-bytes", "100000")
    assert f"{first.name}.old2" in third_run.err
    assert not list(directory.glob("*kfmt*"))


def test_one_partition_goes_flat_several_keep_their_directories(tmp_path: Path) -> None:
    flat, nested, two_partitions = (tmp_path / name for name in ("flat", "deep", "two"))
    assert kfmt("rebuild-index", ORDERS, flat).code == 0
    assert {path.name for path in flat.iterdir()} == {
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000240.snapshot",
    }
    assert kfmt("rebuild-index", SAMPLES / "kafka-3.9.1-broker2", nested).code == 0
    assert (nested / "txn-1/00000000000000000000.txnindex").exists()
    assert kfmt("rebuild-index", ORDERS.parent, TXN.parent, two_partitions).code == 0
    assert {path.name for path in two_partitions.iterdir()} == {"orders-0", "txn-0"}


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
    start = positions(data)[6]
    for name, damaged in (
        ("flip", data[: start + 80] + bytes([data[start + 80] ^ 1]) + data[start + 81 :]),
        ("cut", data[: start + 200]),
        ("zeros", data[:start] + bytes(4096)),
    ):
        log = tmp_path / name / ORDERS.name
        log.parent.mkdir()
        log.write_bytes(damaged)
        assert kfmt("rebuild-index", log, tmp_path / f"{name}-out").code == 1
        undamaged = tmp_path / f"{name}-whole" / ORDERS.name
        undamaged.parent.mkdir()
        undamaged.write_bytes(data[:start])
        assert kfmt("rebuild-index", undamaged, tmp_path / f"{name}-right").code == 0
        for suffix in (".index", ".timeindex"):
            rebuilt = (tmp_path / f"{name}-out" / ORDERS.name).with_suffix(suffix).read_bytes()
            expected = (tmp_path / f"{name}-right" / ORDERS.name).with_suffix(suffix).read_bytes()
            assert rebuilt == expected


def test_a_later_segment_alone_does_not_say_who_its_producers_are(tmp_path: Path) -> None:
    later = TXN.parent / "00000000000000000357.log"
    log = tmp_path / "alone" / later.name
    log.parent.mkdir()
    shutil.copy(later, log)
    result = kfmt("rebuild-index", log, tmp_path / "out", "--json")
    assert (result.code, result.codes) == (0, ["producers-unknown"])
    assert not list((tmp_path / "out").glob("*.snapshot"))
    shutil.copy(later.with_suffix(".snapshot"), log.parent)
    result = kfmt("rebuild-index", log, tmp_path / "known", "--json", *NEVER)
    assert result.codes == []
    for name in ("00000000000000000635.snapshot", "00000000000000000357.txnindex"):
        assert (tmp_path / "known" / name).read_bytes() == (TXN.parent / name).read_bytes()


def overlapping(destination: Path, sample: Path, base_offset: int) -> Path:
    """A partition with one segment's batches, from an offset on, in a second segment too."""
    destination.mkdir(parents=True)
    data = sample.read_bytes()
    (destination / sample.name).write_bytes(data)
    start = next(
        position
        for position in positions(data)
        if int.from_bytes(data[position : position + 8], "big") == base_offset
    )
    (destination / f"{base_offset:020}.log").write_bytes(data[start:])
    return destination


def broken_copy(destination: Path) -> Path:
    """A partition whose first index is corrupt, in a log directory."""
    directory = destination / "orders-0"
    shutil.copytree(ORDERS.parent, directory)
    (directory / f"{0:020}.index").write_bytes(b"\0\0\0\1\0\0\0\1")
    return directory


def directory_state(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Names, contents and times of the files below a directory."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(file): (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


@pytest.mark.parametrize("lock_path", [".lock", "orders-0/.lock"])
def test_in_place_refuses_a_log_directory_that_a_broker_holds(
    lock_path: str, tmp_path: Path
) -> None:
    directory = broken_copy(tmp_path)
    lock = tmp_path / lock_path
    lock.touch()
    before = directory_state(tmp_path)
    with lock.open("r+b") as handle:
        fcntl.lockf(handle, fcntl.LOCK_EX)  # as a Java FileLock is
        for path in (directory, tmp_path, directory / ORDERS.name):
            refused = kfmt("rebuild-index", "--in-place", path, apart=True)
            assert refused.code == 2
            assert ".lock is held by a broker" in refused.err
            assert "--force" in refused.err
        assert directory_state(tmp_path) == before
        assert kfmt("rebuild-index", "--in-place", "--force", directory).code == 0
        assert kfmt("index-check", directory).code == 0
    shutil.rmtree(directory)
    broken_copy(tmp_path)
    lock.touch()  # after a crash, too, there is a lock file that nobody holds
    assert kfmt("rebuild-index", "--in-place", directory).code == 0


def test_in_place_refuses_a_log_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rebuild_growing_logs(
        logs: list[InputFile], *arguments: Any, **options: Any
    ) -> Iterator[RebuiltLog]:
        for rebuilt in rebuild_files(logs, *arguments, **options):
            if rebuilt.log.path.endswith("240.log"):
                with Path(rebuilt.log.path).open("ab") as log:
                    log.write(ORDERS.read_bytes()[:100])
            yield rebuilt

    monkeypatch.setattr(rebuilding, "rebuild_files", rebuild_growing_logs)
    for force in (False, True):
        directory = broken_copy(tmp_path / str(force))
        (directory / f"{240:020}.index").write_bytes(b"")
        options = RebuildIndexOptions(
            paths=(str(directory),), in_place=True, index_interval_bytes=4096, force=force
        )
        command = rebuilding.RebuildIndexCommand(null_run(), options)
        if force:
            command.execute()
        else:
            with pytest.raises(UsageError, match=r"240\.log: the log grew while it was being read"):
                command.execute()
        assert bool((directory / f"{240:020}.index").read_bytes()) == force


def test_in_place_writes_only_indexes_unless_requested(tmp_path: Path) -> None:
    directory = tmp_path / "txn-0"
    shutil.copytree(TXN.parent, directory)
    for name in (f"{0:020}.txnindex", f"{357:020}.snapshot"):
        (directory / name).unlink()
    (directory / f"{357:020}.txnindex").write_bytes(b"")
    first = directory / f"{0:020}.index"
    first.unlink()
    result = kfmt("rebuild-index", "--in-place", directory)
    assert result.code == 0
    assert first.exists()
    for name, problem in (
        (f"{0:020}.txnindex", "is missing"),
        (f"{357:020}.snapshot", "is missing"),
    ):
        assert not (directory / name).exists()
        assert f"{name}: {problem}; use --all-files to write it as well" in result.err
    assert f"{357:020}.txnindex: does not match the log; use --all-files" in result.err
    assert kfmt("rebuild-index", "--in-place", "--all-files", directory).code == 0
    for file in TXN.parent.glob("*.[ts][xn]*"):
        assert (directory / file.name).read_bytes() == file.read_bytes()


def test_leftovers_of_a_killed_run_are_removed_and_reported(tmp_path: Path) -> None:
    directory = broken_copy(tmp_path)
    leftover = directory / f".kfmt-unfinished-{32 * 'a'}.deleted"
    leftover.write_bytes(b"x")
    leftover.chmod(0o600)
    in_use = directory / f".kfmt-unfinished-{32 * 'b'}.deleted"
    with in_use.open("wb") as handle:
        in_use.chmod(0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)  # of a run that continues
        os.utime(in_use, (1, 1))
        os.utime(leftover, (1, 1))
        result = kfmt("rebuild-index", "--in-place", directory)
        assert result.code == 0
        assert f"{leftover}: leftover of an interrupted run, removed" in result.err
        assert not leftover.exists()
        assert in_use.exists()


def test_a_run_killed_before_it_replaced_a_file_has_kept_the_old_one(tmp_path: Path) -> None:
    directory = broken_copy(tmp_path)
    index = directory / f"{0:020}.index"
    broken = index.read_bytes()
    backup = index.with_name(f"{index.name}.old")
    os.link(index, backup)
    assert kfmt("rebuild-index", "--in-place", directory).code == 0
    assert backup.read_bytes() == broken
    assert index.read_bytes() != broken
    assert not list(directory.glob("*.old2"))


def test_segments_that_overlap_get_a_snapshot_each(tmp_path: Path) -> None:
    directory = overlapping(tmp_path / "orders-0", ORDERS, 100)
    result = kfmt("rebuild-index", directory, tmp_path / "out")
    assert result.code in (0, 1), result.err
    assert "cannot be written" not in result.err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    snapshots = {f"{offset:020}.snapshot" for offset in (100, 240)}
    assert {name for name in names if name.endswith(".snapshot")} == snapshots
    assert kfmt("rebuild-index", "--in-place", "--all-files", directory).code == result.code
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {
        path.name: path.read_bytes() for path in directory.iterdir() if path.suffix != ".log"
    }


def test_a_log_without_producers_that_begins_later_gets_its_snapshot(tmp_path: Path) -> None:
    partition = copied(ORDERS.parent, tmp_path / "orders-0")
    (partition / ORDERS.name).unlink()
    result = kfmt("rebuild-index", partition, tmp_path / "out", "--json")
    assert (result.code, result.codes) == (0, [])
    for file in ORDERS.parent.glob("*.snapshot"):
        if int(file.stem) > 240:
            assert (tmp_path / "out" / file.name).read_bytes() == file.read_bytes()
    # The contents of earlier segments are unknown if they exist and are no arguments.
    middle = partition / "00000000000000000480.log"
    result = kfmt("rebuild-index", middle, tmp_path / "one", "--json")
    assert (result.code, result.codes) == (0, ["producers-unknown"])
    assert not list((tmp_path / "one").glob("*.snapshot"))


def test_in_place_leaves_the_index_of_a_damaged_log_alone(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    shutil.copytree(ORDERS.parent, directory)
    log, index = (directory / f"{240:020}{name}" for name in (".log", ".index"))
    data = bytearray(log.read_bytes())
    data[13500] ^= 1
    log.write_bytes(bytes(data))
    before = index.read_bytes()
    result = kfmt("rebuild-index", "--in-place", directory)
    assert result.code != 0
    assert "may reach beyond it" in result.err
    assert index.read_bytes() == before
    kfmt("rebuild-index", "--in-place", "--force", directory)
    assert index.read_bytes() != before


def test_logs_that_no_broker_starts_on_get_no_indexes(tmp_path: Path) -> None:
    broker, out = tmp_path / "broker", tmp_path / "out"
    copied(TXN.parent, broker / "txn-0")
    renamed = broker / "orders-0" / f"{100:020}.log"  # it begins with offset 0
    renamed.parent.mkdir()
    shutil.copy(ORDERS, renamed)
    result = kfmt("rebuild-index", broker, out)
    assert result.code == 3
    assert f"a broker would not start on these logs: {renamed}: " in result.err
    assert "a batch has offsets below the segment's base offset" in result.err
    assert [path.name for path in out.iterdir()] == ["txn-0"]
    renamed.with_suffix(".index").write_bytes(b"\0\0\0\1\0\0\0\1")
    before = directory_state(renamed.parent)
    result = kfmt("rebuild-index", "--in-place", "--force", renamed.parent)
    assert (result.code, directory_state(renamed.parent)) == (3, before)
    assert "a broker would not start on these logs" in result.err


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
    directory = broken_copy(tmp_path)
    index = directory / f"{0:020}.index"
    broken = index.read_bytes()
    assert kfmt("rebuild-index", directory, directory).code == 2
    assert index.read_bytes() == broken
    assert kfmt("rebuild-index", directory, directory, "--force", *NEVER).code == 0
    assert (directory / f"{index.name}.old").read_bytes() == broken
    assert kfmt("index-check", directory).code == 0


def test_snapshots_omit_expired_producers(tmp_path: Path) -> None:
    source = copied(TXN.parent, tmp_path / "txn-0")
    assert kfmt("rebuild-index", source, tmp_path / "now").code == 0
    assert kfmt("rebuild-index", source, tmp_path / "never", *NEVER).code == 0
    assert kfmt("rebuild-index", "--in-place", "--all-files", source).code == 0
    directories = (tmp_path / "now", tmp_path / "never", source)
    n_now, n_never, n_in_place = (
        len(kfmt("dump", directory / LAST, "--json").rows) for directory in directories
    )
    assert n_now < n_never == n_in_place
