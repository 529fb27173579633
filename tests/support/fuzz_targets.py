"""What the coverage-guided fuzzer reads: for each target what it does with bytes, and its seeds.

A target returns what kfmt says about the bytes, and raises what kfmt would die of. The compiled and
the interpreted kernel must say the same.
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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from kfmt_cli.core.json_text import json_text
from kfmt_cli.disk.kinds import UNKNOWN_KIND, classify_name
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import UsageError
from kfmt_cli.topics import DECODED_TOPICS
from kfmt_cli.topics.payloads import PAYLOAD_FORMATS, PayloadReader, SchemaSource
from tests.support import in_process
from tests.support.rebuild import batch_of, compressed_batch, record
from tests.support.samples import environment
from tests.support.segments import NAME, positions, write
from tools.kafka import KEPT, ROOT, SAMPLES

LARGEST = 4096  # bytes of an input
CORPUS = ROOT / "tests/corpus/fuzzed"
Run = Callable[[bytes, Path], bytes]


@dataclass(frozen=True, slots=True)
class Target:
    """run: what is done with bytes, in an empty folder. seeds: to begin with."""

    run: Run
    seeds: Callable[[], Iterable[bytes]]


def kfmt(folder: Path, *words: str) -> bytes:
    """What a command says; raises AssertionError for an exit code that is no answer."""
    code, out, err = in_process.run(words, b"", folder, environment(TMPDIR=str(folder)))
    assert code in (0, 1, 3), (words, code, err)
    assert b"Traceback" not in err, err
    return out + err


# Logs and the framing of their codecs


def _log(data: bytes, folder: Path) -> bytes:
    write(folder, data)
    read = kfmt(folder, "dump", NAME, "--records", "--json")
    return read + kfmt(folder, "verify-crc", NAME, "--deep", "--json")


@cache
def _batches() -> list[bytes]:
    """The batches of all small samples, each size and codec of a folder once."""
    found: dict[tuple[str, int], bytes] = {}
    for log in _small("*.log"):
        data = log.read_bytes()
        try:
            batches = [data[start:end] for start, end in pairwise(positions(data))]
        except struct.error:  # a damaged one
            continue
        for batch in batches[:20]:
            if 17 < len(batch) <= LARGEST:
                found.setdefault((log.parent.name, len(batch) // 100), batch)
    return list(found.values())


def _small(pattern: str) -> Iterator[Path]:
    for top in (SAMPLES, ROOT / "damaged_segments"):
        files = (path for path in sorted(top.rglob(pattern)) if path.is_file())
        yield from (path for path in files if path.stat().st_size <= 1 << 16)


def _logs() -> Iterator[bytes]:
    yield from _batches()
    for log in _small("*.log"):
        yield log.read_bytes()[:LARGEST]


CODECS = ("gzip", "snappy", "lz4", "zstd")  # from 1 up


def _codec(number: int) -> Target:
    def run(data: bytes, folder: Path) -> bytes:
        """The first byte says whether a batch or a wrapper holds the rest."""
        blob = data[1:]
        is_wrapper = data[:1] > b"\x7f"
        write(folder, _wrapper(number, blob) if is_wrapper else compressed_batch(number, blob, 1))
        return kfmt(folder, "dump", NAME, "--records", "--json")

    def seeds() -> Iterator[bytes]:
        for batch in _batches():
            if batch[16] == 2 and batch[22] & 7 == number:
                yield b"\0" + batch[61:]
            elif batch[16] < 2 and batch[17] & 7 == number:
                yield b"\xff" + batch[26 if batch[16] == 0 else 34 :]

    return Target(run, seeds)


def _wrapper(codec: int, blob: bytes) -> bytes:
    """A message of magic 1 whose value is a compressed set of messages."""
    front = struct.pack(">bbqii", 1, codec, 1000, -1, len(blob))
    body = struct.pack(">I", zlib.crc32(front + blob)) + front + blob
    return struct.pack(">qi", 0, len(body)) + body


# Other files of a broker's disk

NAMES = (
    *(NAME[:-3] + suffix for suffix in ("index", "timeindex", "txnindex", "snapshot")),
    *("leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "meta.properties"),
    *("partition.metadata", "quorum-state", ".kafka_cleanshutdown"),
)


def _file(data: bytes, folder: Path) -> bytes:
    """The first byte chooses the name."""
    name = NAMES[data[0] % len(NAMES)] if data else NAMES[0]
    write(folder, data[1:], name)
    return kfmt(folder, "dump", name, "--json") + kfmt(folder, "hex", name)


def _files() -> Iterator[bytes]:
    kinds = {classify_name(name)[0].name: number for number, name in enumerate(NAMES)}
    for path in _small("*"):
        kind = classify_name(path.name)[0]
        if kind not in (UNKNOWN_KIND, LOG_KIND) and kind.name in kinds:
            yield bytes([kinds[kind.name]]) + path.read_bytes()[: LARGEST - 1]


# Records of internal topics, and formats of keys and values


def _topic(data: bytes, folder: Path) -> bytes:
    """The first byte chooses the topic; then records, before each the sizes of key and value."""
    topic = list(DECODED_TOPICS)[data[0] % len(DECODED_TOPICS)] if data else "_schemas"
    name = f"{topic}-0"
    records: list[bytes] = []
    at = 1
    while at + 4 <= len(data):
        of_key, of_value = struct.unpack_from(">hh", data, at)
        at += 4
        key = None if of_key < 0 else data[at : at + of_key]
        at += max(of_key, 0)
        value = None if of_value < 0 else data[at : at + of_value]
        at += max(of_value, 0)
        records.append(record(key, value, len(records)))
    write(folder / name, batch_of(b"".join(records), 0, len(records)))
    read = kfmt(folder, "dump", name, "--records", "--json")
    return read + kfmt(folder, "state", name, "--json")


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
    """A record, as `_topic` reads it."""
    sizes = struct.pack(">hh", *(-1 if part is None else len(part) for part in (key, value)))
    return sizes + (key or b"") + (value or b"")


def _topics() -> Iterator[bytes]:
    for number, topic in enumerate(DECODED_TOPICS):
        if topic in TEXTS:
            key, value = TEXTS[topic]
            rows = framed(key.encode(), json.dumps(value).encode()) + framed(key.encode(), None)
            yield bytes([number]) + rows
        for folder in sorted(SAMPLES.rglob(f"{topic}-*")):
            yield from _records_of(number, folder)


def _records_of(number: int, folder: Path) -> Iterator[bytes]:
    """The first records of a partition of an internal topic, one by one."""
    for log in sorted(folder.glob("*.log")):
        lines = kfmt(folder, "dump", log.name, "--records", "--json", "--bytes", "hex").splitlines()
        rows = [json.loads(line) for line in lines[:200] if b'"type":"record"' in line]
        for row in rows[:20]:
            key, value = (
                None if row.get(part) is None else bytes.fromhex(row[part])
                for part in ("key", "value")
            )
            yield bytes([number]) + framed(key, value)


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


def _payload(data: bytes, folder: Path) -> bytes:
    """The first byte chooses the format."""
    names = [name for name in PAYLOAD_FORMATS if name != "confluent"]
    name = names[data[0] % len(names)] if data else names[0]
    return _said(lambda: _reader(name, folder)(data[1:]))


def _reader(name: str, folder: Path) -> PayloadReader:
    schema = SchemaSource()
    if name == "avro":
        (folder / "a.avsc").write_text(json.dumps(AVRO))
        schema = SchemaSource(folder / "a.avsc")
    elif name == "protobuf":
        (folder / "a.desc").write_bytes(_descriptors())
        schema = SchemaSource(folder / "a.desc", "google.protobuf.FileDescriptorSet")
    return PAYLOAD_FORMATS[name].create_reader(schema)


def _said(read: Callable[[], object]) -> bytes:
    """A value, or why there is none."""
    try:
        return json_text(read()).encode()
    except (ValueError, UsageError) as error:
        return str(error).encode(errors="backslashreplace")


def _payloads() -> Iterator[bytes]:
    names = [name for name in PAYLOAD_FORMATS if name != "confluent"]
    values = [b'{"a":[1,2.5,"\\ud800",null]}', b"\0" * 8, _avro_value(), *_wires()]
    yield from (bytes([number]) + value for number in range(len(names)) for value in values)


def _avro_value() -> bytes:
    from fastavro import parse_schema, schemaless_writer

    out = io.BytesIO()
    row = {"list": [None, "a", b"b"], "map": {"k": 0.5}, "enum": "B", "at": 5, "day": 6}
    row |= {"id": "00010203-0405-0607-0809-0a0b0c0d0e0f", "price": b"\x01\x00"}
    schema = json.loads(json.dumps(AVRO).replace('"logicalType"', '"was"'))
    schemaless_writer(out, parse_schema(schema), row)
    return out.getvalue()


def _wires() -> list[bytes]:
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="a.proto", package="p", syntax="proto3")
    file.message_type.add(name="M").field.add(name="f", number=1, type=11, type_name=".p.M")
    file.enum_type.add(name="E").value.add(name="A", number=0)
    return [files.SerializeToString()]


def _schema(data: bytes, folder: Path) -> bytes:
    """Two bytes of size, a schema of Avro or else descriptors and a registry's framing, a value."""
    size = int.from_bytes(data[:2], "big")
    schema, value = data[2 : 2 + size], data[2 + size :]
    is_avro = schema[:1] in (b"{", b"[", b'"')
    (folder / ("7.avsc" if is_avro else "7.desc")).write_bytes(schema)
    framing = b"\0\0\0\0\x07" + value
    return _said(
        lambda: PAYLOAD_FORMATS["confluent"].create_reader(SchemaSource(directory=folder))(framing)
    )


def _schemas() -> Iterator[bytes]:
    pairs = [(json.dumps(AVRO).encode(), _avro_value()), *((wire, b"\0\n\0") for wire in _wires())]
    pairs += [(b'{"type":"array","items":"int"}', b"\4\2\4\0"), (b'["null","long"]', b"\2\4")]
    return (len(schema).to_bytes(2, "big") + schema + value for schema, value in pairs)


# Tiered buckets and archives

BUCKETS = KEPT / "aiven-1.0.0"


def _manifest(data: bytes, folder: Path) -> bytes:
    """The manifest of the first segment of a bucket."""
    shutil.copytree(BUCKETS / "zstd/tiered", folder / "b")
    first = min((folder / "b").rglob("*.rsm-manifest"))
    first.write_bytes(data)
    return kfmt(folder, "verify-crc", "b", "--json")


def _manifests() -> Iterator[bytes]:
    return (path.read_bytes() for path in sorted(BUCKETS.rglob("*.rsm-manifest")))


ARCHIVES = ("a.zip", "a.tar", "a.tar.gz", f"{NAME}.gz")


def _archive(data: bytes, folder: Path) -> bytes:
    """The first byte chooses the kind of archive; the rest of a .gz is compressed here."""
    name = ARCHIVES[data[0] % len(ARCHIVES)] if data else ARCHIVES[0]
    content = gzip.compress(data[1:], 1, mtime=0) if name == "a.tar.gz" else data[1:]
    write(folder, content, name)
    return kfmt(folder, "dump", name, "--json")


def _archives() -> Iterator[bytes]:
    log = min(_batches(), key=len)
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
    yield b"\1" + tarred.getvalue()[: LARGEST - 1]
    yield b"\2" + tarred.getvalue()[: LARGEST - 1]
    yield b"\3" + gzip.compress(log, mtime=0)


TARGETS: dict[str, Target] = {
    "log": Target(_log, _logs),
    **{name: _codec(number) for number, name in enumerate(CODECS, 1)},
    "files": Target(_file, _files),
    "topics": Target(_topic, _topics),
    "payloads": Target(_payload, _payloads),
    "schemas": Target(_schema, _schemas),
    "manifest": Target(_manifest, _manifests),
    "archive": Target(_archive, _archives),
}
