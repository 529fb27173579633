"""kfmt recognises Redpanda's data and does not report it as a damaged Kafka log."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.support.samples import kfmt
from tools.kafka import SAMPLES

MESSAGE = "Redpanda data, whose segments kfmt does not read"
SEGMENT = "kafka/orders/0_4/0-1-v1.log"


def batch() -> bytes:
    """A batch of one record with Redpanda's header."""
    body = bytes.fromhex("12000000026102620000")
    times = (1_700_000_000_000, 1_700_000_000_000)
    checked_bytes = struct.pack(
        "<iqbiHiqqqhii", 61 + len(body), 0, 1, 7, 0, 0, *times, -1, -1, -1, 1
    )
    return struct.pack("<I", crc32c(checked_bytes)) + checked_bytes + body


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    for name in (SEGMENT, "redpanda/controller/0_0/0-1-v1.log", "redpanda/kvstore/0_0/0-0-v1.log"):
        (directory / name).parent.mkdir(parents=True)
        (directory / name).write_bytes(batch())
    (directory / SEGMENT).with_suffix(".base_index").write_bytes(bytes(50))
    (directory / "config_cache.yaml").write_text("a: 1\n")
    (directory / "supervisord.log").write_text("started\n")
    return directory


COMMANDS = {
    **{name: (name,) for name in ("check", "dump", "stat", "verify-crc", "cat")},
    "sql": ("sql", "select count(*) from records"),
    "export": ("export", "--to", "{to}"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("subpath", ["", "kafka", "kafka/orders", "kafka/orders/0_4", SEGMENT])
def test_every_command_names_redpanda(command: str, subpath: str, disk: Path) -> None:
    if command in ("sql", "export"):
        pytest.importorskip("pyarrow")
    if command == "sql":
        pytest.importorskip("duckdb")
    arguments = (argument.format(to=disk.parent / "out") for argument in COMMANDS[command])
    result = kfmt(*arguments, disk / subpath)
    assert result.code == 3
    assert MESSAGE in result.err
    assert result.err.count("\n") <= 2


def test_a_renamed_segment_is_known_by_its_header(tmp_path: Path) -> None:
    for name in ("copy.bin", f"{0:020}.log.bak"):
        (tmp_path / name).write_bytes(batch() * 3)
        result = kfmt("dump", tmp_path / name)
        assert (result.code, MESSAGE in result.err) == (3, True)


def test_a_kafka_disk_with_such_a_name_is_read(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    log = next((SAMPLES / "kafka-3.9.1-broker1/orders-0").glob("*.log"))
    (tmp_path / "t-0" / log.name).write_bytes(log.read_bytes())
    (tmp_path / "0-1-v1.log").write_bytes(batch())
    assert kfmt("stat", tmp_path).code == 0
