"""index-check: how many findings it shows, of which files, and what it does not check."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from tests.support.rebuild import batch_of, control_batch, record
from tests.support.samples import ORDERS, TXN, kfmt
from tests.support.segments import positions, write
from tools.kafka import SAMPLES

NAME = "00000000000000000000"
PARTITION = ORDERS.parent


def write_segment(directory: Path, log: bytes, index: bytes, times: bytes | None = None) -> Path:
    """A log with its indexes; the log's path."""
    file = write(directory, log)
    write(directory, index, f"{NAME}.index")
    if times is not None:
        write(directory, times, f"{NAME}.timeindex")
    return file


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_junk_behind_preallocated_zeros_makes_few_findings(suffix: str, tmp_path: Path) -> None:
    for file in (ORDERS, ORDERS.with_suffix(".index"), ORDERS.with_suffix(".timeindex")):
        shutil.copy(file, tmp_path)
    index = (tmp_path / ORDERS.name).with_suffix(suffix)
    n_entries = index.stat().st_size // (8 if suffix == ".index" else 12)
    with index.open("r+b") as out:
        out.truncate(240_000)
        out.seek(239_999)
        out.write(b"\x07")
    result = kfmt("index-check", tmp_path, "--json")
    assert 1 <= len(result.of("finding")) <= 8
    (run,) = [
        finding for finding in result.of("finding") if finding["code"].endswith("not-increasing")
    ]
    assert f"{n_entries}–" in run["message"]
    assert "consecutive entries" in run["message"]


def write_scattered_index(directory: Path, n: int) -> Path:
    """An index in which each second entry points between batches; its path."""
    batch = batch_of(record(b"k", b"v"), 0, 1)
    log = b"".join(struct.pack(">q", i) + batch[8:] for i in range(2 * n + 1))
    entries = [(i, i * len(batch) + i % 2) for i in range(1, 2 * n + 1)]
    write_segment(directory, log, b"".join(struct.pack(">ii", *entry) for entry in entries))
    return directory / f"{NAME}.index"


def test_findings_of_one_kind_are_capped_and_counted(tmp_path: Path) -> None:
    index = write_scattered_index(tmp_path, 300)
    result = kfmt("index-check", index, "--json")
    assert result.codes == ["index-entry-not-at-batch"] * 100
    (suppressed,) = result.of("findings_left_out")
    assert (suppressed["code"], suppressed["count"], suppressed["severity"]) == (
        result.codes[0],
        200,
        "error",
    )
    assert result.rows[-1]["errors"] == 300
    limited = kfmt("index-check", index, "--max-findings", "3")
    assert limited.out.count(": entry ") == 3
    assert "index-entry-not-at-batch ×300" in limited.out
    assert "and 297 more places" in limited.out
    assert len(kfmt("index-check", index, "--json", "--max-findings", "1000").codes) == 300


@pytest.mark.parametrize("command", ["dump", "verify-crc"])
def test_findings_of_a_log_are_capped_and_counted(command: str, tmp_path: Path) -> None:
    batch = bytearray(batch_of(record(b"k", b"v"), 0, 1))
    batch[-1] ^= 1
    log = b"".join(struct.pack(">q", i) + batch[8:] for i in range(40))
    write(tmp_path, log)
    result = kfmt(command, tmp_path, "--json", "--max-findings", "7")
    assert (result.code, result.codes) == (1, ["crc-mismatch"] * 7)
    assert [row["count"] for row in result.of("findings_left_out")] == [33]
    table = kfmt(command, tmp_path, "--max-findings", "7")
    text = table.err if command == "dump" else table.out
    assert text.count("computed") == 7
    assert ("and 33 more crc-mismatch" if command == "dump" else "and 33 more places") in text


def big_batches(sizes: list[int]) -> list[bytes]:
    """Batches of one record each, with values of these sizes."""
    batches = [batch_of(record(b"k", bytes(size)), 0, 1) for size in sizes]
    return [struct.pack(">q", i) + data[8:] for i, data in enumerate(batches)]


def test_sparse_says_what_is_counted(tmp_path: Path) -> None:
    batches = big_batches([900, 900, 900, 900, 900, 900, 3000, 900, 900, 900, 900, 900, 900])
    starts = positions(b"".join(batches))
    index = struct.pack(">ii", 3, starts[3])
    write_segment(tmp_path, b"".join(batches), index)
    arguments = (tmp_path, "--json", "--index-interval-bytes", "2000")
    (sparse,) = [
        finding
        for finding in kfmt("index-check", *arguments).of("finding")
        if finding["code"] == "index-sparse"
    ]
    longest, threshold = starts[-1] - starts[3], 2000 + len(batches[6])
    message = f"gaps of up to {longest} bytes between entries; expected at most {threshold} "
    assert message in sparse["message"]
    assert sparse["found"] == 1


@pytest.mark.parametrize("damage", ["zeros behind", "a hole", "a flipped bit"])
def test_sparse_is_not_measured_over_damage(damage: str, tmp_path: Path) -> None:
    batches = big_batches([900] * 12)
    starts = positions(b"".join(batches))
    log = bytearray(b"".join(batches))
    if damage == "zeros behind":
        log += bytes(50_000)
    elif damage == "a hole":
        log[starts[2] : starts[11]] = bytes(starts[11] - starts[2])
    else:
        log[starts[5] + 100] ^= 1
    indexed = range(1, 12, 1) if damage == "zeros behind" else (1, 11)
    write_segment(tmp_path, bytes(log), b"".join(struct.pack(">ii", i, starts[i]) for i in indexed))
    result = kfmt("index-check", tmp_path, "--json", "--index-interval-bytes", "1000")
    assert "index-sparse" not in result.codes


def copy_partition(directory: Path) -> Path:
    """A copy of a partition of seven segments; its first log."""
    for file in PARTITION.iterdir():
        shutil.copy(file, directory)
    return directory / ORDERS.name


def test_advice_for_a_time_index_depends_on_the_offset_index(tmp_path: Path) -> None:
    log = copy_partition(tmp_path)
    log.with_suffix(".timeindex").unlink()
    time_findings = kfmt("index-check", log, "--json").of("finding")
    log.with_suffix(".index").unlink()
    both_findings = kfmt("index-check", log, "--json").of("finding")
    assert [row["code"] for row in time_findings] == ["time-index-missing"]
    assert [row["code"] for row in both_findings] == ["index-missing", "time-index-missing"]
    assert "rebuilds all" in both_findings[1]["after_clean_shutdown"]
    assert time_findings[0]["advice"] is not None
    assert both_findings[1]["advice"] is None
    assert [row["severity"] for row in time_findings + both_findings] == ["error", "note", "note"]


def test_the_summary_counts_indexes_only(tmp_path: Path) -> None:
    log = copy_partition(tmp_path)
    before = kfmt("index-check", tmp_path, "--json").rows[-1]["files"]
    log.with_suffix(".timeindex").unlink()
    data = bytearray(log.read_bytes())
    data[300] ^= 1
    log.write_bytes(data)
    result = kfmt("index-check", tmp_path, "--json")
    summary = result.rows[-1]
    assert (summary["files"], summary["missing"], summary["damaged_logs"]) == (before - 1, 1, 1)
    (absent,) = [row for row in result.of("file") if row["kind"] == "time_index" and row["notes"]]
    assert absent["bytes"] is None
    last = kfmt("index-check", tmp_path).out.splitlines()[-1]
    assert last.startswith(f"{before - 1} indexes, ")
    assert "1 missing, 1 damaged log" in last
    assert "no damage" not in last


def test_a_look_up_without_an_index_says_null(tmp_path: Path) -> None:
    shutil.copy(ORDERS, tmp_path)
    log = tmp_path / ORDERS.name
    (row,) = kfmt("index-check", log, "--lookup-offset", "30", "--json").rows
    assert [item["index"] for item in row["searches"]] == [None]
    assert row["batch"]["base_offset"] == 20
    output = kfmt("index-check", log, "--lookup-timestamp", "1700000050000").out
    assert "no time index" in output
    assert "no offset index" in output


def test_a_time_index_of_no_bytes_in_a_closed_segment(tmp_path: Path) -> None:
    log = copy_partition(tmp_path)
    log.with_suffix(".timeindex").write_bytes(b"")
    last = max(tmp_path.glob("*.timeindex"))
    last.write_bytes(b"")
    result = kfmt("index-check", tmp_path, "--json")
    (finding,) = [finding for finding in result.of("finding") if finding["severity"] == "error"]
    assert (finding["code"], finding["file"]) == (
        "time-index-empty",
        str(log.with_suffix(".timeindex")),
    )
    assert "any later segment" in finding["after_clean_shutdown"]
    assert result.code == 1


def test_a_transaction_index_that_is_missing_is_an_error(tmp_path: Path) -> None:
    for file in TXN.parent.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / TXN.name).with_suffix(".txnindex").unlink()
    result = kfmt("index-check", tmp_path, "--json")
    assert (result.code, result.codes) == (1, ["transaction-index-missing"])
    assert "aborted" in result.of("finding")[0]["after_clean_shutdown"]


def test_a_log_alone_is_no_damage(tmp_path: Path) -> None:
    """Without its offset index, any start rebuilds all indexes of a segment."""
    for log in (ORDERS, TXN):
        shutil.copy(log, tmp_path)
        for command in ("check", "index-check"):
            result = kfmt(command, tmp_path / log.name, "--json")
            assert (result.code, {row["severity"] for row in result.of("finding")}) == (0, {"note"})
        assert "index-missing" in result.codes
        (tmp_path / log.name).unlink()
    for suffix in (".log", ".timeindex"):
        shutil.copy(ORDERS.with_suffix(suffix), tmp_path)
    (tmp_path / ORDERS.name).with_suffix(".timeindex").write_bytes(b"")
    (tmp_path / f"{10**6:020}.log").write_bytes(b"")
    result = kfmt("index-check", tmp_path, "--json")
    assert (result.code, result.codes) == (0, ["index-missing", "time-index-empty"])


def test_a_transaction_that_compaction_emptied_needs_no_entry(tmp_path: Path) -> None:
    marker = control_batch(struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 0), 1)
    for n_records, codes in ((1, ["transaction-index-missing"]), (0, [])):
        data = record(b"k", b"v") if n_records else b""
        write(tmp_path, batch_of(data, 0x10, n_records) + marker)
        all_codes = kfmt("index-check", tmp_path, "--json").codes
        assert [code for code in all_codes if code.startswith("transaction")] == codes


@pytest.mark.parametrize("directory", ["kafka.logs-0", "app.log-0"])
def test_findings_name_files_beside_the_log(directory: str, tmp_path: Path) -> None:
    log = tmp_path / "data.log.d" / directory / ORDERS.name
    log.parent.mkdir(parents=True)
    shutil.copy(ORDERS, log)
    result = kfmt("index-check", log, "--json")
    expected = [str(log.with_suffix(name)) for name in (".index", ".timeindex")]
    assert [finding["file"] for finding in result.of("finding")] == expected


def test_a_log_that_is_being_deleted_has_siblings_with_its_suffix(tmp_path: Path) -> None:
    log = tmp_path / f"{NAME}.log.deleted"
    shutil.copy(ORDERS, log)
    result = kfmt("index-check", log, "--json")
    assert result.of("finding")[0]["file"] == str(tmp_path / f"{NAME}.index.deleted")


def test_unchecked_files_are_counted_by_kind() -> None:
    result = kfmt("verify-crc", SAMPLES / "kafka-3.9.1-broker1/txn-0", "--json")
    directory = SAMPLES / "kafka-3.9.1-broker1/txn-0"
    unchecked = result.rows[-1]["not_looked_at"]
    assert unchecked["offset_index"] == len(list(directory.glob("*.index")))
    assert unchecked["transaction_index"] == len(list(directory.glob("*.txnindex")))
    line = kfmt("verify-crc", directory).out.splitlines()[-2]
    assert line.startswith("not checked: ")
    assert f"{unchecked['offset_index']} offset index" in line
    checked = kfmt("index-check", directory, "--json").rows[-1]["not_looked_at"]
    assert "offset_index" not in checked
    assert checked["producer_snapshot"] == len(list(directory.glob("*.snapshot")))
    assert "not_looked_at" not in kfmt("verify-crc", TXN, "--json").rows[-1]


def test_an_entry_out_of_order_is_reported_with_the_previous_one(tmp_path: Path) -> None:
    batch = batch_of(record(b"k", b"v"), 0, 1)
    log = b"".join(struct.pack(">q", i) + batch[8:] for i in range(5))
    entries = [(1, len(batch)), (3, 3 * len(batch)), (2, 2 * len(batch)), (4, 4 * len(batch))]
    write_segment(tmp_path, log, b"".join(struct.pack(">ii", *entry) for entry in entries))
    (finding,) = kfmt("index-check", tmp_path, "--json").of("finding")[:1]
    assert finding["code"] == "index-entries-not-increasing"
    step = 3 * len(batch)
    message = (
        f"entry 2: offset 2, log position {step - len(batch)}, after offset 3, log position {step}"
    )
    assert finding["message"] == message


def test_an_aborted_transaction_ends_at_its_marker(tmp_path: Path) -> None:
    for file in TXN.parent.glob(f"{TXN.stem}.*"):
        shutil.copy(file, tmp_path)
    index = tmp_path / f"{TXN.stem}.txnindex"
    data = index.read_bytes()
    version, producer, first, last, stable = struct.unpack_from(">hqqqq", data)
    assert kfmt("index-check", tmp_path, "--json").codes == []
    index.write_bytes(struct.pack(">hqqqq", version, producer, first, last - 1, stable) + data[34:])
    result = kfmt("index-check", tmp_path, "--json")
    assert result.codes == ["transaction-index-not-a-marker", "transaction-index-entry-missing"]
    assert result.of("finding")[0]["found"] == last - 1
