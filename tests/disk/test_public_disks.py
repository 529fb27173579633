"""Directories as published on the web: every command skips files that no broker would load."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)
COMMANDS = (
    *("verify-crc", "verify-crc --deep", "index-check", "stat", "txn", "find --offset 10"),
    *("retention", "compaction", "cat", "dump", "dump --records", "check"),
)


def copy_broker(directory: Path, node_id: int) -> None:
    """Copy a broker's directory as git checks it out with Windows line ends."""
    directory.mkdir(parents=True)
    for name in ("orders-0", "txn-0"):
        shutil.copytree(BROKER / name, directory / name)
    properties = f"version=1\r\ncluster.id=4L6g3nShT-eMCtK--X86sw\r\nnode.id={node_id}\r\n"
    (directory / "meta.properties").write_text(properties, newline="")
    (directory / "orders-0/leader-epoch-checkpoint").write_bytes(b"0\r\n1\r\n0 0\r\n")
    for name in ("recovery-point", "replication", "log-start", "cleaner"):
        (directory / f"{name}-offset-checkpoint").write_bytes(b"")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two brokers, a ZooKeeper, JavaScript packages, a broker's application logs."""
    root = tmp_path_factory.mktemp("public")
    for node_id in (1, 2):
        copy_broker(root / f"docker/broker-{node_id}/data", node_id)
    files = {
        "docker/zookeeper/version-2/log.1": b"ZKLG\0\0\0\2" + bytes(4096),
        "docker/zookeeper/version-2/snapshot.0": b"ZKSN" + bytes(200),
        "docker/zookeeper/version-2/currentEpoch": b"1",
        "node_modules/babel-preset-stage-0/package.json": b"{}",
        "node_modules/babel-preset-stage-0/debug.log": b"text\n" * 30,
        "node_modules/x-1/install.log": b"",
        "logs/server.log": b"[2024-01-01 00:00:00,000] INFO started (kafka.server)\n" * 40,
        "logs/controller.log": b"",
        "logs/kafkaServer-gc.log": b"[0.003s][info][gc] Using G1\n",
        "logs/notes.index": b"a word",
        "README.md": b"x",
        ".git/logs/HEAD": b"x",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


@pytest.mark.parametrize("command", COMMANDS)
def test_only_files_that_a_broker_would_load_count(command: str, disk: Path) -> None:
    name, *options = command.split()
    result = kfmt(name, disk, *options)
    assert result.code == 0, result.err
    for foreign in ("zookeeper", "node_modules", "server.log", "gc.log", "debug.log"):
        assert foreign not in result.out + result.err


def test_two_brokers_below_one_directory_are_two(disk: Path) -> None:
    rows = kfmt("check", disk, "--json").rows
    partitions = {row["file"] for row in rows if row["type"] == "partition"}
    assert {partition for partition in partitions if partition.endswith("orders-0")} == {
        str(disk / "docker/broker-1/data/orders-0"),
        str(disk / "docker/broker-2/data/orders-0"),
    }
    assert not any("version-2" in partition or "stage-0" in partition for partition in partitions)


def test_files_that_are_given_are_read_whatever_their_names(disk: Path) -> None:
    result = kfmt("verify-crc", disk / "logs/server.log")
    assert result.code == 3
    assert "not a Kafka log" in result.err
    assert kfmt("verify-crc", disk / "logs").code == 3
    assert kfmt("verify-crc", disk / "node_modules").code == 3


def test_a_pointer_of_git_lfs_is_reported_once(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    for suffix in (".log", ".index", ".timeindex"):
        (directory / f"{0:020}{suffix}").write_bytes(POINTER)
    result = kfmt("check", tmp_path)
    assert result.code == 3
    for suffix in (".log", ".index"):
        assert result.err.count(f"{0:020}{suffix}: not ") == 1
