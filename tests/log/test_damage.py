"""Each kind of damage has its code and its location, and costs nothing but itself."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from kfmt_cli.core.table import Table
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.log.damage import search
from kfmt_cli.log.reader import LogReader
from tests.support.rebuild import batch_of, compressed_batch, control_batch, record, with_crc
from tests.support.samples import NOWHERE, ORDERS, TXN, UPGRADED, Row, kfmt
from tests.support.segments import DAMAGES, GARBAGE, NAME, int32, positions, with_bytes, write
from tools.kafka import SAMPLES


def record_contents(rows: list[Row]) -> list[tuple[int, str | None, str | None]]:
    return [(r["offset"], r["key"], r["value"]) for r in rows if r["type"] == "record"]


@pytest.fixture(scope="module")
def all_records() -> list[tuple[int, str | None, str | None]]:
    return record_contents(kfmt("dump", ORDERS, "--records", "--json").rows)


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("batch", [0, 3, 11])
def test_damage_has_its_code_and_place_and_all_else_is_shown(
    name: str, batch: int, tmp_path: Path, all_records: list[tuple[int, str | None, str | None]]
) -> None:
    if name == "an offset from before" and batch == 0:
        batch = 1
    if name == "a length that ends inside the next batch" and batch == 11:
        batch = 10
    damage, code, is_readable = DAMAGES[name]
    data = ORDERS.read_bytes()
    starts = positions(data)
    start, end = starts[batch], starts[batch + 1]
    file = write(tmp_path, damage(data, start, end))
    result = kfmt("dump", file, "--records", "--json")
    assert result.code == 1
    assert result.codes[0] == code
    assert result.of("finding")[0]["position"] == start
    records = {(r["offset"], r["key"], r["value"]) for r in result.of("record")}
    damaged_records = set(all_records[batch * 20 : batch * 20 + 20])
    assert set(all_records) - damaged_records <= records
    if is_readable and "offset" not in name and "bit" not in name:
        assert record_contents(result.rows) == all_records


@pytest.mark.parametrize(
    ("length", "code"),
    [
        (-1, "batch-length-negative"),
        (0, "batch-length-too-small"),
        (48, "batch-length-too-small"),
        (49, "batch-length-too-small"),
    ],
)
def test_a_length_of_zero_is_too_small_and_one_below_it_negative(
    length: int, code: str, tmp_path: Path
) -> None:
    data = ORDERS.read_bytes()
    start, end = positions(data)[3:5]
    result = kfmt(
        "verify-crc", write(tmp_path, with_bytes(data, start + 8, int32(length))), "--json"
    )
    (finding,) = result.of("finding")
    assert (finding["code"], finding["position"]) == (code, start)
    assert (finding["found"], finding["expected"]) == (length, end - start - 12)


@pytest.mark.parametrize("length", [1, 150])
def test_a_message_with_a_wrong_length_is_reported_where_it_is(length: int, tmp_path: Path) -> None:
    data = (SAMPLES / "kafka-2.8.2/v0-none-0" / ORDERS.name).read_bytes()
    start = positions(data)[5]
    file = write(tmp_path, with_bytes(data, start + 8, int32(length)))
    result = kfmt("verify-crc", "--deep", file, "--json")
    assert all(start <= row["position"] < positions(data)[6] for row in result.of("finding"))


def test_a_length_is_mended_only_where_the_checksum_proves_another(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    start, end = positions(data)[3:5]
    correct_length = end - start - 12
    lengths = {-5: "negative", -1: "negative", 0: "too-small", 10: "too-small"}
    for length, code in {**lengths, correct_length + 500: "too-big"}.items():
        damaged = with_bytes(data, start + 8, int32(length))
        prefix = f"the batch at byte {start} declares a length of {length} bytes"
        for log, is_proven in ((damaged, True), (with_bytes(damaged, start + 100, b"zzzz"), False)):
            result = kfmt("verify-crc", write(tmp_path, log), "--json")
            (finding,) = result.of("finding")
            assert finding["code"] == f"batch-length-{code}"
            evidence = (
                f"; its checksum matches for {correct_length}"
                if is_proven
                else f"{end - start} bytes skipped"
            )
            assert finding["message"].startswith(prefix)
            assert evidence in finding["message"]
            assert ("its checksum matches" in finding["message"]) is is_proven
            assert (finding["expected"] == correct_length) is is_proven
            assert result.of("file")[0]["batches"] == 11 + is_proven


def test_a_file_that_ends_inside_a_batch(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    start = positions(data)[3]
    for n_bytes in (1, 10, 16, 17, 60, 61, 500):
        result = kfmt("verify-crc", write(tmp_path, data[: start + n_bytes]), "--json")
        assert (result.code, result.codes) == (1, ["batch-truncated"])
        assert result.of("finding")[0]["position"] == start
        assert result.of("file")[0]["batches"] == 3


@pytest.mark.parametrize("n_bytes", [16, 17])
def test_a_torn_batch_says_its_offset_and_size_once_its_magic_is_there(
    n_bytes: int, tmp_path: Path
) -> None:
    data = ORDERS.read_bytes()
    start, end = positions(data)[3:5]
    (finding,) = kfmt("verify-crc", write(tmp_path, data[: start + n_bytes]), "--json").of(
        "finding"
    )
    expected = (60, end - start) if n_bytes == 17 else (None, None)
    assert (finding["offset"], finding["expected"], finding["found"]) == (*expected, n_bytes)


def test_a_file_that_ends_with_a_magic_is_judged_by_it(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    start = positions(data)[3]
    file = write(tmp_path, with_bytes(data[: start + 17], start + 16, b"\x07"))
    (finding,) = kfmt("verify-crc", file, "--json").of("finding")
    assert (finding["code"], finding["position"], finding["found"]) == ("magic-unknown", start, 7)
    data = (SAMPLES / "kafka-2.8.2/v0-none-0" / ORDERS.name).read_bytes()
    start = positions(data)[3]
    file = write(tmp_path, with_bytes(data[: start + 17], start + 8, int32(13)))
    (finding,) = kfmt("verify-crc", file, "--json").of("finding")
    assert (finding["code"], finding["position"]) == ("batch-length-too-small", start)
    assert finding["expected"] == "at least 14"


@pytest.mark.parametrize("n", [12, 17, 100, 5_000_000])
def test_a_zero_tail(tmp_path: Path, n: int) -> None:
    data = ORDERS.read_bytes()
    result = kfmt("verify-crc", write(tmp_path, data + bytes(n)), "--json")
    assert (result.code, result.codes) == (1, ["zero-tail"])
    assert result.of("finding")[0]["position"] == len(data)
    assert result.of("finding")[0]["found"] == n
    assert result.of("file")[0]["batches"] == 12


def test_a_tail_of_garbage_says_how_much_was_skipped(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    result = kfmt("verify-crc", write(tmp_path, data + GARBAGE), "--json")
    finding = result.of("finding")[0]
    assert (finding["code"], finding["position"]) == ("garbage", len(data))
    assert f"{len(GARBAGE)} bytes skipped" in finding["message"]


def test_two_damaged_batches_side_by_side_are_two_findings(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    starts = positions(data)
    for batch in (3, 4, 11):
        data = with_bytes(data, starts[batch] + 100, b"zzzz")
    result = kfmt("verify-crc", write(tmp_path, data), "--json")
    assert result.codes == ["crc-mismatch"] * 3
    assert [row["position"] for row in result.of("finding")] == [starts[i] for i in (3, 4, 11)]
    assert result.of("file")[0]["batches"] == 12


def test_a_batch_inside_a_damaged_batch_is_not_taken_for_one_of_the_log(tmp_path: Path) -> None:
    """A record may contain a Kafka batch; damage around it must not turn it into one of the log."""
    data = ORDERS.read_bytes()
    starts = positions(data)
    inner = data[: starts[1]]
    outer = batch_of(record(b"k", inner + b"tail"), 0, 1, 20)
    outer = with_bytes(outer, 17, b"zzzz")  # a wrong checksum
    end = batch_of(record(b"k", b"v"), 0, 1, 21)
    result = kfmt("verify-crc", write(tmp_path, inner + outer + end), "--json")
    assert result.codes == ["crc-mismatch"]
    assert result.of("file")[0]["batches"] == 3


def test_stored_and_computed_checksum_are_shown(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    result = kfmt("dump", write(tmp_path, with_bytes(data, 17, b"\0\0\0\0")), "--json")
    batch = result.of("batch")[0]
    stored = int.from_bytes(data[17:21], "big")
    assert (batch["crc"], batch["crc_valid"], batch["crc_computed"]) == (0, False, stored)
    finding = result.of("finding")[0]
    assert (finding["found"], finding["expected"]) == ("00000000", f"{stored:08x}")
    assert "crc_computed" not in result.of("batch")[1]


def test_older_messages_too(tmp_path: Path) -> None:
    data = UPGRADED.read_bytes()
    starts = positions(data)
    for i in (1, 5, 40):
        result = kfmt(
            "verify-crc", write(tmp_path, with_bytes(data, starts[i] + 30, b"\xee")), "--json"
        )
        assert "crc-mismatch" in result.codes
        assert result.of("file")[0]["batches"] == len(starts) - 1


def test_an_unknown_codec(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    end = positions(data)[1]
    batch = with_crc(with_bytes(data[:end], 22, b"\x07"))
    for deep in ([], ["--deep"]):
        result = kfmt("verify-crc", write(tmp_path, batch + data[end:]), "--json", *deep)
        assert (result.code, result.codes) == (1, ["codec-unknown"])


def test_a_codec_that_its_magic_does_not_allow(tmp_path: Path) -> None:
    message = bytearray(UPGRADED.read_bytes()[: positions(UPGRADED.read_bytes())[1]])
    assert message[16] < 2
    message[17] = 4
    message[12:16] = zlib.crc32(message[16:]).to_bytes(4, "big")
    (finding,) = kfmt("verify-crc", write(tmp_path, bytes(message)), "--json").of("finding")
    assert finding["code"] == "codec-unknown"
    text = f"has codec 4, zstd, which magic {message[16]} does not allow"
    assert text in finding["message"]


def test_a_count_that_does_not_match(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    end = positions(data)[1]
    for count in (0, 19, 21, (1 << 31) - 1):
        batch = with_crc(with_bytes(data[:end], 57, int32(count)))
        result = kfmt("verify-crc", "--deep", write(tmp_path, batch + data[end:]), "--json")
        assert (result.code, result.codes) == (1, ["records-count-mismatch"])
        finding = result.of("finding")[0]
        assert (finding["expected"], finding["found"]) == (
            (count, 20) if count <= 20 else ("0–20", count)
        )
        if count > 20:  # found without reading the records
            assert kfmt("verify-crc", tmp_path, "--json").codes == ["records-count-mismatch"]


def test_a_record_that_does_not_fit_keeps_those_before_it(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    end = positions(data)[1]
    batch = with_crc(with_bytes(data[:end], 61 + 53, b"\xff\xff\xff\xff\x07"))
    result = kfmt("dump", "--records", write(tmp_path, batch + data[end:]), "--json")
    assert (result.code, result.codes) == (1, ["record-malformed"])
    finding = result.of("finding")[0]
    assert finding["position"] == 61 + 53
    assert "record 1 › length" in finding["message"]
    assert [row["offset"] for row in result.of("record")] == [0, *range(20, 240)]


def test_offsets_and_timestamps_that_contradict_the_header(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    end = positions(data)[1]
    for position, new, code in (
        (23, int32(5), "record-offset-out-of-batch"),
        (35, bytes(8), "max-timestamp-mismatch"),
    ):
        batch = with_crc(with_bytes(data[:end], position, new))
        result = kfmt("verify-crc", "--deep", write(tmp_path, batch), "--json")
        assert result.codes[-1] == code
        assert result.code == (code == "record-offset-out-of-batch")
    assert kfmt("verify-crc", "--deep", "--strict", tmp_path, "--json").code == 1


@pytest.mark.parametrize(
    ("offsets", "previous_delta", "delta", "suffix"),
    [
        ([0, 1, 1, 4], 1, 1, ""),
        ([0, 3, 2, 4], 3, 2, ""),
        ([0, 4, 1, 3, 2], 4, 1, " (first of 2 occurrences in the batch)"),
        ([3, 2, 1, 0, 4], 3, 2, " (first of 3 occurrences in the batch)"),
        ([0, 2, 4], 0, None, ""),
    ],
)
def test_offsets_that_go_back_inside_a_batch_are_reported_where_they_do(
    offsets: list[int], previous_delta: int, delta: int | None, suffix: str, tmp_path: Path
) -> None:
    def batch_at(base: int) -> bytes:
        records = b"".join(record(b"k", b"v", offset) for offset in offsets)
        return with_crc(with_bytes(batch_of(records, 0, len(offsets), base), 23, int32(4)))

    data = batch_at(0)
    file = write(tmp_path, data + batch_at(5))  # the second begins at the expected offset
    rows = kfmt("verify-crc", "--deep", file, "--json").of("finding")
    assert [row["code"] for row in rows] == ["record-offsets-backwards"] * (
        0 if delta is None else 2
    )
    for row, base, position in zip(rows, (0, 5), (0, len(data)), strict=False):
        assert delta is not None
        current_offset, previous_offset = base + delta, base + previous_delta
        assert row["message"].endswith(
            f": offset {current_offset} follows offset {previous_offset}{suffix}"
        )
        assert (row["found"], row["expected"]) == (
            current_offset,
            f"greater than {previous_offset}",
        )
        assert (row["offset"], row["position"]) == (current_offset, position)


def test_offsets_that_go_back_from_batch_to_batch_are_not_those_of_its_records(
    tmp_path: Path,
) -> None:
    batch = batch_of(record(b"k", b"v") + record(b"k", b"v", 1), 0, 2)
    result = kfmt("verify-crc", "--deep", write(tmp_path, batch + batch), "--json")
    assert result.codes == ["offsets-backwards"]
    assert result.of("finding")[0]["position"] == len(batch)


def test_offsets_that_the_file_name_does_not_allow(tmp_path: Path) -> None:
    file = write(tmp_path, ORDERS.read_bytes(), "00000000000000000100.log")
    result = kfmt("verify-crc", file, "--json")
    assert result.codes == ["offset-out-of-segment"] * 5


def test_a_control_record_that_is_too_short(tmp_path: Path) -> None:
    file = write(tmp_path, control_batch(b"\0\0", b"\0" * 6) + control_batch(b"\0\0\0\1", b"\0", 1))
    result = kfmt("verify-crc", "--deep", file, "--json")
    assert result.codes == ["control-malformed"] * 2


def test_a_decompression_error_and_a_bomb(tmp_path: Path) -> None:
    broken = compressed_batch(1, b"no gzip at all", 3)
    bomb = compressed_batch(1, gzip.compress(bytes(100 << 20)), 3, base_offset=10)
    file = write(tmp_path, broken + bomb + TXN.read_bytes())
    result = kfmt("verify-crc", "--deep", file, "--json")
    assert result.codes[:2] == ["decompression-failed", "decompression-limit"]
    small = kfmt("dump", "--records", file, "--json", "--max-decompressed", "100")
    assert small.codes.count("decompression-limit") > 1


@pytest.mark.parametrize(
    "name",
    [
        "a negative length",
        "a length that ends inside the batch",
        "a length that ends inside the next batch",
        "the largest length",
    ],
)
def test_messages_with_a_wrong_length_are_shown_whole_and_in_their_place(
    name: str, tmp_path: Path
) -> None:
    for source in (UPGRADED, SAMPLES / "kafka-2.8.2/v1-gzip-0/00000000000000000000.log"):
        data = source.read_bytes()
        starts = positions(data)
        expected = kfmt("dump", source, "--records", "--json").of("record")
        for batch in (1, 20):
            start, end = starts[batch], starts[batch + 1]
            file = write(tmp_path, DAMAGES[name][0](data, start, end))
            result = kfmt("dump", file, "--records", "--json")
            assert len(result.codes) == 1
            records = result.of("record")
            assert [{**row, **NOWHERE} for row in records] == [
                {**row, **NOWHERE} for row in expected
            ]


def test_a_message_between_garbage_is_found_after_a_compacted_set(tmp_path: Path) -> None:
    """Offsets with gaps prove no lowest offset; the last set's own tells the message from one
    inside a set."""
    data = (SAMPLES / "kafka-2.8.2/v1-compacted-0" / NAME).read_bytes()
    start = positions(data)[-2]
    damaged = data[:start] + GARBAGE[:132] + data[start:] + GARBAGE
    result = kfmt("dump", write(tmp_path, damaged), "--json")
    assert [row["last_offset"] for row in result.of("batch")] == [1179, 1199, 1201]
    assert [row["position"] for row in result.of("finding")] == [start, len(data) + 132]


def test_a_malformed_record_has_its_place_among_compressed_batches(tmp_path: Path) -> None:
    compressed = compressed_batch(1, gzip.compress(record(b"k", b"v" * 5000)), 1)
    undamaged = batch_of(record(b"a", b"b") + record(b"c", b"d", 1), 0, 2, 1)
    broken = with_crc(with_bytes(undamaged, 61 + 9, b"\xff\xff\xff\xff\x07"))
    result = kfmt("verify-crc", "--deep", write(tmp_path, compressed + broken), "--json")
    assert result.codes == ["record-malformed"]
    assert result.of("finding")[0]["position"] == len(compressed) + 61 + len(record(b"a", b"b"))


def test_a_batch_that_is_not_decompressed_hides_no_malformed_record_after_it(
    tmp_path: Path,
) -> None:
    unreadable = compressed_batch(1, b"no gzip at all", 3)
    broken = with_crc(with_bytes(batch_of(record(b"a", b"b"), 0, 1, 3), 61, b"\x7f"))
    file = write(tmp_path, unreadable + broken)
    findings = kfmt("verify-crc", "--deep", file, "--json").of("finding")
    assert [(row["code"], row["position"]) for row in findings] == [
        ("decompression-failed", 0),
        ("record-malformed", len(unreadable) + 61),
    ]


def test_zeros_that_end_inside_a_header_are_no_batch(tmp_path: Path) -> None:
    """The checksum of no bytes is 0, which zeros contain."""
    data = ORDERS.read_bytes()
    start, end = positions(data)[3:5]
    header = with_bytes(data[start : start + 30], 17, bytes(4))
    for n_bytes in (17, 21, 25, 30):
        file = write(tmp_path, data[:start] + header[:n_bytes] + data[end:])
        result = kfmt("verify-crc", file, "--json")
        assert result.code == 1
        assert result.of("file")[0]["batches"] == 11


def test_many_wrong_checksums_cost_no_more_than_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytearray(ORDERS.read_bytes())
    for start in positions(bytes(data))[:-1]:
        data[start + 20] ^= 0xFF
    file = write(tmp_path, bytes(data) * 20)
    n_copied = 0
    select_rows = Table.select_rows

    def counting_select_rows(self: Table, rows: slice) -> Table:
        nonlocal n_copied
        selected = select_rows(self, rows)
        n_copied += len(selected)
        return selected

    monkeypatch.setattr(Table, "select_rows", counting_select_rows)
    source = open_source(str(file), "log")
    n = sum(len(block.batches) for block in LogReader(source, 0, False).iter_blocks())
    source.close()
    assert n > 200
    assert n_copied <= 2 * n


def _many_damaged(n: int) -> bytes:
    """A log in which every fourth batch has a wrong length and another wrong byte."""
    log = bytearray()
    for i in range(n):
        batch = bytearray(batch_of(record(b"k", b"value" * 80), 0, 1, i))
        if i % 4 == 3:
            batch[8:12] = int32(3)
            batch[-3] ^= 1
        log += batch
    return bytes(log)


def test_looking_ahead_at_much_damage_costs_a_share_of_the_file_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "CHECKSUM_BUDGET_BYTES", 1 << 20)
    monkeypatch.setattr(search, "LOOKAHEAD_BUDGET_BYTES", 1 << 20)
    monkeypatch.setattr(search, "NEARBY_BYTES", 1 << 12)
    reads = []
    for n in (800, 1600):
        file = write(tmp_path / str(n), _many_damaged(n))
        source = open_source(str(file))
        n_reads = 0
        block = source.read_block

        def counting_read(*args: int, block: Callable[..., bytes] = block) -> bytes:
            nonlocal n_reads
            n_reads += 1
            return block(*args)

        monkeypatch.setattr(source, "read_block", counting_read)
        batches = sum(len(block.batches) for block in LogReader(source).iter_blocks())
        assert batches == n * 3 // 4
        reads.append(n_reads)
    assert reads[1] < 2.5 * reads[0]
