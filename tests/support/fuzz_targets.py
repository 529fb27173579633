"""Targets of the coverage-guided fuzzer: for each one what it does with bytes, and its seeds.

A target returns kfmt's output for the bytes, and raises the exceptions that kfmt does not handle.
The outputs of the compiled and the interpreted kernel must be equal.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from kfmt_cli.core.json_text import json_text
from kfmt_cli.disk.kinds import UNKNOWN_KIND, classify_name
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import UsageError
from kfmt_cli.topics import DECODED_TOPICS
from kfmt_cli.topics.payloads import PAYLOAD_FORMATS, PayloadReader, SchemaSource
from tests.support.fuzz_commands import COMMAND_TARGETS
from tests.support.fuzz_inputs import (
    MAX_INPUT_BYTES,
    Target,
    kfmt,
    sample_batches,
    small_files,
)
from tests.support.rebuild import batch_of, compressed_batch, record
from tests.support.segments import NAME, write
from tools.kafka import KEPT, SAMPLES

# Logs and the framing of their codecs


def _log(data: bytes, directory: Path) -> bytes:
    write(directory, data)
    dumped = kfmt(directory, "dump", NAME, "--records", "--json")
    return dumped + kfmt(directory, "verify-crc", NAME, "--deep", "--json")


def _logs() -> Iterator[bytes]:
    yield from sample_batches()
    for log in small_files("*.log"):
        yield log.read_bytes()[:MAX_INPUT_BYTES]


CODECS = ("gzip", "snappy", "lz4", "zstd")  # from 1 up


def _codec(codec: int) -> Target:
    def run(data: bytes, directory: Path) -> bytes:
        """The first byte selects a batch or a wrapper around the remaining bytes."""
        compressed = data[1:]
        is_wrapper = data[:1] > b"\x7f"
        write(
            directory,
            _wrapper(codec, compressed) if is_wrapper else compressed_batch(codec, compressed, 1),
        )
        return kfmt(directory, "dump", NAME, "--records", "--json")

    def seeds() -> Iterator[bytes]:
        for batch in sample_batches():
            if batch[16] == 2 and batch[22] & 7 == codec:
                yield b"\0" + batch[61:]
            elif batch[16] < 2 and batch[17] & 7 == codec:
                yield b"\xff" + batch[26 if batch[16] == 0 else 34 :]

    return Target(run, seeds)


def _wrapper(codec: int, compressed: bytes) -> bytes:
    """A message of magic 1 whose value is a compressed set of messages."""
    header = struct.pack(">bbqii", 1, codec, 1000, -1, len(compressed))
    body = struct.pack(">I", zlib.crc32(header + compressed)) + header + compressed
    return struct.pack(">qi", 0, len(body)) + body


# Other files of a broker's disk

NAMES = (
    *(NAME[:-3] + suffix for suffix in ("index", "timeindex", "txnindex", "snapshot")),
    *("leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "meta.properties"),
    *("partition.metadata", "quorum-state", ".kafka_cleanshutdown"),
)


def _file(data: bytes, directory: Path) -> bytes:
    """The first byte selects the name."""
    name = NAMES[data[0] % len(NAMES)] if data else NAMES[0]
    write(directory, data[1:], name)
    return kfmt(directory, "dump", name, "--json") + kfmt(directory, "hex", name)


def _files() -> Iterator[bytes]:
    index_by_kind = {classify_name(name)[0].name: index for index, name in enumerate(NAMES)}
    for path in small_files("*"):
        kind = classify_name(path.name)[0]
        if kind not in (UNKNOWN_KIND, LOG_KIND) and kind.name in index_by_kind:
            yield bytes([index_by_kind[kind.name]]) + path.read_bytes()[: MAX_INPUT_BYTES - 1]


# Records of internal topics, and formats of keys and values


def _topic(data: bytes, directory: Path) -> bytes:
    """The first byte selects the topic; then records, each after the sizes of its key and value."""
    topic = list(DECODED_TOPICS)[data[0] % len(DECODED_TOPICS)] if data else "_schemas"
    name = f"{topic}-0"
    records: list[bytes] = []
    position = 1
    while position + 4 <= len(data):
        key_size, value_size = struct.unpack_from(">hh", data, position)
        position += 4
        key = None if key_size < 0 else data[position : position + key_size]
        position += max(key_size, 0)
        value = None if value_size < 0 else data[position : position + value_size]
        position += max(value_size, 0)
        records.append(record(key, value, len(records)))
    write(directory / name, batch_of(b"".join(records), 0, len(records)))
    dumped = kfmt(directory, "dump", name, "--records", "--json")
    return dumped + kfmt(directory, "state", name, "--json")


TEXTS = {
    "connect-status": ("status-task-c-0", {"state": "RUNNING", "worker_id": "w", "generation": 1}),
    "connect-configs": ("connector-c", {"properties": {"name": "c", "connection.url": "x"}}),
    "connect-offsets": ('["c",{"file":"f"}]', {"position": 5}),
    "_schemas": (
        '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
        {"subject": "s", "version": 1, "id": 1, "schema": '"int"', "deleted": False},
    ),
}


def framed(key: bytes | None, value: bytes | None) -> bytes:
    """A record in the format that `_topic` reads."""
    sizes = struct.pack(">hh", *(-1 if data is None else len(data) for data in (key, value)))
    return sizes + (key or b"") + (value or b"")


def _topics() -> Iterator[bytes]:
    for index, topic in enumerate(DECODED_TOPICS):
        if topic in TEXTS:
            key, value = TEXTS[topic]
            rows = framed(key.encode(), json.dumps(value).encode()) + framed(key.encode(), None)
            yield bytes([index]) + rows
        for directory in sorted(SAMPLES.rglob(f"{topic}-*")):
            yield from _records_of(index, directory)


def _records_of(topic_index: int, directory: Path) -> Iterator[bytes]:
    """The first records of a partition of an internal topic, each alone."""
    for log in sorted(directory.glob("*.log")):
        lines = kfmt(
            directory, "dump", log.name, "--records", "--json", "--bytes", "hex"
        ).splitlines()
        rows = [json.loads(line) for line in lines[:200] if b'"type":"record"' in line]
        for row in rows[:20]:
            key, value = (
                None if row.get(field) is None else bytes.fromhex(row[field])
                for field in ("key", "value")
            )
            yield bytes([topic_index]) + framed(key, value)


AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "list", "type": {"type": "array", "items": ["null", "R", "string", "bytes"]}},
        {"name": "map", "type": {"type": "map", "values": "double"}},
        {"name": "enum", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
    ],
}


@cache
def _descriptors() -> bytes:
    """Protobuf's description of itself."""
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet()
    descriptor_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    data: bytes = files.SerializeToString()
    return data


def _payload(data: bytes, directory: Path) -> bytes:
    """The first byte selects the format."""
    names = [name for name in PAYLOAD_FORMATS if name != "confluent"]
    name = names[data[0] % len(names)] if data else names[0]
    return _output_or_error(lambda: _reader(name, directory)(data[1:]))


def _reader(name: str, directory: Path) -> PayloadReader:
    schema = SchemaSource()
    if name == "avro":
        (directory / "a.avsc").write_text(json.dumps(AVRO))
        schema = SchemaSource(directory / "a.avsc")
    elif name == "protobuf":
        (directory / "a.desc").write_bytes(_descriptors())
        schema = SchemaSource(directory / "a.desc", "google.protobuf.FileDescriptorSet")
    return PAYLOAD_FORMATS[name].create_reader(schema)


def _output_or_error(read: Callable[[], object]) -> bytes:
    """A value as JSON, or the error message."""
    try:
        return json_text(read()).encode()
    except (ValueError, UsageError) as error:
        return str(error).encode(errors="backslashreplace")


def _payloads() -> Iterator[bytes]:
    names = [name for name in PAYLOAD_FORMATS if name != "confluent"]
    values = [b'{"a":[1,2.5,"\\ud800",null]}', b"\0" * 8, _avro_value(), *_descriptor_sets()]
    yield from (bytes([index]) + value for index in range(len(names)) for value in values)


def _avro_value() -> bytes:
    from fastavro import parse_schema, schemaless_writer

    output = io.BytesIO()
    row = {"list": [None, "a", b"b"], "map": {"k": 0.5}, "enum": "B", "at": 5, "day": 6}
    row |= {"id": "00010203-0405-0607-0809-0a0b0c0d0e0f", "price": b"\x01\x00"}
    schema = json.loads(json.dumps(AVRO).replace('"logicalType"', '"was"'))
    schemaless_writer(output, parse_schema(schema), row)
    return output.getvalue()


def _descriptor_sets() -> list[bytes]:
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="a.proto", package="p", syntax="proto3")
    file.message_type.add(name="M").field.add(name="f", number=1, type=11, type_name=".p.M")
    file.enum_type.add(name="E").value.add(name="A", number=0)
    return [files.SerializeToString()]


def _schema(data: bytes, directory: Path) -> bytes:
    """Two bytes of size, an Avro schema or descriptors, and a value for a registry's framing."""
    size = int.from_bytes(data[:2], "big")
    schema, value = data[2 : 2 + size], data[2 + size :]
    is_avro = schema[:1] in (b"{", b"[", b'"')
    (directory / ("7.avsc" if is_avro else "7.desc")).write_bytes(schema)
    framed_value = b"\0\0\0\0\x07" + value
    return _output_or_error(
        lambda: PAYLOAD_FORMATS["confluent"].create_reader(SchemaSource(directory=directory))(
            framed_value
        )
    )


def _schemas() -> Iterator[bytes]:
    inputs = [
        (json.dumps(AVRO).encode(), _avro_value()),
        *((descriptors, b"\0\n\0") for descriptors in _descriptor_sets()),
    ]
    inputs += [(b'{"type":"array","items":"int"}', b"\4\2\4\0"), (b'["null","long"]', b"\2\4")]
    return (len(schema).to_bytes(2, "big") + schema + value for schema, value in inputs)


# Tiered buckets and archives

TIERED_BUCKETS = KEPT / "aiven-1.0.0"


def _manifest(data: bytes, directory: Path) -> bytes:
    """The manifest of the first segment of a bucket."""
    shutil.copytree(TIERED_BUCKETS / "zstd/tiered", directory / "b")
    manifest_path = min((directory / "b").rglob("*.rsm-manifest"))
    manifest_path.write_bytes(data)
    return kfmt(directory, "verify-crc", "b", "--json")


def _manifests() -> Iterator[bytes]:
    return (path.read_bytes() for path in sorted(TIERED_BUCKETS.rglob("*.rsm-manifest")))


ARCHIVES = ("a.zip", "a.tar", "a.tar.gz", f"{NAME}.gz")


def _archive(data: bytes, directory: Path) -> bytes:
    """The first byte selects the kind of archive; the content of a .tar.gz is compressed here."""
    name = ARCHIVES[data[0] % len(ARCHIVES)] if data else ARCHIVES[0]
    content = gzip.compress(data[1:], 1, mtime=0) if name == "a.tar.gz" else data[1:]
    write(directory, content, name)
    return kfmt(directory, "dump", name, "--json")


def _archives() -> Iterator[bytes]:
    log = min(sample_batches(), key=len)
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(f"t-0/{NAME}"), log)
    with tarfile.open(fileobj=tarred, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, link in ((f"t-0/{NAME}", ""), ("é" * 60, f"t-0/{NAME}")):
            info = tarfile.TarInfo(name)
            info.mtime, info.size = 1.5, 0 if link else len(log)
            info.linkname, info.type = link, tarfile.SYMTYPE if link else tarfile.REGTYPE
            tar.addfile(info, io.BytesIO(log))
    yield b"\0" + zipped.getvalue()
    yield b"\1" + tarred.getvalue()[: MAX_INPUT_BYTES - 1]
    yield b"\2" + tarred.getvalue()[: MAX_INPUT_BYTES - 1]
    yield b"\3" + gzip.compress(log, mtime=0)


TARGETS: dict[str, Target] = {
    "log": Target(_log, _logs),
    **{name: _codec(codec) for codec, name in enumerate(CODECS, 1)},
    "files": Target(_file, _files),
    "topics": Target(_topic, _topics),
    "payloads": Target(_payload, _payloads),
    "schemas": Target(_schema, _schemas),
    "manifest": Target(_manifest, _manifests),
    "archive": Target(_archive, _archives),
    **COMMAND_TARGETS,
}
