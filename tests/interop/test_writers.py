"""Kafka's own tool, broker and consumer, and another client, read the logs that kfmt writes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, TXN, Row, environment, kfmt
from tools import broker, kafka
from tools.kafka import SAMPLES

needs_kafka = pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
WRITTEN = [
    (magic, codec)
    for magic in ("0", "1", "2")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    if magic == "2" or codec != "zstd"
]


def write_segment(directory: Path, magic: str, codec: str, n: int = 200) -> Path:
    """Write a segment with that magic and codec; some values compress, others do not."""
    lines = []
    for i in range(n):
        value = f"value {i} " * (i % 90) if i % 7 else None
        row: Row = {"key": f"k{i}" if i % 5 else None, "value": value, "timestamp": 1000 + i}
        if magic == "2" and i % 3 == 0:
            row["headers"] = [{"key": "h", "value": str(i)}, {"key": "null", "value": None}]
        lines.append(json.dumps(row))
    output = directory / f"magic{magic}-{codec}-0"
    text = "\n".join(lines).encode()
    options = ("--magic", magic, "--compression", codec, "--batch-records", "64")
    result = kfmt("build", "-", output, *options, stdin=text)
    assert result.code == 0, result.err
    return output


def expected_records(path: Path) -> list[broker.Consumed]:
    """The records of a log that a consumer must receive, as kfmt reads them."""
    records = []
    for row in kfmt("dump", path, "--records", "--json", "--bytes", "hex").of("record"):
        if "control" in row:
            continue
        headers = tuple((item["key"], _bytes(item["value"])) for item in row["headers"] or ())
        has_no_time = row["timestamp"] is None
        records.append(
            broker.Consumed(
                row["offset"],
                -1 if has_no_time else row["timestamp"],
                "CreateTime" if has_no_time else row["timestamp_type"],
                _bytes(row["key"]),
                _bytes(row["value"]),
                tuple((bytes.fromhex(name).decode(), value) for name, value in headers),
            )
        )
    return records


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.interop
@needs_kafka
def test_kafka_dump_log_takes_every_magic_and_codec(tmp_path: Path) -> None:
    logs = [next(write_segment(tmp_path, *pair).glob("*.log")) for pair in WRITTEN]
    for log, text in kafka.dump_log(kafka.VERSION, logs, tmp_path).items():
        valid = re.findall(r"isvalid: (\w+)", text)
        assert set(valid) == {"true"}, log
        assert len(re.findall(r"^\| offset", text, re.MULTILINE)) == 200, log
        assert not re.search(r"isValid: false|invalid bytes", text)


# aiokafka refuses every lz4 log of magic 0; kafka-dump-log reads it above.
@pytest.mark.parametrize(("magic", "codec"), [pair for pair in WRITTEN if pair != ("0", "lz4")])
def test_aiokafka_reads_every_magic_and_codec(magic: str, codec: str, tmp_path: Path) -> None:
    memory_records = pytest.importorskip("aiokafka.record.memory_records")
    log = next(write_segment(tmp_path, magic, codec).glob("*.log"))
    batches = memory_records.MemoryRecords(log.read_bytes())
    records = []
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        records += [(item.offset, item.key, item.value) for item in batch]
    assert records == [
        (record.offset, record.key, record.value) for record in expected_records(log)
    ]


@pytest.mark.brokers
@pytest.mark.interop
@needs_kafka
def test_a_broker_serves_what_was_converted_and_built(tmp_path: Path) -> None:
    names = ["v0-none-0", "v0-lz4-0", "v1-snappy-0", "v1-appendtime-0", "upgraded-0"]
    names += ["v0-compacted-0", "v1-none-0"]
    originals = [SAMPLES / "kafka-2.8.2" / name for name in names]
    originals.append(SAMPLES / "kafka-0.8.2.2/real08-none-0")
    written = []
    for original in originals:
        output = tmp_path / original.name
        assert kfmt("convert-v0-to-v2", original, output).code == 0
        written.append(output)
    for sample in (ORDERS.parent, TXN.parent):
        rows = kfmt("dump", sample, "--records", "--json").out.encode()
        output = tmp_path / f"built-{sample.name}"
        assert kfmt("build", "-", output, stdin=rows).code == 0
        written.append(output)
        originals.append(sample)
    for recover in (True, False):
        served = broker.consume_all(written, recover=recover)
        for partition, original, records in zip(written, originals, served, strict=True):
            assert records == expected_records(partition), (partition.name, recover)
            assert records == expected_records(original), (partition.name, recover)
    partitions = [written[-1], TXN.parent]
    committed, expected = broker.consume_all(partitions, False, "read_committed")
    assert committed == expected
    assert len(committed) < len(expected_records(TXN.parent))


@pytest.mark.interop
@needs_kafka
def test_a_broker_starts_next_to_leftovers_of_killed_runs(tmp_path: Path) -> None:
    data = tmp_path / "logs"
    data.mkdir()
    broker.copy(ORDERS.parent, data / f"{broker.topic(0)}-0", recover=True)
    large = tmp_path / "large" / f"{0:020}.log"
    large.parent.mkdir()
    with large.open("wb") as file:
        for _ in range(3000):
            file.write((SAMPLES / "kafka-2.8.2/v1-none-0" / f"{0:020}.log").read_bytes())
    lines = json.dumps({"value": "x" * 1000}).encode() + b"\n"
    partition = data / f"{broker.topic(0)}-0"
    commands: list[list[str | Path]] = [
        ["build", "-", data / "new-0"],
        ["build", "-", data],
        ["build", "-", partition, "--base-offset", "9000"],
        ["convert-v0-to-v2", large.parent, data / "new-1"],
        ["rebuild-index", large, data / "new-2"],
    ]
    leftovers: list[tuple[Path, Path]] = []  # moved, as the next run would remove them
    (tmp_path / "aside").mkdir()
    for command in commands:
        before = set(data.rglob("*"))
        process = subprocess.Popen(
            [sys.executable, "-m", "kfmt_cli", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        assert process.stdin is not None
        if command[0] == "build":
            process.stdin.write(lines * 20_000)  # and more might come
        deadline = time.monotonic() + 60
        while not any(path.name.endswith(".log") for path in set(data.rglob("*")) - before):
            assert process.poll() is None
            assert time.monotonic() < deadline
            if command[0] == "rebuild-index" and set(data.rglob("*")) - before:
                break
        process.kill()
        process.wait()
        process.stdin.close()
        (leftover,) = [*data.glob("kfmt-unfinished-*"), *partition.glob("kfmt-unfinished-*")]
        leftovers.append((leftover.rename(tmp_path / "aside" / leftover.name), leftover))
    for moved, original_path in leftovers:
        moved.rename(original_path)
    (partition / f".kfmt-unfinished-{32 * 'a'}.deleted").write_bytes(b"half an index")
    served = [json.loads(line) for line in broker.run(data, [{}], "read_uncommitted").splitlines()]
    assert [item[1] for item in served] == [
        record.offset for record in expected_records(ORDERS.parent)
    ]
    assert not (partition / f".kfmt-unfinished-{32 * 'a'}.deleted").exists()
