"""Targets of the fuzzer that take a command's arguments, or several files of a directory."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.fuzz_inputs import Target, kfmt
from tests.support.rebuild import batch_of, record
from tests.support.samples import ORDERS
from tests.support.segments import NAME, write
from tools.kafka import KEPT, SAMPLES

NOW = ("--now", "1700000000000")
ANY = (0, 1, 2, 3)


def _argument(data: bytes) -> str:
    """Text that a shell could pass."""
    return data.replace(b"\0", b"").decode(errors="surrogateescape")


@cache
def _three_batches() -> bytes:
    value = b"a" * 23 + b"b"
    return b"".join(batch_of(record(b"k%d" % i, value), 0, 1, i) for i in range(3))


def _settle(directory: Path) -> None:
    """Give all files an old time: kfmt waits for what was just written, and shows times."""
    for path in directory.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))


# Arguments


def _form(data: bytes, directory: Path) -> bytes:
    write(directory, _three_batches())
    return kfmt(directory, "cat", NAME, "-f", _argument(data), exit_codes=ANY)


PATTERN_OPTIONS = (
    *(("cat", option) for option in ("--key", "--value", "--header", "--from-time", "--to-time")),
    *(("dump", "--columns"), ("cat", "--topic")),
)


def _pattern(data: bytes, directory: Path) -> bytes:
    """The first byte selects the option."""
    write(directory, _three_batches())
    command, option = PATTERN_OPTIONS[data[0] % len(PATTERN_OPTIONS)] if data else ("cat", "--key")
    return kfmt(directory, command, NAME, option, _argument(data[1:]), exit_codes=ANY)


def _patterns() -> Iterator[bytes]:
    values = ("~(a+)+$", "~k[0-9]", "a=~b", "now-1h", "2020-01-01T00:00:00", "offset,size", "t*")
    yield from (bytes([index]) + value.encode() for index, value in enumerate(values))


# A file that a command reads


def _request(data: bytes, directory: Path) -> bytes:
    """The first byte: a request, or the API of a response."""
    (directory / "m.bin").write_bytes(data[1:])
    if data[:1] < b"\x80":
        return kfmt(directory, "request-header", "m.bin", "--json", exit_codes=ANY)
    api = ("--api", str(data[0] % 90), "--api-version", "3")
    return kfmt(directory, "response-header", "m.bin", *api, "--json", exit_codes=ANY)


def _lines(data: bytes, directory: Path) -> bytes:
    """Lines for build, whose result is undamaged."""
    (directory / "l.jsonl").write_bytes(data)
    output = kfmt(directory, "build", "l.jsonl", "built", exit_codes=ANY)
    if (directory / "built").is_dir():
        output += kfmt(directory, "verify-crc", "built", "--deep", "--json", exit_codes=(0,))
        output += kfmt(directory, "index-check", "built", "--json", exit_codes=(0,))
    return output


def _line_seeds() -> Iterator[bytes]:
    yield b'{"value":"hello"}\n'
    yield b'{"value":{"base64":"AA=="},"key":{"hex":"00"}}\n'
    batch = {"type": "batch", "base_offset": 5, "magic": 2, "producer_id": 5, "producer_epoch": 0}
    row = {"type": "record", "offset": 5, "timestamp": 1, "key": "a", "value": None}
    yield b"".join(json.dumps(line).encode() + b"\n" for line in (batch, row))


def _parquet(data: bytes, directory: Path) -> bytes:
    (directory / "x.parquet").write_bytes(data)
    return kfmt(directory, "build", "x.parquet", "built", exit_codes=ANY)


def _parquets() -> Iterator[bytes]:
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as scratch:
        kfmt(Path(scratch), "export", str(ORDERS), "--to", "rows", exit_codes=(0,))
        (exported,) = Path(scratch).glob("rows/records/*.parquet")
        rows = pq.read_table(exported).slice(0, 2)
    for compression in ("none", "zstd"):
        written = io.BytesIO()
        options = {"store_schema": False, "use_dictionary": False, "write_statistics": False}
        pq.write_table(rows, written, compression=compression, **options)
        yield written.getvalue()


def _properties(data: bytes, directory: Path) -> bytes:
    write(directory / "t-0", _three_batches())
    (directory / "s.properties").write_bytes(data)
    _settle(directory)
    options = ("t-0", "--config", "s.properties", *NOW, "--json")
    output = kfmt(directory, "retention", *options, exit_codes=ANY)
    return output + kfmt(directory, "compaction", *options, exit_codes=ANY)


def _property_seeds() -> Iterator[bytes]:
    yield b"log.retention.ms=5\nretention.bytes=7\ncleanup.policy=compact,delete\n"
    yield b"x\\u0041\\\n  y : 7\n#a\n!b\nmin.cleanable.dirty.ratio=0.5\nlog.roll.hours=1\n"


PAYLOAD_FORMATS = ("json", "hex", "int", "long", "double", "uuid", "confluent")


def _value(data: bytes, directory: Path) -> bytes:
    """The first byte selects the format, of key and value."""
    name = PAYLOAD_FORMATS[data[0] % len(PAYLOAD_FORMATS)] if data else "json"
    write(directory / "t-0", batch_of(record(data[1:], data[1:]), 0, 1))
    (directory / "schemas").mkdir()
    formats = ("--key-format", name, "--value-format", name, "--schemas", "schemas")
    output = kfmt(directory, "dump", "t-0", "--records", *formats, "--json")
    output += kfmt(directory, "dump", "t-0", "--records", *formats)
    form = "%k %s %h %o %T %p %t %S %K\\n"
    return output + kfmt(directory, "cat", "t-0", *formats, "-f", form)


def _values() -> Iterator[bytes]:
    for index in range(len(PAYLOAD_FORMATS)):
        for value in (b"12345678", b"\0\0\0\0\1x", b'{"a":1}', b"\xff" * 16):
            yield bytes([index]) + value


# Several files of a directory

SIDE_FILES = (
    *(NAME[:-3] + suffix for suffix in ("index", "timeindex", "txnindex")),
    *("00000000000000000003.snapshot", "leader-epoch-checkpoint", "partition.metadata"),
)
CHECKPOINTS = (
    *("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"),
    *("replication-offset-checkpoint", "meta.properties", "cleaner-offset-checkpoint"),
)


def _side_files(data: bytes, directory: Path) -> bytes:
    """Sizes and contents of files next to a log, then log directory files, separated by 0xff."""
    disk = directory / "b"
    write(disk / "t-0", _three_batches())
    position = len(SIDE_FILES)
    for name, size in zip(SIDE_FILES, data, strict=False):
        if size:
            (disk / "t-0" / name).write_bytes(data[position : position + size])
            position += size
    for name, content in zip(CHECKPOINTS, data[position:].split(b"\xff"), strict=False):
        if content:
            (disk / name).write_bytes(content)
    _settle(directory)
    commands = ("check", "index-check", "txn", "stat", "retention", "rebuild-index", "salvage")
    operands = {"retention": NOW, "rebuild-index": ("rebuilt",), "salvage": ("salvaged",)}
    return b"".join(
        kfmt(directory, command, "b", *operands.get(command, ()), "--json", exit_codes=ANY)
        for command in commands
    )


def _side_file_seeds() -> Iterator[bytes]:
    checkpoints = b"\xff".join(
        (
            *(b"0\n1\nt 0 1\n", b"0\n1\nt 0 0\n", b"0\n1\nt 0 3\n"),
            *(b"version=1\nbroker.id=1\ncluster.id=aaaaaaaaaaaaaaaaaaaaaa\n", b"0\n1\nt 0 3\n"),
        )
    )
    for partition in sorted(SAMPLES.rglob("*-0"))[:40]:
        if partition.is_dir():
            newest = (
                max(partition.glob(f"*{Path(name).suffix or name}"), default=None)
                for name in SIDE_FILES
            )
            contents = [path.read_bytes()[:240] if path else b"" for path in newest]
            yield bytes(map(len, contents)) + b"".join(contents) + checkpoints


def _metadata(data: bytes, directory: Path) -> bytes:
    """Values of a metadata log, each preceded by its size; there is a partition next to it."""
    records: list[bytes] = []
    position = 0
    while position + 2 <= len(data):
        (size,) = struct.unpack_from(">H", data, position)
        position += 2
        records.append(record(None, data[position : position + size], len(records)))
        position += size
    disk = directory / "b"
    write(disk / "__cluster_metadata-0", batch_of(b"".join(records), 0, len(records)))
    write(disk / "t-0", _three_batches())
    (disk / "t-0/partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ")
    (disk / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={'a' * 22}\n")
    _settle(directory)
    output = kfmt(directory, "state", "b")
    for command in ("state", "check", "retention", "compaction", "replicas"):
        now = NOW if command in ("retention", "compaction") else ()
        output += kfmt(directory, command, "b", *now, "--json")
    return output


def _metadata_seeds() -> Iterator[bytes]:
    for log in sorted(SAMPLES.rglob("__cluster_metadata-*/*.log")):
        options = ("--records", "--json", "--bytes", "hex")
        rows = map(json.loads, kfmt(log.parent, "dump", log.name, *options).splitlines())
        values = [bytes.fromhex(row["value"]) for row in rows if row.get("value")]
        for start in range(0, min(len(values), 400), 12):
            group = values[start : start + 12]
            yield b"".join(struct.pack(">H", len(value)) + value for value in group)


BUCKET = KEPT / "aiven-1.0.0/zstd/tiered"


def _tiered_indexes(data: bytes, directory: Path) -> bytes:
    """The object with the indexes of a bucket's first segment."""
    shutil.copytree(BUCKET, directory / "b")
    min((directory / "b").rglob("*.indexes")).write_bytes(data)
    _settle(directory)
    return b"".join(
        kfmt(directory, command, "b", "--json") for command in ("check", "index-check", "dump")
    )


def _tiered_index_seeds() -> Iterator[bytes]:
    return (path.read_bytes() for path in sorted(BUCKET.rglob("*.indexes")))


COMMAND_TARGETS: dict[str, Target] = {
    "form": Target(_form, lambda: [b"%o %T %k %s\\n", b"%h %p %t %S %K %R %%\\x41\\t"]),
    "pattern": Target(_pattern, _patterns),
    "request": Target(
        _request, lambda: [b"\0" + bytes.fromhex("0012000300000001000474657374000b"), b"\x80\0\0\0"]
    ),
    "lines": Target(_lines, _line_seeds),
    "parquet": Target(_parquet, _parquets),
    "properties": Target(_properties, _property_seeds),
    "values": Target(_value, _values),
    "side-files": Target(_side_files, _side_file_seeds),
    "metadata": Target(_metadata, _metadata_seeds),
    "tiered-indexes": Target(_tiered_indexes, _tiered_index_seeds),
}
