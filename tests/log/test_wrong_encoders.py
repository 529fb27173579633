"""`kfmt hex` for the author of a client: each wrong field of a magic 2 batch is marked at its byte,
with the reason and the likely mistake; the exit code is that of `verify-crc --deep`."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import lz4.block
import pytest
import zstandard
from crc32c import crc32c

from tests.support.samples import every_log, kfmt, sample_name
from tests.support.wrong_encoders import (
    BASE_TIMESTAMP,
    RECORDS,
    VARINT_FIELDS,
    Encode,
    Mistakes,
    encode_batch,
    gzip_bytes,
    high_group_first,
    int8,
    int16,
    int32,
    int64,
    nothing,
    plain_varint,
    swapped,
    zigzag,
)

Case = tuple[Mistakes, str, str]
ZIGZAG, INT32 = "leave out zigzag?", "write an int32 where Kafka has a varint?"
LITTLE = "does your encoder write little-endian numbers?"
LONG_VALUE = ((0, b"k", b"v" * 100, ()), (1, b"l", b"w" * 200, ()))
NO_HEADERS = tuple((*record[:3], ()) for record in RECORDS)
# Where a mistake in a field of a record shows: the field, or the one at which reading ends.
PATH_BY_FIELD = {
    **{name: name for name in VARINT_FIELDS},
    "key_length": "key",
    "value_length": "value",
    "header_key_length": "headers.0.key",
    "header_value_length": "headers.0.value_length",
}


def fixed(value: int, encode: Encode) -> Encode:
    return lambda _: encode(value)


def shifted(by: int, encode: Encode) -> Encode:
    return lambda value: encode(value + by)


def record_cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for name in VARINT_FIELDS:
        path = PATH_BY_FIELD[name]
        cases[f"{name}: no zigzag"] = Mistakes(record={name: plain_varint}), path, ZIGZAG
        cases[f"{name}: int32"] = Mistakes(record={name: int32}), path.split(".")[0], INT32
    for name in ("attributes", "timestamp_delta", "offset_delta"):
        missing = f"leave out {name}?"
        cases[f"{name}: missing"] = Mistakes(record={name: nothing}), name, missing
    lengths = [name for name in VARINT_FIELDS if not name.endswith("_delta")]
    return cases | {
        "varints: no zigzag": (
            Mistakes(record=dict.fromkeys(VARINT_FIELDS, plain_varint)),
            *("length", "leave out zigzag, in every varint?"),
        ),
        "lengths: int32": (
            Mistakes(record=dict.fromkeys(lengths, int32)),
            *("length", "in every length and count?"),
        ),
        "value_length: highest group first": (
            Mistakes(record={"value_length": high_group_first}, records=LONG_VALUE),
            *("value", "write the highest 7 bits first?"),
        ),
        "length: counts itself": (
            Mistakes(record={"length": shifted(1, zigzag)}),
            *("length", "count the length field itself?"),
        ),
        "length: without attributes": (
            Mistakes(record={"length": shifted(-1, zigzag)}),
            *("length", "it counts 1 byte fewer than the record has"),
        ),
        "attributes: int16": (
            Mistakes(record={"attributes": int16}),
            *("attributes", "does your encoder write it as int16?"),
        ),
        "timestamp_delta: absolute": (
            Mistakes(record={"timestamp_delta": shifted(BASE_TIMESTAMP, zigzag)}),
            *("timestamp_delta", "the timestamp, not its distance from the base?"),
        ),
        "offset_delta: absolute": (
            Mistakes(
                batch={"base_offset": fixed(1000, int64)},
                record={"offset_delta": shifted(1000, zigzag)},
            ),
            *("offset_delta", "the offset, not its distance from the base?"),
        ),
        "offset_delta: always 0": (
            Mistakes(record={"offset_delta": fixed(0, zigzag)}),
            *("offset_delta", "✗ offset 0, but the record before it has offset 0"),
        ),
        "offset_delta: from 1": (
            Mistakes(record={"offset_delta": shifted(1, zigzag)}),
            *("offset_delta", "count from 1?"),
        ),
        "headers: missing": (
            Mistakes(record={"headers_count": nothing}, records=NO_HEADERS),
            *("headers_count", "leave out headers?"),
        ),
        "headers: null": (
            Mistakes(record={"headers_count": fixed(-1, zigzag)}, records=NO_HEADERS),
            *("headers_count", "negative count -1"),
        ),
        "header_key_length: null": (
            Mistakes(record={"header_key_length": fixed(-1, zigzag)}),
            *("headers.0.key", "length -1, but null is not allowed here"),
        ),
    }


def header_cases() -> dict[str, Case]:
    header = {
        "batch_length: little-endian": ("batch_length", swapped(4), LITTLE),
        "batch_length: all bytes": ("batch_length", shifted(12, int32), "bytes before it too?"),
        "batch_length: itself": ("batch_length", shifted(4, int32), "length field itself?"),
        "batch_length: from magic": ("batch_length", shifted(-4, int32), "count from magic?"),
        "batch_length: from crc": ("batch_length", shifted(-5, int32), "count from crc?"),
        "batch_length: from attributes": ("batch_length", shifted(-9, int32), "from attributes?"),
        "batch_length: records": ("batch_length", shifted(-49, int32), "only the records?"),
        "partition_leader_epoch: missing": ("partition_leader_epoch", nothing, "leave out part"),
        **{
            f"magic: {magic}": ("magic", fixed(magic, int8), "✗ as magic 2, the checksum matches")
            for magic in (0, 1, 3)
        },
        "crc: little-endian": ("crc", swapped(4), "with its bytes in reverse order"),
        "attributes: int8": ("attributes", int8, "does your encoder write it as int8?"),
        "attributes: unused bit": ("attributes", fixed(0x80, int16), "bits above 6 are unused"),
        "attributes: codec 5": ("attributes", fixed(5, int16), "✗ has codec 5"),
        "attributes: gzip": ("attributes", fixed(1, int16), "they are records, uncompressed"),
        "attributes: control": ("attributes", fixed(0x20, int16), "2 bytes needed, 1 left"),
        "last_offset_delta: count": (
            *("last_offset_delta", shifted(1, int32)),
            "the last record has delta 2",
        ),
        "last_offset_delta: little-endian": ("last_offset_delta", swapped(4), LITTLE),
        "last_offset_delta: -1": ("last_offset_delta", fixed(-1, int32), "✗ ends at offset -1"),
        "last_offset_delta: 0": ("offset_delta", fixed(0, int32), "the batch has offsets 0–0"),
        "base_timestamp: little-endian": ("base_timestamp", swapped(8), LITTLE),
        "max_timestamp: little-endian": ("max_timestamp", swapped(8), LITTLE),
        "max_timestamp: 0": ("max_timestamp", fixed(0, int64), "✗ max timestamp 0, but the larg"),
        "max_timestamp: the base": (
            *("max_timestamp", fixed(BASE_TIMESTAMP, int64)),
            "the largest record timestamp is 1700000000009",
        ),
        "producer_id: int32": ("producer_id", int32, "does your encoder write it as int32?"),
        "producer_epoch: without id": ("producer_epoch", fixed(0, int16), "without a producer id"),
        "base_sequence: without id": ("base_sequence", fixed(0, int32), "without a producer id"),
        "records_count: little-endian": ("records_count", swapped(4), LITTLE),
        "records_count: varint": ("records_count", zigzag, "does your encoder write it as a var"),
        "records_count: missing": ("records_count", nothing, "leave out records_count?"),
        "records_count: 4": ("records_count", fixed(4, int32), "✗ declares 4 records"),
        "records_count: 2": ("records_count", fixed(2, int32), "✗ declares 2 records but contai"),
        "records_count: 0": ("records_count", fixed(0, int32), "✗ declares 0 records but contai"),
        "records_count: -1": ("records_count", fixed(-1, int32), "✗ declares -1 records"),
    }
    cases: dict[str, Case] = {}
    for case_name, (name, encode, text) in header.items():
        field_name = case_name.partition(":")[0]
        path = "records" if "uncompressed" in text else "key" if "needed" in text else name
        cases[case_name] = Mistakes(batch={field_name: encode}), path, text
    seconds = {
        name: fixed(BASE_TIMESTAMP // 1000, int64) for name in ("base_timestamp", "max_timestamp")
    }
    nanoseconds = {name: fixed(BASE_TIMESTAMP * 1_000_000, int64) for name in ("base_timestamp",)}
    return cases | {
        "base_timestamp: seconds": (
            Mistakes(batch=seconds),
            *("base_timestamp", "seconds? then 2023-11-14 22:13:20"),
        ),
        "base_timestamp: nanoseconds": (
            Mistakes(batch=nanoseconds),
            *("base_timestamp", "nanoseconds? then 2023-11-14 22:13:20"),
        ),
    }


def checksum_cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for start, first_hex in ((0, "0"), (12, "c"), (16, "10"), (17, "11"), (23, "17"), (61, "3d")):
        cases[f"crc: from byte {start}"] = (
            Mistakes(crc=lambda batch, start=start: crc32c(batch[start:])),  # type: ignore[misc]
            "crc",
            f"is the CRC-32C of bytes {first_hex}..80 (it must begin at attributes, byte 15)",
        )
    gzipped = Mistakes(codec=1, compress=gzip_bytes)
    return cases | {
        "crc: zlib's": (
            Mistakes(crc=lambda batch: zlib.crc32(batch[21:])),
            *("crc", "is CRC-32 (zlib) of the right bytes; magic 2 needs CRC-32C"),
        ),
        "crc: zlib's from magic": (
            Mistakes(crc=lambda batch: zlib.crc32(batch[16:])),
            *("crc", "attributes, byte 15, and magic 2 needs CRC-32C)"),
        ),
        "crc: not inverted": (
            Mistakes(crc=lambda batch: crc32c(batch[21:]) ^ 0xFFFFFFFF),
            *("crc", "is the right CRC-32C without its final inversion"),
        ),
        "crc: 0": (Mistakes(crc=lambda _: 0), "crc", "was it never computed?"),
        "crc: of plain bytes": (
            Mistakes(
                codec=gzipped.codec,
                compress=gzipped.compress,
                crc=lambda batch: crc32c(batch[21:61] + gzip.decompress(batch[61:])),
            ),
            *("crc", "is the CRC-32C of the bytes before compression"),
        ),
        "gzip: zlib's format": (
            Mistakes(codec=1, compress=zlib.compress),
            *("records", "they are in zlib format; gzip has a header of its own"),
        ),
        "lz4: a block": (
            Mistakes(codec=3, compress=lambda data: lz4.block.compress(data, store_size=False)),
            *("records", "does your encoder write an LZ4 block?"),
        ),
        "lz4: zstd": (
            Mistakes(codec=3, compress=zstandard.compress),
            *("records", "they begin as zstd does, codec 4; attributes name lz4"),
        ),
        "attributes: no codec": (
            Mistakes(codec=0, compress=gzip_bytes),
            *("attributes", "✗ the records: they begin as gzip does, codec 1"),
        ),
    }


CASES = record_cases() | header_cases() | checksum_cases()


def write_log(directory: Path, data: bytes) -> Path:
    log = directory / "orders-0" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(data)
    return log


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_field_is_marked_with_its_reason(name: str, tmp_path: Path) -> None:
    mistakes, path, text = CASES[name]
    log = write_log(tmp_path, encode_batch(mistakes))
    shown, checked = kfmt("hex", log, "--json"), kfmt("verify-crc", "--deep", log)
    assert shown.code == checked.code, checked.out
    marks = {
        row["path"].removeprefix("record 0.").removeprefix("record 1."): (
            f"{row['meaning']} {row['fault']}"
        )
        for row in shown.of("field")
        if text in f"{row['meaning']} {row['fault']}"
    }
    assert any(marked.startswith(path) or path in marked for marked in marks), shown.out
    table = kfmt("hex", log)
    assert table.code == shown.code
    assert text[:40] in table.out


def test_a_right_batch_has_no_mark(tmp_path: Path) -> None:
    done = kfmt("hex", write_log(tmp_path, encode_batch()))
    assert (done.code, "✗" in done.out, "?" in done.out) == (0, False, False)


@pytest.mark.parametrize(
    "log", [log for log in every_log() if log.stat().st_size][::5], ids=sample_name
)
def test_what_brokers_wrote_has_no_mark(log: Path) -> None:
    done = kfmt("hex", log)
    assert done.code == kfmt("verify-crc", "--deep", log).code
    assert "✗" not in done.out
    assert "does your encoder" not in done.out


def test_verify_crc_names_the_checksum(tmp_path: Path) -> None:
    mistakes = Mistakes(crc=lambda batch: crc32c(batch[16:]))
    done = kfmt("verify-crc", write_log(tmp_path, encode_batch(mistakes)))
    assert done.code == 1
    assert "is the CRC-32C of bytes 16..128 (it must begin at attributes, byte 21)" in done.out
