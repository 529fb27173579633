"""kfmt names a file that the disk cannot read, with the byte, and shows the remaining data."""

from __future__ import annotations

import errno
import gzip
import os
import random
import re
import shutil
import time
from pathlib import Path

import pytest

from tests.support import in_process
from tests.support.failing_disk import make_unreadable
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


def fail_reads(
    name: str, monkeypatch: pytest.MonkeyPatch, failing_read: int | None = None
) -> list[int]:
    """Make each read of the files with a name fail, or only one of them; returns the positions of
    their reads."""
    original_pread = os.pread
    reads: list[int] = []

    def pread(descriptor: int, length: int, position: int) -> bytes:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == name:
            reads.append(position)
            if failing_read in (None, len(reads)):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return original_pread(descriptor, length, position)

    monkeypatch.setattr(os, "pread", pread)
    return reads


@pytest.mark.parametrize("name", NAMES)
def test_report_names_unreadable_files_and_writes_the_page(
    name: str, partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("altair", reason="the extra report is not installed")
    page = partition.parent.parent / "page.html"
    fail_reads(name, monkeypatch)
    result = kfmt("report", partition, "--to", page)
    pattern = re.escape(f"{partition / name} byte ") + r"\d+: cannot be read: Input/output error"
    assert result.code == 3
    assert re.fullmatch(f"(kfmt: {pattern}\n)+", result.err)
    assert re.search(pattern, page.read_text())


@pytest.mark.parametrize("command", ["retention", "compaction"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_of_the_active_segment_that_cannot_be_read_is_named(
    command: str, suffix: str, partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{635:020}{suffix}"
    fail_reads(name, monkeypatch)
    result = kfmt(command, partition)
    message = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
    assert (result.code, result.err) == (3, message)


def test_export_of_a_log_that_cannot_be_read_is_not_a_finding(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    name = f"{357:020}.log"
    fail_reads(name, monkeypatch)
    arguments = [
        "export",
        str(partition),
        "--to",
        str(partition.parent.parent / "out"),
        "--jobs",
        "1",
    ]
    code, out, err = in_process.run(arguments, b"", ROOT, environment())
    message = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
    assert code == 3
    assert err.decode().startswith(message)
    assert "2 segments, 458 records, 0 of these damaged, 1 not read" in out.decode()


def test_a_deleted_log_that_cannot_be_read_is_named(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = partition / f"{0:020}.log"
    name = f"{log.name}.deleted"
    log.rename(log.with_name(name))
    fail_reads(name, monkeypatch)
    result = kfmt("check", partition)
    message = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
    assert (result.code, result.err) == (3, message)
    monkeypatch.undo()
    log.with_name(name).write_bytes(b"x")  # not a log
    assert kfmt("check", partition).err == ""


def test_stat_names_the_active_segment_once(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{635:020}.log"
    fail_reads(name, monkeypatch)
    result = kfmt("stat", partition.parent)
    message = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
    assert (result.code, result.err) == (3, message)


def test_a_snapshot_that_cannot_be_read_is_not_a_damaged_one(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history, the last stable offset and both predicted starts read it once more."""
    name = f"{635:020}.snapshot"
    (partition / f"{635:020}.index").unlink()  # so that kfmt simulates starts
    time.sleep(0.3)  # so that it is not looked at again, as what changed just now
    with monkeypatch.context() as patch:
        reads = fail_reads(name, patch, failing_read=0)
        assert kfmt("check", partition).err == ""
    first_reads = [nth_read for nth_read, position in enumerate(reads, start=1) if position == 0]
    assert len(first_reads) == 5
    for nth_read in first_reads:
        with monkeypatch.context() as patch:
            fail_reads(name, patch, failing_read=nth_read)
            result = kfmt("check", partition)
        message = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
        assert (result.code, result.err) == (3, message), nth_read


PAGE = 4096


def records_by_location(path: Path) -> dict[tuple[str, int], Row]:
    """The records by log and offset, without their positions and the header of salvaged ones."""
    records = {}
    for row in kfmt("dump", "--records", path, "--json").of("record"):
        headers = [header for header in row["headers"] if header["key"] != "kfmt.salvaged"]
        fields = {name: row[name] for name in ("offset", "timestamp", "key", "value")}
        records[Path(row["file"]).name, row["offset"]] = fields | {"headers": headers}
    return records


@pytest.mark.parametrize("seed", range(12))
def test_salvage_reads_around_what_a_disk_has_lost(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Salvage retains every readable batch and creates no records from unreadable bytes."""
    random_ = random.Random(seed)
    directory = Path(
        shutil.copytree(BROKER / ("orders-0", "codec-zstd-0")[seed % 2], tmp_path / "t-0")
    )
    log = random_.choice(sorted(directory.glob("*.log")))
    pages = range(-(-log.stat().st_size // PAGE))
    lost_pages = sorted(random_.sample(pages, min(len(pages), random_.randint(1, 3))))
    expected, batches = records_by_location(directory), kfmt("dump", log, "--json").of("batch")
    options = ["--records"] * (seed > 5)
    with monkeypatch.context() as patch:
        ranges = [(page * PAGE, (page + 1) * PAGE) for page in lost_pages]
        failed_reads = make_unreadable(log, ranges, patch)
        result = kfmt("salvage", directory, tmp_path / "out", *options)
    assert result.code == 3, result.err
    assert len(lost_pages) <= len(failed_reads) <= 2 * len(lost_pages)  # logs may be read twice
    assert f"kfmt: {log} bytes {lost_pages[0] * PAGE}–" in result.err
    assert ": cannot be read: Input/output error\n" in result.err
    assert "error " not in result.err  # no errors about the filler bytes
    saved = records_by_location(tmp_path / "out")
    for row in batches:
        end = row["position"] + row["batch_length"] + 12
        is_lost = any(
            row["position"] < (page + 1) * PAGE and page * PAGE < end for page in lost_pages
        )
        for offset in range(row["base_offset"], row["last_offset"] + 1):
            location = log.name, offset
            assert is_lost or saved.get(location) == expected.get(location)
    for location, record in saved.items():
        assert record == expected[location]
    for location in expected.keys() - saved.keys():
        assert location[0] == log.name
    assert kfmt("check", tmp_path / "out").code == 0


def test_salvage_of_a_log_that_has_gone_does_not_fill_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Path(shutil.copytree(BROKER / "orders-0", tmp_path / "orders-0"))
    log = directory / f"{240:020}.log"
    make_unreadable(log, [(PAGE, 2 * PAGE)], monkeypatch, errno.ESTALE)
    result = kfmt("salvage", directory, tmp_path / "out")
    assert result.code == 3
    assert not (tmp_path / "out" / log.name).exists()
    assert "0 holes" in result.out


def test_check_says_how_to_copy_what_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Path(shutil.copytree(BROKER / "orders-0", tmp_path / "disk/orders-0"))
    log = directory / f"{240:020}.log"
    make_unreadable(log, [(PAGE, 2 * PAGE), (4 * PAGE, 5 * PAGE)], monkeypatch)
    result = kfmt("check", directory.parent)
    assert (result.code, result.err.count("cannot be read")) == (3, 1)
    command = f"kfmt salvage {directory} DST   copies every undamaged batch to DST"
    assert f"next steps\n  {command}; 1 log can only be read in part\n" in result.out
    (step,) = kfmt("check", directory.parent, "--json").of("next")
    arguments = [word.replace("DST", str(tmp_path / "out")) for word in step["command"].split()[1:]]
    assert kfmt(*arguments).code == 3
    n_salvaged = kfmt("verify-crc", tmp_path / "out", "--json").of("summary")[0]["batches"]
    assert n_salvaged > kfmt("verify-crc", directory, "--json").of("summary")[0]["batches"]


def test_merge_combines_replicas_with_different_lost_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for a single log, of which no replica is complete."""
    single = tmp_path / "only/codec-zstd-0"
    shutil.copytree(BROKER / "codec-zstd-0", single)
    for source in (BROKER / "orders-0", single):
        copies = []
        for name, page in (("one", 1), ("two", 4)):
            directory = tmp_path / f"{source.name}-{name}" / source.name
            shutil.copytree(source, directory)
            make_unreadable(
                directory / f"{0:020}.log", [(page * PAGE, (page + 1) * PAGE)], monkeypatch
            )
            copies.append(directory.parent)
        result = kfmt("merge", *copies, "--to", tmp_path / f"out-{source.name}", "--json")
        message = (
            f"{source.name}: 1 log can only be read in part: the rest is merged, but not compared"
        )
        assert result.err.count(message) == 2
        (merged,) = result.of("merge")
        assert (result.code, merged["missing"]) == (3, [])
        merged_records = records_by_location(tmp_path / f"out-{source.name}")
        expected = records_by_location(source)
        assert {offset: row for (_, offset), row in merged_records.items()} == {
            offset: row for (_, offset), row in expected.items()
        }


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize(
    ("lost_page", "missing"),
    [((1440, 0), [[1440, 1479]]), ((0, 0), [[0, 39]]), ((480, 1), [[500, 559]])],
)
def test_merge_names_what_is_lost_of_a_single_replica(
    lost_page: tuple[int, int],
    missing: list[list[int]],
    is_compacted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = tmp_path / "disk/orders-0"
    shutil.copytree(BROKER / "orders-0", directory)
    if is_compacted:
        (directory.parent / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 1440\n")
    base, page = lost_page
    make_unreadable(directory / f"{base:020}.log", [(page * PAGE, (page + 1) * PAGE)], monkeypatch)
    (merged,) = kfmt("merge", directory.parent, "--to", tmp_path / "out", "--json").of("merge")
    assert merged["missing"] == missing


def test_deleted_logs_that_are_read_in_part_are_brought_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Path(shutil.copytree(BROKER / "orders-0", tmp_path / "disk/orders-0"))
    for base in (0, 240):
        for path in directory.glob(f"{base:020}.*"):
            path.rename(f"{path}.deleted")
        make_unreadable(directory / f"{base:020}.log.deleted", [(0, PAGE)], monkeypatch)
    result = kfmt("check", directory.parent)
    assert result.code == 3
    step = f"kfmt salvage --deleted {directory} DST   brings back 400 deleted records"
    assert step in result.out
    assert kfmt("salvage", "--deleted", directory, tmp_path / "out").code == 3
    offsets = kfmt("cat", tmp_path / "out", "-f", "%o\n", "--to-offset", "479").out.split()
    assert len(offsets) == 400


def test_the_lost_end_of_a_log_with_another_name_has_lost_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    for base, other_base in ((0, 240), (240, 0)):
        shutil.copy(BROKER / "orders-0" / f"{other_base:020}.log", directory / f"{base:020}.log")
    make_unreadable(directory / f"{0:020}.log", [(5 * PAGE, 9 * PAGE)], monkeypatch)
    (hole,) = kfmt("salvage", directory, tmp_path / "out", "--json").of("hole")
    assert (hole["first_offset"], hole["last_offset"]) == (380, None)


def test_a_batch_whose_offset_is_lost_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checksum does not cover it."""
    log = Path(shutil.copytree(TXN.parent, tmp_path / "txn-0")) / f"{0:020}.log"
    positions = [row["position"] for row in kfmt("dump", log, "--json").of("batch")]
    for position in positions[3:20:4]:
        for n in (1, 7, 8, 12):
            with monkeypatch.context() as patch:
                make_unreadable(log, [(position - 9, position + n)], patch)
                output = tmp_path / f"out-{position}-{n}"
                result = kfmt("salvage", log.parent, output, "--json")
                assert (result.code, "Traceback" in result.err) == (3, False)
            (hole,) = result.of("hole")
            assert hole["unread_bytes"] > n
            assert not list(output.rglob("contradicting*"))
            assert kfmt("check", output).code == 0


@pytest.mark.parametrize("lost_page", [1, 4, 7])
def test_salvage_reports_damage_beside_what_it_cannot_read(
    lost_page: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not the bytes that it reads as zeros, such as those amid garbage."""
    directory = Path(shutil.copytree(BROKER / "orders-0", tmp_path / "orders-0"))
    log = directory / f"{240:020}.log"
    batches = kfmt("dump", log, "--json").of("batch")
    lost = range(lost_page * PAGE, (lost_page + 1) * PAGE)
    data = bytearray(log.read_bytes())
    is_lost = [
        row["position"] < lost.stop and lost.start < row["position"] + row["batch_length"] + 12
        for row in batches
    ]
    for row in batches[::3]:
        data[row["position"] + 90] ^= 1
    garbage = bytes(range(200, 256)) * 250
    log.write_bytes(data + garbage)
    garbage_page = -(-(len(data) + 100) // PAGE) * PAGE
    make_unreadable(
        log, [(lost.start, lost.stop), (garbage_page, garbage_page + PAGE)], monkeypatch
    )
    result = kfmt("salvage", directory, tmp_path / "out", "--json")
    assert [(row["code"], row["position"]) for row in result.of("finding")] == [
        ("crc-mismatch", row["position"])
        for row, batch_is_lost in zip(batches[::3], is_lost[::3], strict=True)
        if not batch_is_lost
    ]


@pytest.mark.parametrize("options", [[], ["--records"]])
def test_salvage_retains_the_start_of_a_truncated_compressed_log(
    options: list[str], tmp_path: Path
) -> None:
    directory = Path(shutil.copytree(BROKER / "orders-0", tmp_path / "orders-0"))
    log = directory / f"{240:020}.log"
    expected = records_by_location(directory)
    log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes())[:2000])
    log.unlink()
    result = kfmt("salvage", directory, tmp_path / "out", *options)
    assert result.code == 3
    assert result.err.count("cannot be decompressed") == 1
    assert "1 not read" in result.out
    saved = records_by_location(tmp_path / "out")
    assert {location: expected[location] for location in saved} == saved
    n_of_log = sum(name == log.name for name, _ in saved)
    assert n_of_log > 40 if options else n_of_log == 40
