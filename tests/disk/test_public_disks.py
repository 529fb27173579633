"""Directories as they lie about in public: what no broker would take is passed over, by every
command in the same way."""

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


def copied(to: Path, node: int) -> None:
    """A broker's directory, as git with its line ends for Windows checks it out."""
    to.mkdir(parents=True)
    for name in ("orders-0", "txn-0"):
        shutil.copytree(BROKER / name, to / name)
    own = f"version=1\r\ncluster.id=4L6g3nShT-eMCtK--X86sw\r\nnode.id={node}\r\n"
    (to / "meta.properties").write_text(own, newline="")
    (to / "orders-0/leader-epoch-checkpoint").write_bytes(b"0\r\n1\r\n0 0\r\n")
    for name in ("recovery-point", "replication", "log-start", "cleaner"):
        (to / f"{name}-offset-checkpoint").write_bytes(b"")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two brokers, a ZooKeeper, JavaScript, a broker's own messages."""
    top = tmp_path_factory.mktemp("public")
    for node in (1, 2):
        copied(top / f"docker/broker-{node}/data", node)
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
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(content)
    return top


@pytest.mark.parametrize("command", COMMANDS)
def test_only_what_a_broker_would_take_counts(command: str, disk: Path) -> None:
    name, *options = command.split()
    done = kfmt(name, disk, *options)
    assert done.code == 0, done.err
    for foreign in ("zookeeper", "node_modules", "server.log", "gc.log", "debug.log"):
        assert foreign not in done.out + done.err


def test_two_brokers_below_one_directory_are_two(disk: Path) -> None:
    rows = kfmt("check", disk, "--json").rows
    partitions = {row["file"] for row in rows if row["type"] == "partition"}
    assert {partition for partition in partitions if partition.endswith("orders-0")} == {
        str(disk / "docker/broker-1/data/orders-0"),
        str(disk / "docker/broker-2/data/orders-0"),
    }
    assert not any("version-2" in partition or "stage-0" in partition for partition in partitions)


def test_files_that_are_given_are_read_whatever_their_names(disk: Path) -> None:
    done = kfmt("verify-crc", disk / "logs/server.log")
    assert done.code == 3
    assert "not a Kafka log" in done.err
    assert kfmt("verify-crc", disk / "logs").code == 3
    assert kfmt("verify-crc", disk / "node_modules").code == 3


def test_a_pointer_of_git_lfs_is_said_once(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for suffix in (".log", ".index", ".timeindex"):
        (folder / f"{0:020}{suffix}").write_bytes(POINTER)
    done = kfmt("check", tmp_path)
    assert done.code == 3
    for suffix in (".log", ".index"):
        assert done.err.count(f"{0:020}{suffix}: not ") == 1
