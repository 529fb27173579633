"""salvage --as and build --topic: records under another topic's name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.samples import Row, kfmt
from tools import broker, kafka
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
needs_kafka = pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))


def values(directory: Path) -> list[tuple[Row, Row]]:
    """Offsets and values of a partition's records."""
    rows = kfmt("dump", directory, "--records", "--json").of("record")
    return [(row["offset"], row["value"]) for row in rows]


def test_a_partition_becomes_one_of_another_topic(tmp_path: Path) -> None:
    result = kfmt("salvage", BROKER / "orders-0", tmp_path / "out", "--as", "restored")
    assert result.code == 0, result.err
    partition = tmp_path / "out/restored-0"
    assert [*(tmp_path / "out").iterdir()] == [partition]
    assert values(partition) == values(BROKER / "orders-0")
    assert not (partition / "partition.metadata").exists()
    assert (partition / "leader-epoch-checkpoint").exists()
    assert "no damage" in kfmt("check", partition).out


def test_every_partition_of_a_topic_is_renamed(tmp_path: Path) -> None:
    for partition in (0, 3):
        shutil.copytree(BROKER / "orders-0", tmp_path / f"in/orders-{partition}")
    shutil.copy(BROKER / "meta.properties", tmp_path / "in")
    result = kfmt("salvage", tmp_path / "in", tmp_path / "out", "--as", "restored")
    assert result.code == 0, result.err
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "restored-0",
        "restored-3",
    ]


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        (BROKER, "restored", "needs the partitions of one topic"),
        (BROKER / "orders-0", "a/b", "a–z"),
    ],
)
def test_several_topics_and_invalid_names_are_refused(
    source: Path, name: str, message: str, tmp_path: Path
) -> None:
    result = kfmt("salvage", source, tmp_path / "out", "--as", name)
    assert (result.code, message in result.err) == (2, True)
    assert not (tmp_path / "out").exists()


def test_lines_become_records_of_another_topic(tmp_path: Path) -> None:
    dumped = kfmt("dump", BROKER / "orders-0", "--records", "--json").out.encode()
    result = kfmt("build", "-", tmp_path / "out", "--as", "restored", stdin=dumped)
    assert result.code == 0, result.err
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["restored-0"]
    assert values(tmp_path / "out/restored-0") == values(BROKER / "orders-0")
    line = b'{"value":"a"}'
    assert kfmt("build", "-", tmp_path / "one", "--as", "t", stdin=line).code == 0
    assert (tmp_path / f"one/t-0/{0:020}.log").exists()


def test_lines_of_two_topics_are_refused(tmp_path: Path) -> None:
    lines = b"".join(
        kfmt("dump", BROKER / name, "--records", "--json", "--limit", "1").out.encode()
        for name in ("codec-gzip-0", "codec-none-0")
    )
    result = kfmt("build", "-", tmp_path / "out", "--as", "restored", stdin=lines)
    assert (result.code, "lines of two topics" in result.err) == (2, True)


@pytest.mark.brokers
@pytest.mark.interop
@needs_kafka
@pytest.mark.parametrize("command", ["salvage", "build"])
def test_a_consumer_reads_the_new_topic(command: str, tmp_path: Path) -> None:
    """The topic is created first: its partition.metadata has the new id, and stays."""
    data, source = tmp_path / "data", BROKER / "orders-0"
    if command == "salvage":
        result = kfmt("salvage", source, data, "--as", broker.topic(0))
    else:
        dumped = kfmt("dump", source, "--records", "--json").out.encode()
        result = kfmt("build", "-", data, "--as", broker.topic(0), stdin=dumped)
    assert result.code == 0, result.err
    served = [json.loads(line) for line in broker.run(data, [{}], "read_uncommitted").splitlines()]
    assert {item[0] for item in served} == {broker.topic(0)}
    assert [item[1] for item in served] == [offset for offset, _ in values(source)]
