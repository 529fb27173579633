"""cat: what it writes, which records it chooses, how it reads keys and values."""

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

from kfmt_cli.broker.transactions.committed import find_committed
from kfmt_cli.topics.payloads import PayloadDeclaration, PayloadDeclarations, SchemaSource
from tests.support.broken_partitions import ORDERS, TXN, name, record_malformed, sample
from tests.support.rebuild import batch_of, record
from tests.support.samples import kfmt
from tests.support.segments import positions, write
from tools import broker, kafka

V1 = kafka.SAMPLES / "kafka-2.8.2/v1-none-0"


def offsets(*arguments: str | Path) -> list[int]:
    """The offsets that are written."""
    return [int(text) for text in kfmt("cat", *arguments, "-f", "%o\\n").out.split()]


def records(partition: Path) -> list[dict[str, object]]:
    """The records of a partition, as dump has them."""
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
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of payloads: a long, Avro, Protobuf and a registry's framing of three kinds."""
    folder = tmp_path_factory.mktemp("payloads")
    avro = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    (folder / "r.avsc").write_text(json.dumps(avro))
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="p", syntax="proto3")
    message = file.message_type.add(name="M")
    field = message.field.add(name="id", number=1, type=3, label=1)
    assert field.number == 1
    (folder / "m.desc").write_bytes(
        descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    )
    schemas = folder / "schemas"
    schemas.mkdir()
    shutil.copy(folder / "r.avsc", schemas / "1.avsc")
    shutil.copy(folder / "m.desc", schemas / "2.desc")
    (schemas / "3.json").write_text("{}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.M"))
    written = BytesIO()
    fastavro.schemaless_writer(written, avro, {"id": 7})
    of_avro, of_proto = written.getvalue(), made(id=8).SerializeToString()
    values = [
        struct.pack(">q", 5),
        of_avro,
        of_proto,
        b"\0\0\0\0\1" + of_avro,
        b"\0\0\0\0\2\0" + of_proto,
        b'\0\0\0\0\3{"id":9}',
    ]
    lines = [json.dumps(_line(i, value)) for i, value in enumerate(values)]
    done = kfmt("build", "-", folder / "log-0", stdin="\n".join(lines).encode())
    assert done.code == 0, done.err
    return folder


def test_every_part_of_a_record() -> None:
    form = "%t|%p|%o|%T|%K|%k|%S|%s|%h|%%\\x41\\t\\n"
    (line,) = kfmt("cat", ORDERS, "-f", form, "--from-offset", "1", "--limit", "1").out.splitlines()
    assert line.startswith("orders|0|1|1699999999235|10|customer-1|117|{")
    assert line.endswith("}||%A\t")
    assert kfmt("cat", ORDERS, "-f", "%k %K %S\n", "--limit", "1").out == "NULL -1 -1\n"
    assert kfmt("cat", ORDERS, "-f", "%k\n", "--limit", "1", "--null", "∅").out == "∅\n"
    rows = kfmt("dump", ORDERS, "--records", "--json").of("record")
    plain = [
        row for row in rows if len(row["headers"]) > 1 and "encoding" not in str(row["headers"])
    ]
    for row in plain[:3]:
        at = str(row["offset"])
        done = kfmt("cat", ORDERS, "-f", "%h", "--from-offset", at, "--to-offset", at)
        values = (
            (item["key"], "NULL" if item["value"] is None else item["value"])
            for item in row["headers"]
        )
        assert done.out == ",".join(f"{key}={value}" for key, value in values)


def test_all_records_of_every_sample() -> None:
    for partition in (ORDERS, TXN, V1, kafka.SAMPLES / "kafka-2.8.2/v1-gzip-0"):
        assert offsets(partition) == [record["offset"] for record in records(partition)]


def test_wrong_format_strings() -> None:
    for form in ("%q", "%", "\\xzz"):
        assert kfmt("cat", ORDERS, "-f", form).code == 2


def test_bounds() -> None:
    assert offsets(ORDERS, "--from-offset", "470", "--to-offset", "490") == list(range(470, 491))
    times = {
        int(str(record["offset"])): int(str(record["timestamp"])) for record in records(ORDERS)
    }
    first, last = times[300], times[700]
    low, high = min(first, last), max(first, last)
    wanted = [offset for offset, at in times.items() if low <= at <= high]
    assert offsets(ORDERS, "--from-time", str(low), "--to-time", str(high)) == wanted


def test_keys_and_values() -> None:
    rows = kfmt("dump", ORDERS, "--records", "--json").of("record")
    of_key = [row["offset"] for row in rows if row["key"] == "customer-7"]
    assert offsets(ORDERS, "--key", "customer-7") == of_key != []
    assert offsets(ORDERS, "--key", f"hex:{b'customer-7'.hex()}") == of_key
    assert offsets(ORDERS, "--key", "~^customer-7$") == of_key
    amber = [row["offset"] for row in rows if "amber" in (row["value"] or "")]
    assert offsets(ORDERS, "--value", "~amber") == amber != []
    value = next(row["value"] for row in rows if row["value"])
    assert offsets(ORDERS, "--value", value) == [
        row["offset"] for row in rows if row["value"] == value
    ]
    assert kfmt("cat", ORDERS, "--key", "~(").code == 2


def test_headers() -> None:
    rows = kfmt("dump", ORDERS, "--records", "--json").of("record")

    def having(name: str, value: str | None) -> list[int]:
        return [
            row["offset"]
            for row in rows
            if any(h["key"] == name and value in (None, h["value"]) for h in row["headers"])
        ]

    assert offsets(ORDERS, "--header", "trace-id") == having("trace-id", None) != []
    wanted = having("trace-id", "00000000")
    assert offsets(ORDERS, "--header", "trace-id=00000000") == wanted != []
    assert offsets(ORDERS, "--header", "trace-id=~^0+$") == wanted


def test_headers_are_written_however_many_a_record_has(tmp_path: Path) -> None:
    records = [
        {"value": "v", "headers": [{"key": f"h{i}", "value": "x"} for i in range(n)]}
        for n in (0, 1, 2)
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    for n, shown in ((0, ""), (1, "h0=x"), (2, "h0=x,h1=x")):
        folder = tmp_path / str(n)  # where no record has more than this one
        line = lines.splitlines()[n]
        assert kfmt("build", "-", folder, stdin=line.encode()).code == 0
        assert kfmt("cat", folder, "-f", "%h\n").out == f"{shown}\n"
    assert kfmt("build", "-", tmp_path / "all", stdin=lines.encode()).code == 0
    assert kfmt("cat", tmp_path / "all", "-f", "%h\n").out == "\nh0=x\nh0=x,h1=x\n"


def test_a_producer() -> None:
    batches = kfmt("dump", TXN, "--json").of("batch")
    wanted = {
        offset
        for batch in batches
        if batch["producer_id"] == 0 and not batch["attributes"]["control"]
        for offset in range(batch["base_offset"], batch["last_offset"] + 1)
    }
    assert set(offsets(TXN, "--producer-id", "0")) == wanted != set()


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
def test_payloads(built: Path, arguments: tuple[str, ...], text: str) -> None:
    more: tuple[str | Path, ...] = ()
    if "avro" in arguments:
        more = ("--value-schema", built / "r.avsc")
    elif "protobuf" in arguments:
        more = ("--value-schema", f"{built / 'm.desc'}:p.M")
    elif "confluent" in arguments:
        more = ("--schemas", built / "schemas")
    done = kfmt("cat", built / "log-0", *arguments, *more)
    assert (done.out.strip(), done.err) == (text, "")
    if "-f" not in arguments:
        shown = kfmt("dump", built / "log-0", "--records", *arguments, *more).out
        assert all(said in shown for said in text.splitlines()), shown


def test_readers_of_payloads_are_made_once_in_each_process(built: Path) -> None:
    payloads = PayloadDeclarations(
        value=PayloadDeclaration("confluent", SchemaSource(directory=built / "schemas"))
    )
    assert payloads.readers is payloads.readers
    assert payloads.readers[0] is None
    sent = pickle.loads(pickle.dumps(payloads))  # noqa: S301 (what reads does not go along)
    assert (sent, "readers" in vars(sent)) == (payloads, False)


def test_threads_share_what_reads_payloads(tmp_path: Path) -> None:
    """Values of many items, whose bounds are looked at first."""
    schema = {"type": "array", "items": "string"}
    (tmp_path / "tags.avsc").write_text(json.dumps(schema))
    decoder = PayloadDeclarations(
        value=PayloadDeclaration("avro", SchemaSource(file=tmp_path / "tags.avsc"))
    ).decoder
    assert decoder is not None
    values = []
    for n in range(200):
        out = BytesIO()
        fastavro.schemaless_writer(out, schema, [f"tag {i}" for i in range(n % 37)])
        values.append(out.getvalue())
    expected = [decoder.decode_value(None, value) for value in values]
    assert "cannot be decoded" not in str(expected)
    with ThreadPoolExecutor(8) as pool:
        tasks = [
            pool.submit(lambda: [decoder.decode_value(None, of) for of in values])
            for _ in range(64)
        ]
        assert all(task.result() == expected for task in tasks)


def test_what_does_not_decode_is_written_as_it_is(built: Path) -> None:
    done = kfmt("cat", ORDERS, "--value-format", "long", "--limit", "3", "--from-offset", "1")
    assert done.out == kfmt("cat", ORDERS, "--limit", "3", "--from-offset", "1").out
    assert "cannot be decoded as long" in done.err
    arguments = ("--value-format", "confluent", "--schemas", built / "schemas", "--limit", "1")
    assert "zero byte" in kfmt("cat", ORDERS, *arguments, "--from-offset", "1").err
    for missing in ("avro", "protobuf", "confluent"):
        assert kfmt("cat", ORDERS, "--value-format", missing).code == 2


def test_notes_of_what_does_not_decode_are_capped_and_counted(tmp_path: Path) -> None:
    for n, more in ((10, ""), (11, "1 more"), (200, "190 more")):
        records = b"".join(record(b"k", b"no long", delta) for delta in range(n))
        log = write(tmp_path / str(n), batch_of(records, 0, n))
        done = kfmt("cat", log, "--value-format", "long")
        notes = done.err.splitlines()
        assert [int(note.split()[1].rstrip(":")) for note in notes[:10]] == list(range(10))
        assert len(notes) == 10 + bool(more)
        assert more in notes[-1]


def test_dump_takes_the_same_formats(built: Path) -> None:
    arguments = ("--records", "--json", "--value-format", "avro")
    done = kfmt("dump", built / "log-0", *arguments, "--value-schema", built / "r.avsc")
    (row,) = [row for row in done.of("record") if row["offset"] == 1]
    assert row["decoded_value"] == {"format": "avro", "value": {"id": 7}}
    assert kfmt("dump", built / "log-0", "--value-format", "json").code == 2


def test_damaged_batches_are_left_out(tmp_path: Path) -> None:
    done = kfmt("cat", "damaged_segments/flipped-bit-0", "-f", "%o\\n")
    assert done.code == 1
    assert "crc-mismatch" in done.err
    assert [int(text) for text in done.out.split()] == [*range(60), *range(80, 240)]
    assert kfmt("cat", tmp_path / "nothing").code == 3


def test_findings_of_records_are_capped(tmp_path: Path) -> None:
    """Each kind in one file is shown so often, whether batches or their records have it."""
    data = sample(ORDERS)[name(0)]
    pairs = list(pairwise(positions(data)))
    log = b"".join(record_malformed(data[at:end]) for at, end in pairs)
    (tmp_path / name(0)).write_bytes(log)
    done = kfmt("cat", tmp_path / name(0), "--max-findings", "2", "-f", "%o\\n")
    assert done.code == 1
    assert done.err.count("error    record-malformed") == 2
    assert f"{len(pairs) - 2} more record-malformed" in done.err


def test_a_log_that_grows(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    files = sample(ORDERS)
    log = folder / name(0)
    log.write_bytes(files[name(0)][:1000])
    command = [sys.executable, "-m", "kfmt_cli", "cat", str(folder), "--follow", "-f", "%o\\n"]
    with subprocess.Popen([*command, "--limit", "260"], stdout=subprocess.PIPE) as follower:
        time.sleep(1)
        log.write_bytes(files[name(0)])
        time.sleep(0.5)
        (folder / name(240)).write_bytes(files[name(240)])
        out, _ = follower.communicate(timeout=60)
    assert [int(data) for data in out.split()] == list(range(260))


def test_committed_needs_no_index() -> None:
    assert find_committed([]).last_stable_offset == 0
    kept = offsets(TXN, "--isolation", "read_committed")
    everything = offsets(TXN)
    assert set(kept) < set(everything)


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
def test_committed_records_are_those_of_a_real_consumer() -> None:
    live = kafka.SAMPLES / "kafka-3.9.1-live/txn-0"
    other = kafka.SAMPLES / "kafka-3.9.1-broker2/txn-1"
    partitions = [TXN, live, other]
    consumed = broker.consume_all(partitions, True, "read_committed")
    for partition, its in zip(partitions, consumed, strict=True):
        assert offsets(partition, "--isolation", "read_committed") == [
            consumed.offset for consumed in its
        ]
