"""index-check: how much it says, of what it says it, and what it does not look at."""

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


def segment(folder: Path, log: bytes, index: bytes, times: bytes | None = None) -> Path:
    """A log with its indexes; the log's path."""
    file = write(folder, log)
    write(folder, index, f"{NAME}.index")
    if times is not None:
        write(folder, times, f"{NAME}.timeindex")
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
    done = kfmt("index-check", tmp_path, "--json")
    assert 1 <= len(done.of("finding")) <= 8
    (run,) = [
        finding for finding in done.of("finding") if finding["code"].endswith("not-increasing")
    ]
    assert f"{n_entries}–" in run["message"]
    assert "consecutive entries" in run["message"]


def scattered(folder: Path, n: int) -> Path:
    """An index in which each second entry points between batches; its path."""
    batch = batch_of(record(b"k", b"v"), 0, 1)
    log = b"".join(struct.pack(">q", i) + batch[8:] for i in range(2 * n + 1))
    entries = [(i, i * len(batch) + i % 2) for i in range(1, 2 * n + 1)]
    segment(folder, log, b"".join(struct.pack(">ii", *entry) for entry in entries))
    return folder / f"{NAME}.index"


def test_findings_of_one_kind_are_capped_and_counted(tmp_path: Path) -> None:
    index = scattered(tmp_path, 300)
    done = kfmt("index-check", index, "--json")
    assert done.codes == ["index-entry-not-at-batch"] * 100
    (rest,) = done.of("findings_left_out")
    assert (rest["code"], rest["count"], rest["severity"]) == (done.codes[0], 200, "error")
    assert done.rows[-1]["errors"] == 300
    few = kfmt("index-check", index, "--max-findings", "3")
    assert few.out.count(": entry ") == 3
    assert "index-entry-not-at-batch ×300" in few.out
    assert "and 297 more places" in few.out
    assert len(kfmt("index-check", index, "--json", "--max-findings", "1000").codes) == 300


@pytest.mark.parametrize("command", ["dump", "verify-crc"])
def test_findings_of_a_log_are_capped_and_counted(command: str, tmp_path: Path) -> None:
    batch = bytearray(batch_of(record(b"k", b"v"), 0, 1))
    batch[-1] ^= 1
    log = b"".join(struct.pack(">q", i) + batch[8:] for i in range(40))
    write(tmp_path, log)
    done = kfmt(command, tmp_path, "--json", "--max-findings", "7")
    assert (done.code, done.codes) == (1, ["crc-mismatch"] * 7)
    assert [row["count"] for row in done.of("findings_left_out")] == [33]
    table = kfmt(command, tmp_path, "--max-findings", "7")
    text = table.err if command == "dump" else table.out
    assert text.count("computed") == 7
    assert ("and 33 more crc-mismatch" if command == "dump" else "and 33 more places") in text


def big_batches(sizes: list[int]) -> list[bytes]:
    """Batches of one record each, with values of these sizes."""
    made = [batch_of(record(b"k", bytes(size)), 0, 1) for size in sizes]
    return [struct.pack(">q", i) + data[8:] for i, data in enumerate(made)]


def test_sparse_says_what_is_counted(tmp_path: Path) -> None:
    batches = big_batches([900, 900, 900, 900, 900, 900, 3000, 900, 900, 900, 900, 900, 900])
    at = positions(b"".join(batches))
    index = struct.pack(">ii", 3, at[3])
    segment(tmp_path, b"".join(batches), index)
    arguments = (tmp_path, "--json", "--index-interval-bytes", "2000")
    (sparse,) = [
        finding
        for finding in kfmt("index-check", *arguments).of("finding")
        if finding["code"] == "index-sparse"
    ]
    longest, threshold = at[-1] - at[3], 2000 + len(batches[6])
    words = f"gaps of up to {longest} bytes between entries; expected at most {threshold} "
    assert words in sparse["message"]
    assert sparse["found"] == 1


@pytest.mark.parametrize("harm", ["zeros behind", "a hole", "a flipped bit"])
def test_sparse_is_not_measured_over_damage(harm: str, tmp_path: Path) -> None:
    batches = big_batches([900] * 12)
    at = positions(b"".join(batches))
    log = bytearray(b"".join(batches))
    if harm == "zeros behind":
        log += bytes(50_000)
    elif harm == "a hole":
        log[at[2] : at[11]] = bytes(at[11] - at[2])
    else:
        log[at[5] + 100] ^= 1
    indexed = range(1, 12, 1) if harm == "zeros behind" else (1, 11)
    segment(tmp_path, bytes(log), b"".join(struct.pack(">ii", i, at[i]) for i in indexed))
    done = kfmt("index-check", tmp_path, "--json", "--index-interval-bytes", "1000")
    assert "index-sparse" not in done.codes


def copied(folder: Path) -> Path:
    """A copy of a partition of seven segments; its first log."""
    for file in PARTITION.iterdir():
        shutil.copy(file, folder)
    return folder / ORDERS.name


def test_advice_for_a_time_index_depends_on_the_offset_index(tmp_path: Path) -> None:
    log = copied(tmp_path)
    log.with_suffix(".timeindex").unlink()
    alone = kfmt("index-check", log, "--json").of("finding")
    log.with_suffix(".index").unlink()
    both = kfmt("index-check", log, "--json").of("finding")
    assert [row["code"] for row in alone] == ["time-index-missing"]
    assert [row["code"] for row in both] == ["index-missing", "time-index-missing"]
    assert "rebuilds both" in both[1]["after_clean_shutdown"]
    assert alone[0]["advice"] is not None
    assert both[1]["advice"] is None


def test_the_summary_counts_indexes_only(tmp_path: Path) -> None:
    log = copied(tmp_path)
    before = kfmt("index-check", tmp_path, "--json").rows[-1]["files"]
    log.with_suffix(".timeindex").unlink()
    data = bytearray(log.read_bytes())
    data[300] ^= 1
    log.write_bytes(data)
    done = kfmt("index-check", tmp_path, "--json")
    summary = done.rows[-1]
    assert (summary["files"], summary["missing"], summary["damaged_logs"]) == (before - 1, 1, 1)
    (absent,) = [row for row in done.of("file") if row["kind"] == "time_index" and row["notes"]]
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
    shown = kfmt("index-check", log, "--lookup-timestamp", "1700000050000").out
    assert "no time index" in shown
    assert "no offset index" in shown


def test_a_time_index_of_no_bytes_in_a_closed_segment(tmp_path: Path) -> None:
    log = copied(tmp_path)
    log.with_suffix(".timeindex").write_bytes(b"")
    last = max(tmp_path.glob("*.timeindex"))
    last.write_bytes(b"")
    done = kfmt("index-check", tmp_path, "--json")
    (finding,) = [finding for finding in done.of("finding") if finding["severity"] == "error"]
    assert (finding["code"], finding["file"]) == (
        "time-index-empty",
        str(log.with_suffix(".timeindex")),
    )
    assert "any later segment" in finding["after_clean_shutdown"]
    assert done.code == 1


def test_a_transaction_index_that_is_missing_is_an_error(tmp_path: Path) -> None:
    for file in TXN.parent.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / TXN.name).with_suffix(".txnindex").unlink()
    done = kfmt("index-check", tmp_path, "--json")
    assert (done.code, done.codes) == (1, ["transaction-index-missing"])
    assert "aborted" in done.of("finding")[0]["after_clean_shutdown"]


def test_a_transaction_that_compaction_emptied_needs_no_entry(tmp_path: Path) -> None:
    marker = control_batch(struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 0), 1)
    for held, codes in ((1, ["transaction-index-missing"]), (0, [])):
        data = record(b"k", b"v") if held else b""
        write(tmp_path, batch_of(data, 0x10, held) + marker)
        found = kfmt("index-check", tmp_path, "--json").codes
        assert [text for text in found if text.startswith("transaction")] == codes


@pytest.mark.parametrize("folder", ["kafka.logs-0", "app.log-0"])
def test_findings_name_files_beside_the_log(folder: str, tmp_path: Path) -> None:
    log = tmp_path / "data.log.d" / folder / ORDERS.name
    log.parent.mkdir(parents=True)
    shutil.copy(ORDERS, log)
    done = kfmt("index-check", log, "--json")
    expected = [str(log.with_suffix(name)) for name in (".index", ".timeindex")]
    assert [finding["file"] for finding in done.of("finding")] == expected


def test_a_log_that_is_being_deleted_has_siblings_with_its_suffix(tmp_path: Path) -> None:
    log = tmp_path / f"{NAME}.log.deleted"
    shutil.copy(ORDERS, log)
    done = kfmt("index-check", log, "--json")
    assert done.of("finding")[0]["file"] == str(tmp_path / f"{NAME}.index.deleted")


def test_what_was_not_looked_at_is_counted_by_kind() -> None:
    done = kfmt("verify-crc", SAMPLES / "kafka-3.9.1-broker1/txn-0", "--json")
    folder = SAMPLES / "kafka-3.9.1-broker1/txn-0"
    passed = done.rows[-1]["not_looked_at"]
    assert passed["offset_index"] == len(list(folder.glob("*.index")))
    assert passed["transaction_index"] == len(list(folder.glob("*.txnindex")))
    line = kfmt("verify-crc", folder).out.splitlines()[-2]
    assert line.startswith("not checked: ")
    assert f"{passed['offset_index']} offset index" in line
    checked = kfmt("index-check", folder, "--json").rows[-1]["not_looked_at"]
    assert "offset_index" not in checked
    assert checked["producer_snapshot"] == len(list(folder.glob("*.snapshot")))
    assert "not_looked_at" not in kfmt("verify-crc", TXN, "--json").rows[-1]


def test_an_entry_out_of_order_is_told_with_the_one_before(tmp_path: Path) -> None:
    one = batch_of(record(b"k", b"v"), 0, 1)
    log = b"".join(struct.pack(">q", i) + one[8:] for i in range(5))
    entries = [(1, len(one)), (3, 3 * len(one)), (2, 2 * len(one)), (4, 4 * len(one))]
    segment(tmp_path, log, b"".join(struct.pack(">ii", *entry) for entry in entries))
    (found,) = kfmt("index-check", tmp_path, "--json").of("finding")[:1]
    assert found["code"] == "index-entries-not-increasing"
    step = 3 * len(one)
    words = (
        f"entry 2: offset 2, log position {step - len(one)}, after offset 3, log position {step}"
    )
    assert found["message"] == words


def test_an_aborted_transaction_ends_at_its_marker(tmp_path: Path) -> None:
    for file in TXN.parent.glob(f"{TXN.stem}.*"):
        shutil.copy(file, tmp_path)
    index = tmp_path / f"{TXN.stem}.txnindex"
    data = index.read_bytes()
    version, producer, first, last, stable = struct.unpack_from(">hqqqq", data)
    assert kfmt("index-check", tmp_path, "--json").codes == []
    index.write_bytes(struct.pack(">hqqqq", version, producer, first, last - 1, stable) + data[34:])
    done = kfmt("index-check", tmp_path, "--json")
    assert done.codes == ["transaction-index-not-a-marker", "transaction-index-entry-missing"]
    assert done.of("finding")[0]["found"] == last - 1
