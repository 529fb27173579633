"""A file that the disk does not give is named with its byte, and the rest is shown."""

from __future__ import annotations

import errno
import gzip
import os
import random
import re
import shutil
from pathlib import Path

import pytest

from tests.support import in_process
from tests.support.failing_disk import lose
from tests.support.samples import TXN, Row, environment, kfmt
from tools.kafka import ROOT, SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"

NAMES = [
    f"{base:020}{suffix}"
    for base in (357, 635)
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
]


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition of three segments."""
    return Path(shutil.copytree(TXN.parent, tmp_path / "disk/txn-0"))


def fail(name: str, monkeypatch: pytest.MonkeyPatch, only: int | None = None) -> list[int]:
    """Make each read of the files with a name fail, or only one of them; returns the positions of
    their reads."""
    real = os.pread
    reads: list[int] = []

    def pread(handle: int, length: int, position: int) -> bytes:
        if Path(f"/proc/self/fd/{handle}").readlink().name == name:
            reads.append(position)
            if only in (None, len(reads)):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(handle, length, position)

    monkeypatch.setattr(os, "pread", pread)
    return reads


@pytest.mark.parametrize("name", NAMES)
def test_report_names_what_it_cannot_read_and_makes_the_page_of_the_rest(
    name: str, partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("altair", reason="the extra report is not installed")
    page = partition.parent.parent / "page.html"
    fail(name, monkeypatch)
    done = kfmt("report", partition, "--to", page)
    words = re.escape(f"{partition / name} byte ") + r"\d+: cannot be read: Input/output error"
    assert done.code == 3
    assert re.fullmatch(f"(kfmt: {words}\n)+", done.err)
    assert re.search(words, page.read_text())


@pytest.mark.parametrize("command", ["retention", "compaction"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_of_the_active_segment_that_cannot_be_read_is_named(
    command: str, suffix: str, partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{635:020}{suffix}"
    fail(name, monkeypatch)
    done = kfmt(command, partition)
    words = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
    assert (done.code, done.err) == (3, words)


def test_export_of_a_log_that_cannot_be_read_is_not_a_finding(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    name = f"{357:020}.log"
    fail(name, monkeypatch)
    words = ["export", str(partition), "--to", str(partition.parent.parent / "out"), "--jobs", "1"]
    code, out, err = in_process.run(words, b"", ROOT, environment())
    line = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
    assert (code, err.decode()) == (3, line)
    assert "2 segments, 458 records, 0 of these damaged, 1 not read" in out.decode()


def test_a_deleted_log_that_cannot_be_read_is_named(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = partition / f"{0:020}.log"
    name = f"{log.name}.deleted"
    log.rename(log.with_name(name))
    fail(name, monkeypatch)
    done = kfmt("check", partition)
    line = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
    assert (done.code, done.err) == (3, line)
    monkeypatch.undo()
    log.with_name(name).write_bytes(b"x")  # which is no log
    assert kfmt("check", partition).err == ""


def test_stat_names_the_active_segment_once(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{635:020}.log"
    fail(name, monkeypatch)
    done = kfmt("stat", partition.parent)
    line = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
    assert (done.code, done.err) == (3, line)


def test_a_snapshot_that_cannot_be_read_is_not_a_damaged_one(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history and both predicted starts read it once more."""
    name = f"{635:020}.snapshot"
    (partition / f"{635:020}.index").unlink()  # so that starts are simulated
    with monkeypatch.context() as patch:
        reads = fail(name, patch, only=0)
        assert kfmt("check", partition).err == ""
    starts = [number for number, position in enumerate(reads, start=1) if position == 0]
    assert len(starts) == 4
    for number in starts:
        with monkeypatch.context() as patch:
            fail(name, patch, only=number)
            done = kfmt("check", partition)
        line = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
        assert (done.code, done.err) == (3, line), number


PAGE = 4096


def records_of(path: Path) -> dict[tuple[str, int], Row]:
    """The records of logs, without their places and the mark of those recovered."""
    found = {}
    for row in kfmt("dump", "--records", path, "--json").of("record"):
        headers = [header for header in row["headers"] if header["key"] != "kfmt.salvaged"]
        kept = {name: row[name] for name in ("offset", "timestamp", "key", "value")}
        found[Path(row["file"]).name, row["offset"]] = kept | {"headers": headers}
    return found


@pytest.mark.parametrize("seed", range(12))
def test_salvage_reads_around_what_a_disk_has_lost(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every batch that can be read is kept, and no record is made of the rest."""
    random_ = random.Random(seed)
    folder = Path(
        shutil.copytree(BROKER / ("orders-0", "codec-zstd-0")[seed % 2], tmp_path / "t-0")
    )
    log = random_.choice(sorted(folder.glob("*.log")))
    pages = range(-(-log.stat().st_size // PAGE))
    lost = sorted(random_.sample(pages, min(len(pages), random_.randint(1, 3))))
    whole, batches = records_of(folder), kfmt("dump", log, "--json").of("batch")
    options = ["--records"] * (seed > 5)
    with monkeypatch.context() as patch:
        ranges = [(page * PAGE, (page + 1) * PAGE) for page in lost]
        failed = lose(log, ranges, patch)
        done = kfmt("salvage", folder, tmp_path / "out", *options)
    assert done.code == 3, done.err
    assert len(lost) <= len(failed) <= 2 * len(lost)  # though logs are read twice
    assert f"kfmt: {log} bytes {lost[0] * PAGE}–" in done.err
    assert ": cannot be read: Input/output error\n" in done.err
    assert "error " not in done.err  # about filler
    saved = records_of(tmp_path / "out")
    for row in batches:
        end = row["position"] + row["batch_length"] + 12
        is_lost = any(row["position"] < (page + 1) * PAGE and page * PAGE < end for page in lost)
        for offset in range(row["base_offset"], row["last_offset"] + 1):
            place = log.name, offset
            assert is_lost or saved.get(place) == whole.get(place)
    for place, record in saved.items():
        assert record == whole[place]
    for place in whole.keys() - saved.keys():
        assert place[0] == log.name
    assert kfmt("check", tmp_path / "out").code == 0


def test_salvage_of_a_log_that_has_gone_does_not_fill_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(BROKER / "orders-0", tmp_path / "orders-0"))
    log = folder / f"{240:020}.log"
    lose(log, [(PAGE, 2 * PAGE)], monkeypatch, errno.ESTALE)
    done = kfmt("salvage", folder, tmp_path / "out")
    assert done.code == 3
    assert not (tmp_path / "out" / log.name).exists()
    assert "0 holes" in done.out


def test_check_says_how_to_copy_what_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(BROKER / "orders-0", tmp_path / "disk/orders-0"))
    log = folder / f"{240:020}.log"
    lose(log, [(PAGE, 2 * PAGE), (4 * PAGE, 5 * PAGE)], monkeypatch)
    done = kfmt("check", folder.parent)
    assert (done.code, done.err.count("cannot be read")) == (3, 1)
    command = f"kfmt salvage {folder} DST   copies every undamaged batch to DST; 1 log can be read"
    assert f"next steps\n  {command} in part only\n" in done.out
    (step,) = kfmt("check", folder.parent, "--json").of("next")
    words = [word.replace("DST", str(tmp_path / "out")) for word in step["command"].split()[1:]]
    assert kfmt(*words).code == 3
    kept = kfmt("verify-crc", tmp_path / "out", "--json").of("summary")[0]["batches"]
    assert kept > kfmt("verify-crc", folder, "--json").of("summary")[0]["batches"]


def test_replicas_with_other_lost_pages_make_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of one log alone, which is then not read to its end anywhere."""
    only = tmp_path / "only/codec-zstd-0"
    shutil.copytree(BROKER / "codec-zstd-0", only)
    for source in (BROKER / "orders-0", only):
        copies = []
        for name, page in (("one", 1), ("two", 4)):
            folder = tmp_path / f"{source.name}-{name}" / source.name
            shutil.copytree(source, folder)
            lose(folder / f"{0:020}.log", [(page * PAGE, (page + 1) * PAGE)], monkeypatch)
            copies.append(folder.parent)
        done = kfmt("merge", *copies, "--to", tmp_path / f"out-{source.name}", "--json")
        words = (
            f"{source.name}: 1 log can be read in part only: the rest is merged, but not compared"
        )
        assert done.err.count(words) == 2
        (merged,) = done.of("merge")
        assert (done.code, merged["missing"]) == (3, [])
        made = records_of(tmp_path / f"out-{source.name}")
        whole = records_of(source)
        assert {offset: row for (_, offset), row in made.items()} == {
            offset: row for (_, offset), row in whole.items()
        }


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize(
    ("lost", "missing"),
    [((1440, 0), [[1440, 1479]]), ((0, 0), [[0, 39]]), ((480, 1), [[500, 559]])],
)
def test_merge_names_what_is_lost_of_a_single_replica(
    lost: tuple[int, int],
    missing: list[list[int]],
    is_compacted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "disk/orders-0"
    shutil.copytree(BROKER / "orders-0", folder)
    if is_compacted:
        (folder.parent / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 1440\n")
    base, page = lost
    lose(folder / f"{base:020}.log", [(page * PAGE, (page + 1) * PAGE)], monkeypatch)
    (merged,) = kfmt("merge", folder.parent, "--to", tmp_path / "out", "--json").of("merge")
    assert merged["missing"] == missing


def test_deleted_logs_that_are_read_in_part_are_brought_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(BROKER / "orders-0", tmp_path / "disk/orders-0"))
    for base in (0, 240):
        for path in folder.glob(f"{base:020}.*"):
            path.rename(f"{path}.deleted")
        lose(folder / f"{base:020}.log.deleted", [(0, PAGE)], monkeypatch)
    done = kfmt("check", folder.parent)
    assert done.code == 3
    step = f"kfmt salvage --deleted {folder} DST   brings back 400 deleted records"
    assert step in done.out
    assert kfmt("salvage", "--deleted", folder, tmp_path / "out").code == 3
    brought = kfmt("cat", tmp_path / "out", "-f", "%o\n", "--to-offset", "479").out.split()
    assert len(brought) == 400


def test_the_lost_end_of_a_log_with_another_name_has_lost_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for base, other in ((0, 240), (240, 0)):
        shutil.copy(BROKER / "orders-0" / f"{other:020}.log", folder / f"{base:020}.log")
    lose(folder / f"{0:020}.log", [(5 * PAGE, 9 * PAGE)], monkeypatch)
    (hole,) = kfmt("salvage", folder, tmp_path / "out", "--json").of("hole")
    assert (hole["first_offset"], hole["last_offset"]) == (380, None)


def test_a_batch_whose_offset_is_lost_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checksum does not cover it."""
    log = Path(shutil.copytree(TXN.parent, tmp_path / "txn-0")) / f"{0:020}.log"
    positions = [row["position"] for row in kfmt("dump", log, "--json").of("batch")]
    for at in positions[3:20:4]:
        for n in (1, 7, 8, 12):
            with monkeypatch.context() as patch:
                lose(log, [(at - 9, at + n)], patch)
                out = tmp_path / f"out-{at}-{n}"
                done = kfmt("salvage", log.parent, out, "--json")
                assert (done.code, "Traceback" in done.err) == (3, False)
            (hole,) = done.of("hole")
            assert hole["unread_bytes"] > n
            assert not list(out.rglob("contradicting*"))
            assert kfmt("check", out).code == 0


@pytest.mark.parametrize("options", [[], ["--records"]])
def test_salvage_keeps_what_a_cut_packed_log_has(options: list[str], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(BROKER / "orders-0", tmp_path / "orders-0"))
    log = folder / f"{240:020}.log"
    whole = records_of(folder)
    log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes())[:2000])
    log.unlink()
    done = kfmt("salvage", folder, tmp_path / "out", *options)
    assert done.code == 3
    assert done.err.count("cannot be decompressed") == 1
    assert "1 not read" in done.out
    saved = records_of(tmp_path / "out")
    assert {place: whole[place] for place in saved} == saved
    mine = sum(name == log.name for name, _ in saved)
    assert mine > 40 if options else mine == 40
