"""The partition of a key: Kafka's and librdkafka's hashes, and partition-of --key."""

from __future__ import annotations

import random
import subprocess
import zlib
from pathlib import Path

import pytest

from kfmt_cli.broker.partitioners import PARTITIONERS, fnv1a, hash_to_partition, murmur2
from tests.support.samples import kfmt
from tools import kafka
from tools.kafka import SAMPLES


# org.apache.kafka.common.utils.UtilsTest.testMurmur2
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: str, expected: int) -> None:
    assert murmur2(key.encode()) == expected


def test_fnv1a_is_an_absolute_value() -> None:
    assert fnv1a(b"") == 0x7EE3623B
    assert fnv1a(b"a") == -(0xE40C292C - (1 << 32))


def test_crc32_is_not_signed() -> None:
    key = next(key for key in (b"%d" % i for i in range(9)) if zlib.crc32(key) >> 31)
    assert hash_to_partition(PARTITIONERS["consistent"](key), 7) == zlib.crc32(key) % 7


def test_keys_are_where_a_real_producer_sent_them() -> None:
    n_keys = 0
    for log in SAMPLES.glob("kafka-*/*-*/"):
        topic, _, partition = log.name.rpartition("-")
        n_partitions = len([*log.parent.glob(f"{topic}-[0-9]*")])
        if topic not in ("orders", "compacted", "txn") or n_partitions < 2:
            continue
        for row in kfmt("dump", log, "--records", "--json", "--bytes", "hex").of("record"):
            if row["key"] is not None and "control" not in row:
                key = bytes.fromhex(row["key"])
                assert hash_to_partition(murmur2(key), n_partitions) == int(partition), (log, key)
                n_keys += 1
    assert n_keys > 100


def test_the_command_takes_keys_as_other_commands_do() -> None:
    keys = ("foobar", "hex:666f6f626172", "base64:Zm9vYmFy")
    options = [argument for key in keys for argument in ("--key", key)]
    rows = kfmt("partition-of", *options, "--partitions", "12", "--json").of("partition_of_key")
    expected = (-790332482 & 0x7FFFFFFF) % 12
    assert [(row["key"], row["hash"], row["partition"]) for row in rows] == [
        (key, -790332482, expected) for key in keys
    ]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--key", "a"), "--key needs --partitions"),
        (("--key", "~a", "--partitions", "2"), "needs an exact key"),
        (
            ("--key", "", "--partitions", "2", "--partitioner", "consistent_random"),
            "sends an empty key to any partition",
        ),
    ],
)
def test_what_has_no_partition_is_refused(arguments: tuple[str, ...], reason: str) -> None:
    result = kfmt("partition-of", *arguments)
    assert result.code == 2
    assert reason in result.err


def keys_of_all_lengths() -> list[bytes]:
    """Keys with every remainder of four, bytes above 127 included."""
    source = random.Random(1)
    return [b"", *(source.randbytes(size) for size in range(1, 40) for _ in range(5))]


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_librdkafka_sends_keys_there(partitioner: str) -> None:
    """Its mock cluster has 4 partitions per topic."""
    clients = pytest.importorskip("confluent_kafka")
    settings = {"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0}
    producer = clients.Producer({**settings, "partitioner": partitioner})
    sent: dict[bytes, int] = {}
    for key in keys_of_all_lengths():
        if not key and partitioner == "consistent_random":
            continue
        producer.produce(
            "keys",
            key=key,
            on_delivery=lambda _, message: sent.update({message.key() or b"": message.partition()}),
        )
    assert producer.flush(30) == 0
    assert len(sent) >= 180
    assert sent == {key: hash_to_partition(PARTITIONERS[partitioner](key), 4) for key in sent}


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
def test_kafkas_own_partitioner_agrees() -> None:
    classes = kafka.compiled(kafka.VERSION, Path(__file__).parent.parent / "support/Keys.java")
    keys = [key for key in keys_of_all_lengths() if key]
    lines = "".join(f"{key.hex()}\n" for key in keys)
    result = subprocess.run(
        kafka.java(kafka.VERSION, "Keys", classes=classes),
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    expected = [f"{murmur2(key)} {hash_to_partition(murmur2(key), 12)}" for key in keys]
    assert result.stdout.splitlines() == expected
