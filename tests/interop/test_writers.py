"""What kfmt writes is read by Kafka's own tool, broker and consumer, and by another client."""

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


def write(folder: Path, magic: str, codec: str, n: int = 200) -> Path:
    """A segment of that magic and codec, with values that compress and some that do not."""
    lines = []
    for i in range(n):
        value = f"value {i} " * (i % 90) if i % 7 else None
        row: Row = {"key": f"k{i}" if i % 5 else None, "value": value, "timestamp": 1000 + i}
        if magic == "2" and i % 3 == 0:
            row["headers"] = [{"key": "h", "value": str(i)}, {"key": "null", "value": None}]
        lines.append(json.dumps(row))
    out = folder / f"magic{magic}-{codec}-0"
    text = "\n".join(lines).encode()
    options = ("--magic", magic, "--compression", codec, "--batch-records", "64")
    done = kfmt("build", "-", out, *options, stdin=text)
    assert done.code == 0, done.err
    return out


def consumed(path: Path) -> list[broker.Consumed]:
    """What kfmt says a consumer must be given of a log."""
    found = []
    for row in kfmt("dump", path, "--records", "--json", "--bytes", "hex").of("record"):
        if "control" in row:
            continue
        headers = tuple((item["key"], _bytes(item["value"])) for item in row["headers"] or ())
        none = row["timestamp"] is None
        found.append(
            broker.Consumed(
                row["offset"],
                -1 if none else row["timestamp"],
                "CreateTime" if none else row["timestamp_type"],
                _bytes(row["key"]),
                _bytes(row["value"]),
                tuple((bytes.fromhex(name).decode(), value) for name, value in headers),
            )
        )
    return found


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.interop
@needs_kafka
def test_kafka_dump_log_takes_every_magic_and_codec(tmp_path: Path) -> None:
    logs = [next(write(tmp_path, *pair).glob("*.log")) for pair in WRITTEN]
    for log, text in kafka.dump_log(kafka.VERSION, logs, tmp_path).items():
        valid = re.findall(r"isvalid: (\w+)", text)
        assert set(valid) == {"true"}, log
        assert len(re.findall(r"^\| offset", text, re.MULTILINE)) == 200, log
        assert not re.search(r"isValid: false|invalid bytes", text)


# aiokafka refuses lz4 of magic 0 whoever wrote it; kafka-dump-log reads it above.
@pytest.mark.parametrize(("magic", "codec"), [pair for pair in WRITTEN if pair != ("0", "lz4")])
def test_aiokafka_reads_every_magic_and_codec(magic: str, codec: str, tmp_path: Path) -> None:
    memory_records = pytest.importorskip("aiokafka.record.memory_records")
    log = next(write(tmp_path, magic, codec).glob("*.log"))
    batches = memory_records.MemoryRecords(log.read_bytes())
    found = []
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        found += [(item.offset, item.key, item.value) for item in batch]
    assert found == [
        (each_consumed.offset, each_consumed.key, each_consumed.value)
        for each_consumed in consumed(log)
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
        out = tmp_path / original.name
        assert kfmt("convert-v0-to-v2", original, out).code == 0
        written.append(out)
    for sample in (ORDERS.parent, TXN.parent):
        dumped = kfmt("dump", sample, "--records", "--json").out.encode()
        out = tmp_path / f"built-{sample.name}"
        assert kfmt("build", "-", out, stdin=dumped).code == 0
        written.append(out)
        originals.append(sample)
    for recover in (True, False):
        served = broker.consume_all(written, recover=recover)
        for partition, original, records in zip(written, originals, served, strict=True):
            assert records == consumed(partition), (partition.name, recover)
            assert records == consumed(original), (partition.name, recover)
    both = [written[-1], TXN.parent]
    committed, expected = broker.consume_all(both, False, "read_committed")
    assert committed == expected
    assert len(committed) < len(consumed(TXN.parent))


@pytest.mark.interop
@needs_kafka
def test_a_broker_starts_beside_what_killed_runs_left(tmp_path: Path) -> None:
    data = tmp_path / "logs"
    data.mkdir()
    broker.copy(ORDERS.parent, data / f"{broker.topic(0)}-0", recover=True)
    large = tmp_path / "large" / f"{0:020}.log"
    large.parent.mkdir()
    with large.open("wb") as out:
        for _ in range(3000):
            out.write((SAMPLES / "kafka-2.8.2/v1-none-0" / f"{0:020}.log").read_bytes())
    lines = json.dumps({"value": "x" * 1000}).encode() + b"\n"
    partition = data / f"{broker.topic(0)}-0"
    commands: list[list[str | Path]] = [
        ["build", "-", data / "new-0"],
        ["build", "-", data],
        ["build", "-", partition, "--base-offset", "9000"],
        ["convert-v0-to-v2", large.parent, data / "new-1"],
        ["rebuild-index", large, data / "new-2"],
    ]
    kept: list[tuple[Path, Path]] = []  # the next run would take it away, there and next to it
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
        until = time.monotonic() + 60
        while not any(path.name.endswith(".log") for path in set(data.rglob("*")) - before):
            assert process.poll() is None
            assert time.monotonic() < until
            if command[0] == "rebuild-index" and set(data.rglob("*")) - before:
                break
        process.kill()
        process.wait()
        process.stdin.close()
        (left,) = [*data.glob("kfmt-unfinished-*"), *partition.glob("kfmt-unfinished-*")]
        kept.append((left.rename(tmp_path / "aside" / left.name), left))
    for aside, place in kept:
        aside.rename(place)
    (partition / ".kfmt-unfinished-abc.deleted").write_bytes(b"half an index")
    served = [json.loads(line) for line in broker.run(data, [{}], "read_uncommitted").splitlines()]
    assert [item[1] for item in served] == [
        each_consumed.offset for each_consumed in consumed(ORDERS.parent)
    ]
    assert not (partition / ".kfmt-unfinished-abc.deleted").exists()
