"""cat: its output, how it selects records and decodes keys and values."""

from __future__ import annotations

import base64
import json
import pickle
import shutil
import struct
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kfmt_cli.broker.transactions.transactions import read_committed_records
from kfmt_cli.topics.payloads import PayloadDeclaration, PayloadDeclarations, SchemaSource
from tests.support.broken_partitions import ORDERS, TXN, name, record_malformed, sample
from tests.support.rebuild import batch_of, record
from tests.support.samples import kfmt
from tests.support.segments import positions, write
from tools import broker, kafka

V1 = kafka.SAMPLES / "kafka-2.8.2/v1-none-0"


def offsets(*arguments: str | Path) -> list[int]:
    """The offsets in the output."""
    return [int(text) for text in kfmt("cat", *arguments, "-f", "%o\\n").out.split()]


def records(partition: Path) -> list[dict[str, object]]:
    """The records of a partition in the output of dump."""
    rows = kfmt("dump", partition, "--records", "--json", "--bytes", "base64").of("record")
    return [row for row in rows if "control" not in row]


def _line(offset: int, value: bytes) -> dict[str, object]:
    """A record as build reads it."""
    key = base64.b64encode(uuid.UUID(int=offset).bytes).decode()
    encoded = base64.b64encode(value).decode()
    return {
        "offset": offset,
        "key": key,
        "key_encoding": "base64",
        "value": encoded,
        "value_encoding": "base64",
    }


@pytest.fixture(scope="module")
def payload_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of payloads: a long, Avro, Protobuf, and three in a schema registry's framing."""
    directory = tmp_path_factory.mktemp("payloads")
    avro = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    (directory / "r.avsc").write_text(json.dumps(avro))
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="p", syntax="proto3")
    message = file.message_type.add(name="M")
    field = message.field.add(name="id", number=1, type=3, label=1)
    assert field.number == 1
    (directory / "m.desc").write_bytes(
        descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    )
    schemas = directory / "schemas"
    schemas.mkdir()
    shutil.copy(directory / "r.avsc", schemas / "1.avsc")
    shutil.copy(directory / "m.desc", schemas / "2.desc")
    (schemas / "3.json").write_text("{}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.M"))
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, avro, {"id": 7})
    avro_payload, protobuf_payload = buffer.getvalue(), message_class(id=8).SerializeToString()
    values = [
        struct.pack(">q", 5),
        avro_payload,
        protobuf_payload,
        b"\0\0\0\0\1" + avro_payload,
        b"\0\0\0\0\2\0" + protobuf_payload,
        b'\0\0\0\0\3{"id":9}',
    ]
    lines = [json.dumps(_line(i, value)) for i, value in enumerate(values)]
    result = kfmt("build", "-", directory / "log-0", stdin="\n".join(lines).encode())
    assert result.code == 0, result.err
    return directory


def test_every_part_of_a_record() -> None:
    format_string = "%t|%p|%o|%T|%K|%k|%S|%s|%h|%%\\x41\\t\\n"
    (line,) = kfmt(
        "cat", ORDERS, "-f", format_string, "--from-offset", "1", "--limit", "1"
    ).out.splitlines()
    assert line.startswith("orders|0|1|1699999999235|10|customer-1|117|{")
    assert line.endswith("}||%A\t")
    assert kfmt("cat", ORDERS, "-f", "%k %K %S\n", "--limit", "1").out == "NULL -1 -1\n"
    assert kfmt("cat", ORDERS, "-f", "%k\n", "--limit", "1", "--null", "∅").out == "∅\n"
    rows = kfmt("dump", ORDERS, "--records", "--json").of("record")
    rows_with_headers = [
        row for row in rows if len(row["headers"]) > 1 and "encoding" not in str(row["headers"])
    ]
    for row in rows_with_headers[:3]:
        offset = str(row["offset"])
        result = kfmt("cat", ORDERS, "-f", "%h", "--from-offset", offset, "--to-offset", offset)
        values = (
            (item["key"], "NULL" if item["value"] is None else item["value"])
            for item in row["headers"]
        )
        assert result.out == ",".join(f"{key}={value}" for key, value in values)


def test_all_records_of_every_sample() -> None:
    for partition in (ORDERS, TXN, V1, kafka.SAMPLES / "kafka-2.8.2/v1-gzip-0"):
        assert offsets(partition) == [record["offset"] for record in records(partition)]


def test_wrong_format_strings() -> None:
    for format_string in ("%q", "%", "\\xzz"):
        assert kfmt("cat", ORDERS, "-f", format_string).code == 2


def test_bounds() -> None:
    assert offsets(ORDERS, "--from-offset", "470", "--to-offset", "490") == list(range(470, 491))
    times = {
        int(str(record["offset"])): int(str(record["timestamp"])) for record in records(ORDERS)
    }
    first, last = times[300], times[700]
    low, high = min(first, last), max(first, last)
    expected = [offset for offset, timestamp in times.items() if low <= timestamp <= high]
    assert offsets(ORDERS, "--from-time", str(low), "--to-time", str(high)) == expected


def test_keys_and_values() -> None:
    rows = kfmt("dump", ORDERS, "--records", "--json").of("record")
    with_key = [row["offset"] for row in rows if row["key"] == "customer-7"]
    assert offsets(ORDERS, "--key", "customer-7") == with_key != []
    assert offsets(ORDERS, "--key", f"hex:{b'customer-7'.hex()}") == with_key
    assert offsets(ORDERS, "--key", "~^customer-7$") == with_key
    with_amber = [row["offset"] for row in rows if "amber" in (row["value"] or "")]
    assert offsets(ORDERS, "--value", "~amber") == with_amber != []
    value = next(row["value"] for row in rows if row["value"])
    assert offsets(ORDERS, "--value", value) == [
        row["offset"] for row in rows if row["value"] == value
    ]
    assert kfmt("cat", ORDERS, "--key", "~(").code == 2


def test_headers() -> None:
    rows = kfmt("dump", ORDERS, "--records", "--json").of("record")

    def offsets_with_header(name: str, value: str | None) -> list[int]:
        return [
            row["offset"]
            for row in rows
            if any(h["key"] == name and value in (None, h["value"]) for h in row["headers"])
        ]

    assert offsets(ORDERS, "--header", "trace-id") == offsets_with_header("trace-id", None) != []
    expected = offsets_with_header("trace-id", "00000000")
    assert offsets(ORDERS, "--header", "trace-id=00000000") == expected != []
    assert offsets(ORDERS, "--header", "trace-id=~^0+$") == expected


def test_headers_are_written_however_many_a_record_has(tmp_path: Path) -> None:
    records = [
        {"value": "v", "headers": [{"key": f"h{i}", "value": "x"} for i in range(n)]}
        for n in (0, 1, 2)
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    for n, expected in ((0, ""), (1, "h0=x"), (2, "h0=x,h1=x")):
        directory = tmp_path / str(n)  # where no record has more headers
        line = lines.splitlines()[n]
        assert kfmt("build", "-", directory, stdin=line.encode()).code == 0
        assert kfmt("cat", directory, "-f", "%h\n").out == f"{expected}\n"
    assert kfmt("build", "-", tmp_path / "all", stdin=lines.encode()).code == 0
    assert kfmt("cat", tmp_path / "all", "-f", "%h\n").out == "\nh0=x\nh0=x,h1=x\n"


def test_a_producer() -> None:
    batches = kfmt("dump", TXN, "--json").of("batch")
    expected = {
        offset
        for batch in batches
        if batch["producer_id"] == 0 and not batch["attributes"]["control"]
        for offset in range(batch["base_offset"], batch["last_offset"] + 1)
    }
    assert set(offsets(TXN, "--producer-id", "0")) == expected != set()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--to-offset", "0", "--value-format", "long"), "5"),
        (("--to-offset", "0", "--value-format", "hex"), "0000000000000005"),
        (("--to-offset", "0", "--key-format", "uuid", "-f", "%k\n"), str(uuid.UUID(int=0))),
        (
            ("--from-offset", "1", "--to-offset", "1", "--value-format", "avro"),
            '{"id":7}',
        ),
        (
            ("--from-offset", "2", "--to-offset", "2", "--value-format", "protobuf"),
            '{"id":"8"}',
        ),
        (
            ("--from-offset", "3", "--value-format", "confluent"),
            '{"id":7}\n{"id":"8"}\n{"id":9}',
        ),
    ],
)
def test_payloads(payload_directory: Path, arguments: tuple[str, ...], text: str) -> None:
    schema_options: tuple[str | Path, ...] = ()
    if "avro" in arguments:
        schema_options = ("--value-schema", payload_directory / "r.avsc")
    elif "protobuf" in arguments:
        schema_options = ("--value-schema", f"{payload_directory / 'm.desc'}:p.M")
    elif "confluent" in arguments:
        schema_options = ("--schemas", payload_directory / "schemas")
    result = kfmt("cat", payload_directory / "log-0", *arguments, *schema_options)
    assert (result.out.strip(), result.err) == (text, "")
    if "-f" not in arguments:
        output = kfmt(
            "dump", payload_directory / "log-0", "--records", *arguments, *schema_options
        ).out
        assert all(line in output for line in text.splitlines()), output


def test_payload_readers_are_created_once_per_process(payload_directory: Path) -> None:
    payloads = PayloadDeclarations(
        value=PayloadDeclaration("confluent", SchemaSource(directory=payload_directory / "schemas"))
    )
    assert payloads.readers is payloads.readers
    assert payloads.readers[0] is None
    unpickled = pickle.loads(pickle.dumps(payloads))  # noqa: S301 (readers are not pickled)
    assert (unpickled, "readers" in vars(unpickled)) == (payloads, False)


def test_threads_share_what_reads_payloads(tmp_path: Path) -> None:
    """Values of many items, whose sizes are checked first."""
    schema = {"type": "array", "items": "string"}
    (tmp_path / "tags.avsc").write_text(json.dumps(schema))
    decoder = PayloadDeclarations(
        value=PayloadDeclaration("avro", SchemaSource(file=tmp_path / "tags.avsc"))
    ).decoder
    assert decoder is not None
    values = []
    for n in range(200):
        buffer = BytesIO()
        fastavro.schemaless_writer(buffer, schema, [f"tag {i}" for i in range(n % 37)])
        values.append(buffer.getvalue())
    expected = [decoder.decode_value(None, value) for value in values]
    assert "cannot be decoded" not in str(expected)
    with ThreadPoolExecutor(8) as pool:
        tasks = [
            pool.submit(lambda: [decoder.decode_value(None, payload) for payload in values])
            for _ in range(64)
        ]
        assert all(task.result() == expected for task in tasks)


def test_what_does_not_decode_is_written_as_it_is(payload_directory: Path) -> None:
    result = kfmt("cat", ORDERS, "--value-format", "long", "--limit", "3", "--from-offset", "1")
    assert result.out == kfmt("cat", ORDERS, "--limit", "3", "--from-offset", "1").out
    assert "cannot be decoded as long" in result.err
    arguments = (
        "--value-format",
        "confluent",
        "--schemas",
        payload_directory / "schemas",
        "--limit",
        "1",
    )
    assert "zero byte" in kfmt("cat", ORDERS, *arguments, "--from-offset", "1").err
    for missing in ("avro", "protobuf", "confluent"):
        assert kfmt("cat", ORDERS, "--value-format", missing).code == 2


def test_notes_of_what_does_not_decode_are_capped_and_counted(tmp_path: Path) -> None:
    for n, suppressed_note in ((10, ""), (11, "1 more"), (200, "190 more")):
        records = b"".join(record(b"k", b"no long", delta) for delta in range(n))
        log = write(tmp_path / str(n), batch_of(records, 0, n))
        result = kfmt("cat", log, "--value-format", "long")
        notes = result.err.splitlines()
        assert [int(note.split()[1].rstrip(":")) for note in notes[:10]] == list(range(10))
        assert len(notes) == 10 + bool(suppressed_note)
        assert suppressed_note in notes[-1]


def test_dump_takes_the_same_formats(payload_directory: Path) -> None:
    arguments = ("--records", "--json", "--value-format", "avro")
    result = kfmt(
        "dump",
        payload_directory / "log-0",
        *arguments,
        "--value-schema",
        payload_directory / "r.avsc",
    )
    (row,) = [row for row in result.of("record") if row["offset"] == 1]
    assert row["decoded_value"] == {"format": "avro", "value": {"id": 7}}
    assert kfmt("dump", payload_directory / "log-0", "--value-format", "json").code == 2


def test_damaged_batches_are_left_out(tmp_path: Path) -> None:
    result = kfmt("cat", "damaged_segments/flipped-bit-0", "-f", "%o\\n")
    assert result.code == 1
    assert "crc-mismatch" in result.err
    assert [int(text) for text in result.out.split()] == [*range(60), *range(80, 240)]
    assert kfmt("cat", tmp_path / "nothing").code == 3


def test_findings_of_records_are_capped(tmp_path: Path) -> None:
    """--max-findings limits each code in a file, for batches and for records."""
    data = sample(ORDERS)[name(0)]
    pairs = list(pairwise(positions(data)))
    log = b"".join(record_malformed(data[start:end]) for start, end in pairs)
    (tmp_path / name(0)).write_bytes(log)
    result = kfmt("cat", tmp_path / name(0), "--max-findings", "2", "-f", "%o\\n")
    assert result.code == 1
    assert result.err.count("error    record-malformed") == 2
    assert f"{len(pairs) - 2} more record-malformed" in result.err


def test_a_log_that_grows(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    files = sample(ORDERS)
    log = directory / name(0)
    log.write_bytes(files[name(0)][:1000])
    command = [sys.executable, "-m", "kfmt_cli", "cat", str(directory), "--follow", "-f", "%o\\n"]
    with subprocess.Popen([*command, "--limit", "260"], stdout=subprocess.PIPE) as follower:
        time.sleep(1)
        log.write_bytes(files[name(0)])
        time.sleep(0.5)
        (directory / name(240)).write_bytes(files[name(240)])
        out, _ = follower.communicate(timeout=60)
    assert [int(data) for data in out.split()] == list(range(260))


def test_committed_needs_no_index() -> None:
    assert read_committed_records([], []).last_stable_offset == 0
    committed = offsets(TXN, "--isolation", "read_committed")
    all_offsets = offsets(TXN)
    assert set(committed) < set(all_offsets)


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
def test_committed_records_are_those_of_a_real_consumer() -> None:
    live = kafka.SAMPLES / "kafka-3.9.1-live/txn-0"
    other = kafka.SAMPLES / "kafka-3.9.1-broker2/txn-1"
    partitions = [TXN, live, other]
    consumed = broker.consume_all(partitions, True, "read_committed")
    for partition, messages in zip(partitions, consumed, strict=True):
        assert offsets(partition, "--isolation", "read_committed") == [
            message.offset for message in messages
        ]
