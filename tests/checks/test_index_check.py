"""index-check: no healthy index has findings, and each broken one has."""

from __future__ import annotations

import shutil
import struct
from functools import cache
from pathlib import Path

import pytest

from kfmt_cli.checks.index.checker import IndexChecker
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.input_paths import resolve_path
from kfmt_cli.findings.finding import Finding, Severity
from kfmt_cli.log.block import split_runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.log_opening import open_log
from tests.support.broken_indexes import (
    OFFSET_BREAKS,
    TIME_BREAKS,
    Entries,
    Segment,
    pack_entries,
    unpack_entries,
)
from tests.support.samples import ORDERS, TXN, kfmt, sample_name
from tools.kafka import SAMPLES

# The live samples lack the preallocated indexes of the active segment: 10 MiB of zeros.
LIVE = SAMPLES / "kafka-3.9.1-live"
PARTITIONS = sorted({path.parent for path in SAMPLES.rglob("*index") if LIVE not in path.parents})
INDEXED = sorted(
    path
    for path in SAMPLES.rglob("*.index")
    if path.stat().st_size and path.with_suffix(".log").exists() and path.stat().st_size < 1 << 20
)
# Not all have time indexes: magic 0 has no timestamps.
TIMED = [
    index
    for index in INDEXED
    if (times := index.with_suffix(".timeindex")).exists() and times.stat().st_size
]
OFFSET, TIME = ">ii", ">qi"


def index_findings(path: Path) -> list[Finding]:
    """All findings of the segments below a path."""
    checker = IndexChecker(DecompressionLimit())
    return [
        finding
        for segment in resolve_path(str(path)).iter_segments()
        for result in checker.iter_results(segment, lambda _: None)
        for finding in result.findings
    ]


def error_codes(path: Path) -> set[str]:
    """The codes of all errors."""
    return {
        finding.code.name
        for finding in index_findings(path)
        if finding.code.severity is Severity.ERROR
    }


@cache
def segment_facts(log: Path) -> Segment:
    """The batches that kfmt reads from the log; a wrapper has its first inner offset."""
    batches = []
    names = ("position", "size", "base_offset", "last_offset", "max_timestamp", "has_timestamp")
    with open_log(classify_file(str(log), log.name), read_ahead=False) as opened:
        for block in opened.blocks:
            for run in split_runs(block):
                read_records(run, DecompressionLimit())
                columns = [run.batches[name].tolist() for name in names]
                for *fields, time, has_time in zip(*columns, strict=True):
                    batches.append((*fields, time if has_time else -1))
    return Segment(log.stat().st_size, batches, int(log.name[:20]))


@pytest.mark.parametrize("directory", PARTITIONS, ids=sample_name)
def test_no_index_of_a_real_broker_is_accused(directory: Path) -> None:
    assert not [
        finding
        for finding in index_findings(directory)
        if finding.code.severity is not Severity.NOTE
    ]


def test_all_of_a_broker_at_once() -> None:
    result = kfmt("index-check", SAMPLES / "kafka-3.9.1-broker2", "--strict")
    assert result.code == 0
    assert "no damage" in result.out.splitlines()[-1]
    result = kfmt("index-check", SAMPLES / "kafka-2.8.2", "--json", "--strict")
    summary = result.rows[-1]
    assert (summary["type"], summary["errors"], summary["warnings"]) == ("summary", 0, 0)


def test_the_indexes_of_a_live_broker_are_preallocated(tmp_path: Path) -> None:
    shutil.copytree(LIVE, tmp_path / "live")
    for name in ("orders-0/00000000000000001440", "txn-0/00000000000000000635"):
        for suffix, size in ((".index", 10_485_760), (".timeindex", 10_485_756)):
            with (tmp_path / "live" / (name + suffix)).open("wb") as out:
                out.truncate(size)
    result = kfmt("index-check", tmp_path / "live", "--json", "--strict")
    assert result.code == 0
    assert [code for code in result.codes if code.startswith("index-pre")] == [
        "index-preallocated"
    ] * 4


@pytest.mark.parametrize("index", INDEXED, ids=sample_name)
def test_each_rule_is_checked_in_each_offset_index(index: Path, tmp_path: Path) -> None:
    log = index.with_suffix(".log")
    shutil.copy(log, tmp_path)
    entries = unpack_entries(index.read_bytes(), OFFSET)
    (tmp_path / index.name).write_bytes(pack_entries(entries, OFFSET))
    copy = tmp_path / log.name
    check_each_break(tmp_path / index.name, copy, entries, OFFSET)


@pytest.mark.parametrize("index", TIMED, ids=sample_name)
def test_each_rule_is_checked_in_each_time_index(index: Path, tmp_path: Path) -> None:
    log, times = index.with_suffix(".log"), index.with_suffix(".timeindex")
    shutil.copy(log, tmp_path)
    shutil.copy(index, tmp_path)
    entries = unpack_entries(times.read_bytes(), TIME)
    check_each_break(tmp_path / times.name, tmp_path / log.name, entries, TIME)


def check_each_break(index: Path, log: Path, entries: Entries, entry_format: str) -> None:
    """Break an index in each way that its entries allow."""
    applied = 0
    for name, (change, code) in (OFFSET_BREAKS if entry_format == OFFSET else TIME_BREAKS).items():
        changed = change(entries, segment_facts(log))
        if changed is None:
            continue
        index.write_bytes(pack_entries(changed, entry_format))
        assert code in error_codes(index), name
        applied += 1
    assert applied >= 3
    prefix = "index" if entry_format == OFFSET else "time-index"
    index.write_bytes(pack_entries(entries, entry_format) + b"\0\1\2")
    assert error_codes(index) == {f"{prefix}-trailing-bytes"}
    index.write_bytes(pack_entries(entries, entry_format) + bytes(12 * 8))
    assert error_codes(index) == set()
    later = log.with_name(f"{int(log.name[:20]) + 10**6:020}.log")
    later.write_bytes(b"")
    assert error_codes(index) == {f"{prefix}-zero-tail"}
    later.unlink()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_is_missing(suffix: str, tmp_path: Path) -> None:
    for file in ORDERS.parent.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / ORDERS.name).with_suffix(suffix).unlink()
    exit_code = int(suffix == ".timeindex")  # without an offset index, any start rebuilds it
    result = kfmt("index-check", tmp_path, "--json")
    assert result.code == exit_code
    (finding,) = result.of("finding")
    assert finding["code"] == ("time-index-missing" if exit_code else "index-missing")
    assert finding["file"] == str(tmp_path / ORDERS.with_suffix(suffix).name)
    assert kfmt("index-check", tmp_path / ORDERS.name, "--json").code == exit_code


def test_an_index_without_a_log(tmp_path: Path) -> None:
    shutil.copy(ORDERS.with_suffix(".index"), tmp_path)
    result = kfmt("index-check", tmp_path, "--json")
    assert (result.code, result.codes) == (0, ["index-without-log"])
    assert kfmt("index-check", tmp_path, "--strict").code == 1


def test_an_index_of_a_damaged_log_is_not_accused(tmp_path: Path) -> None:
    for suffix in (".index", ".timeindex"):
        shutil.copy(ORDERS.with_suffix(suffix), tmp_path)
    data = ORDERS.read_bytes()
    for size in (len(data) - 100, 20_000, 5_000):
        (tmp_path / ORDERS.name).write_bytes(data[:size])
        result = kfmt("index-check", tmp_path, "--json")
        errors = [finding for finding in result.of("finding") if finding["severity"] == "error"]
        truncated = [error for error in errors if error["code"] == "batch-truncated"]
        assert len(truncated) == 1
        other_codes = {error["code"] for error in errors} - {"batch-truncated"}
        assert other_codes <= {"index-position-out-of-log"}  # after the end of the file


def test_a_transaction_index_is_compared_with_the_markers(tmp_path: Path) -> None:
    for file in TXN.parent.iterdir():
        shutil.copy(file, tmp_path)
    index = tmp_path / TXN.with_suffix(".txnindex").name
    data = index.read_bytes()
    assert error_codes(index) == set()
    for position, code in (
        (1, "transaction-index-version"),
        (9, "transaction-index-not-a-marker"),
        (25, "transaction-index-not-a-marker"),
    ):
        index.write_bytes(data[:position] + bytes([data[position] ^ 3]) + data[position + 1 :])
        assert code in error_codes(index)
    index.write_bytes(data[34:68] + data[:34] + data[68:])
    assert error_codes(index) == {"transaction-index-entries-not-increasing"}
    index.write_bytes(data[:-1])
    truncated_codes = {"transaction-index-trailing-bytes", "transaction-index-entry-missing"}
    assert error_codes(index) == truncated_codes
    index.write_bytes(data[34:])
    (missing,) = index_findings(index)
    assert missing.code.name == "transaction-index-entry-missing"
    assert missing.code.severity is Severity.ERROR
    index.write_bytes(b"")
    assert len(index_findings(index)) == len(data) // 34
    index.unlink()
    (absent,) = [
        finding
        for finding in index_findings(tmp_path / TXN.name)
        if finding.code.severity is Severity.ERROR
    ]
    assert absent.code.name == "transaction-index-missing"
    assert absent.message.startswith(f"{len(data) // 34} aborted transactions in the log;")


def test_findings_name_the_entry_and_its_consequences(tmp_path: Path) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(ORDERS.with_suffix(suffix), tmp_path)
    index = tmp_path / ORDERS.with_suffix(".index").name
    data = bytearray(index.read_bytes())
    data[23] ^= 1  # the position of entry 2
    index.write_bytes(data)
    result = kfmt("index-check", index, "--json")
    assert result.code == 1
    finding = result.of("finding")[0]
    assert finding["code"] == "index-entry-not-at-batch"
    assert (finding["position"], finding["severity"]) == (16, "error")
    assert "entry 2" in finding["message"]
    assert "rebuild-index" in finding["advice"]
    table = kfmt("index-check", index)
    assert "1 error" in table.out
    assert "index-entry-not-at-batch" in table.out


@pytest.mark.parametrize("offset", [0, 39, 40, 239, 100_000])
def test_a_look_up_finds_the_batch_that_a_scan_finds(offset: int) -> None:
    (row,) = kfmt("index-check", ORDERS, "--lookup-offset", str(offset), "--json").rows
    batches = kfmt("dump", ORDERS, "--json").rows
    candidates = [batch for batch in batches if batch["last_offset"] >= offset]
    if not candidates:
        assert row["batch"] is None
        return
    assert row["batch"]["position"] == candidates[0]["position"]
    assert row["scan_from"] <= candidates[0]["position"]


@pytest.mark.parametrize("timestamp", [0, 1_700_000_050_000, 1_700_000_198_196, 1 << 50])
def test_a_look_up_by_time(timestamp: int) -> None:
    (row,) = kfmt("index-check", ORDERS, "--lookup-timestamp", str(timestamp), "--json").rows
    batches = kfmt("dump", ORDERS, "--json").rows
    newer = [batch for batch in batches if batch["max_timestamp"] >= timestamp]
    assert (row["batch"] or {}).get("position") == (newer[0]["position"] if newer else None)
    table = kfmt("index-check", ORDERS, "--lookup-timestamp", str(timestamp))
    last = table.out.splitlines()[-1].split()
    assert last[:2] == (["found", "byte"] if newer else ["not", "found:"])


@pytest.mark.parametrize("option", ["--lookup-offset", "--lookup-timestamp"])
def test_a_look_up_needs_a_log(option: str, tmp_path: Path) -> None:
    index = tmp_path / ORDERS.with_suffix(".index").name
    shutil.copy(ORDERS.with_suffix(".index"), index)
    for path in (tmp_path, index):
        result = kfmt("index-check", path, option, "3")
        assert (result.code, result.out) == (3, "")
        assert result.err == f"kfmt: {path}: no log to search\n"


@pytest.mark.parametrize(
    ("offset", "low", "high"), [(975, 0, 975), (976, 0, 975), (977, 975, 1999)]
)
def test_a_look_up_tries_the_end_of_an_index_first(
    offset: int, low: int, high: int, tmp_path: Path
) -> None:
    """The last 1,024 of 2,000 entries are 8 KiB: a broker searches them if the entry before them,
    976 at number 975, is below the offset."""
    shutil.copy(ORDERS, tmp_path)
    entries = b"".join(struct.pack(">ii", i + 1, 0) for i in range(2000))
    (tmp_path / ORDERS.with_suffix(".index").name).write_bytes(entries)
    (row,) = kfmt("index-check", tmp_path, "--lookup-offset", str(offset), "--json").rows
    (search,) = row["searches"]
    first = search["steps"][0]
    assert (first["low"], first["high"], search["entry"]) == (low, high, offset - 1)


def test_a_look_up_chooses_the_segment() -> None:
    (row,) = kfmt("index-check", ORDERS.parent, "--lookup-offset", "500", "--json").rows
    assert row["file"] == str(ORDERS.parent / "00000000000000000480.log")
    assert row["batch"]["base_offset"] <= 500 <= row["batch"]["last_offset"]
