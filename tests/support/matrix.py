"""Damage for every kind of finding of `kfmt check`, each created from real files."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from crc32c import crc32c

from tests.support.broken_directories import mixed_transaction
from tests.support.broken_partitions import ORDERS, TXN, name, sample, zero_hole
from tests.support.claims_of_directories import DIRECTORY_CLAIMS
from tests.support.claims_of_indexes import INDEX_CLAIMS
from tests.support.claims_of_logs import LOG_CLAIMS
from tests.support.claims_of_records import RECORD_CLAIMS
from tests.support.rebuild import with_crc
from tests.support.segments import int32, positions, with_bytes
from tools.kafka import SAMPLES
from tools.observe import Files

CLOSED = 240
BROKER = SAMPLES / "kafka-3.9.1-broker1"


@dataclass(frozen=True)
class Damage:
    """A kind of finding, and how to create a log directory that has it."""

    code: str
    description: str
    """The damage."""
    make: Callable[[Path], None]
    options: tuple[str, ...] = ()
    """Options of `kfmt check`."""


def partition(directory: Path, files: Files, name: str = "orders-0") -> None:
    """Write a partition to a log directory."""
    (directory / name).mkdir(parents=True)
    for file_name, content in files.items():
        (directory / name / file_name).write_bytes(content)


def _of(files: Callable[[], Files]) -> Callable[[Path], None]:
    return lambda directory: partition(directory, files())


def _batch(position: int, new: bytes) -> Callable[[], Files]:
    """txn-0 with other bytes in the second batch of a producer in a segment."""

    def files() -> Files:
        txn = dict(sample(TXN))
        data = txn[name(357)]
        ranges = [
            start_end
            for start_end in pairwise(positions(data))
            if not data[start_end[0] + 22] & 0x20
        ]
        first_start = ranges[0][0]
        producer = data[first_start + 43 : first_start + 51]
        start, end = [
            start_end
            for start_end in ranges
            if data[start_end[0] + 43 : start_end[0] + 51] == producer
        ][1]
        batch = with_crc(with_bytes(data[start:end], position, new))
        txn[name(357)] = data[:start] + batch + data[end:]
        return txn

    return files


def _epochs() -> Files:
    """orders-0 with another leader epoch in a batch; its checksum does not cover the epoch."""
    orders = dict(sample(ORDERS))
    data = orders[name(CLOSED)]
    orders[name(CLOSED)] = with_bytes(data, positions(data)[5] + 12, int32(9))
    orders["leader-epoch-checkpoint"] = (ORDERS / "leader-epoch-checkpoint").read_bytes()
    return orders


def _open_transaction(is_late: bool) -> Callable[[], Files]:
    """txn-0 with a transaction whose marker is another producer's; is_late: the log continues for
    an hour."""

    def files() -> Files:
        txn = dict(sample(TXN))
        data = txn[name(635)]
        ranges = list(pairwise(positions(data)))
        start, end = next(
            start_end for start_end in reversed(ranges) if data[start_end[0] + 22] & 0x20
        )
        marker = with_crc(with_bytes(data[start:end], 43, (999_999).to_bytes(8, "big")))
        data = data[:start] + marker + data[end:]
        if is_late:
            start, end = ranges[-1]
            timestamp = struct.unpack_from(">q", data, start + 35)[0] + 3_600_000
            batch = with_crc(with_bytes(data[start:end], 35, struct.pack(">q", timestamp)))
            data = data[:start] + batch + data[end:]
        txn[name(635)] = data
        return txn

    return files


def _snapshot() -> Files:
    """txn-0 with another last sequence in a producer snapshot, and a valid checksum."""
    txn = dict(sample(TXN))
    file_name = name(635, ".snapshot")
    data = bytearray(txn[file_name])
    data[20:24] = int32(struct.unpack_from(">i", data, 20)[0] + 7)
    data[2:6] = crc32c(bytes(data[6:])).to_bytes(4, "big")
    txn[file_name] = bytes(data)
    return txn


def _with_root_file(file_name: str, content: bytes) -> Callable[[Path], None]:
    def make(directory: Path) -> None:
        partition(directory, sample(ORDERS))
        (directory / file_name).write_bytes(content)

    return make


def _with_partition_file(file_name: str, content: bytes) -> Callable[[Path], None]:
    return lambda directory: partition(directory, {**sample(ORDERS), file_name: content})


def _broken_quorum_state(directory: Path) -> None:
    shutil.copytree(BROKER / "__cluster_metadata-0", directory / "__cluster_metadata-0")
    (directory / "__cluster_metadata-0/quorum-state").write_bytes(b"{")


def _with_kraft_snapshot(edit: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def make(directory: Path) -> None:
        data = (SAMPLES / "kafka-3.9.1-broker2/bootstrap.checkpoint").read_bytes()
        (directory / "__cluster_metadata-0").mkdir(parents=True)
        path = directory / "__cluster_metadata-0" / "00000000000000000007-0000000001.checkpoint"
        path.write_bytes(edit(data))

    return make


def _without_log() -> Files:
    return {k: v for k, v in sample(ORDERS).items() if k != name(240)}


def _with_other_topic_id(directory: Path) -> None:
    for partition_name in ("__cluster_metadata-0", "orders-0"):
        shutil.copytree(BROKER / partition_name, directory / partition_name)
    shutil.copy(BROKER / "meta.properties", directory)
    (directory / "orders-0/partition.metadata").write_text(
        "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )


def _in_two_directories(root: Path) -> None:
    for disk in ("one", "two"):
        partition(root / disk, sample(ORDERS))
        properties = (BROKER / "meta.properties").read_text()
        properties = properties.replace(
            "directory.id=Id4q", f"directory.id={'Id4q' if disk == 'one' else 'Ie4q'}"
        )
        (root / disk / "meta.properties").write_text(properties)
        shutil.copy(BROKER / "orders-0/partition.metadata", root / disk / "orders-0")


def _compressed(directory: Path) -> None:
    shutil.copytree(BROKER / "codec-gzip-0", directory / "codec-gzip-0")


def _with_foreign_directory(directory: Path) -> None:
    partition(directory, sample(ORDERS))
    shutil.copy(BROKER / "meta.properties", directory)
    (directory / "old").mkdir()


def _first_batch(data: bytes) -> bytes:
    return data[: positions(data)[1]]


def _checkpoint(offset: int, topic: str = "orders") -> bytes:
    return f"0\n1\n{topic} 0 {offset}\n".encode()


MORE_DAMAGES = [
    Damage(
        "producer-sequence-gap", "a batch with base sequence 9999", _of(_batch(53, int32(9999)))
    ),
    Damage("producer-sequence-repeated", "a batch with base sequence 0", _of(_batch(53, int32(0)))),
    Damage(
        "producer-epoch-back",
        "a batch with producer epoch 7 before one with a lower epoch",
        _of(_batch(51, b"\0\x07")),
    ),
    Damage(
        "transaction-marker-alone",
        "a marker with another producer id",
        _of(_open_transaction(is_late=False)),
    ),
    Damage(
        "transaction-open",
        "a marker with another producer id",
        _of(_open_transaction(is_late=False)),
    ),
    Damage(
        "transaction-hanging",
        "the log continues for an hour after an open transaction",
        _of(_open_transaction(is_late=True)),
    ),
    Damage(
        "transaction-mixed",
        "a non-transactional batch in an open transaction",
        _of(lambda: mixed_transaction().files),
    ),
    Damage("leader-epoch-back", "a batch with leader epoch 9", _of(_epochs)),
    Damage("leader-epoch-contradicted", "a batch with leader epoch 9", _of(_epochs)),
    Damage(
        "snapshot-contradicted",
        "a producer's last sequence in the snapshot is 7 too high",
        _of(_snapshot),
    ),
    Damage(
        "log-start-above-end",
        "log start offset 9000",
        _with_root_file("log-start-offset-checkpoint", _checkpoint(9000)),
    ),
    Damage(
        "checkpoint-above-end",
        "the cleaner at 9000",
        _with_root_file("cleaner-offset-checkpoint", _checkpoint(9000)),
    ),
    Damage(
        "checkpoint-without-partition",
        "the recovery point of a partition without a directory",
        _with_root_file("recovery-point-offset-checkpoint", _checkpoint(1, "gone")),
    ),
    Damage(
        "checkpoint-malformed",
        "one letter instead of the version",
        _with_root_file("replication-offset-checkpoint", b"x"),
    ),
    Damage(
        "meta-properties-malformed",
        "one letter instead of properties",
        _with_root_file("meta.properties", b"x"),
    ),
    Damage(
        "clean-shutdown-malformed",
        "one letter instead of JSON",
        _with_root_file(".kafka_cleanshutdown", b"x"),
    ),
    Damage(
        "partition-metadata-malformed",
        "one letter instead of the version",
        _with_partition_file("partition.metadata", b"x"),
    ),
    Damage(
        "left-over-file", "a .log.deleted file", _with_partition_file(name(0) + ".deleted", b"x")
    ),
    Damage("directory-not-a-partition", "a directory named old", _with_foreign_directory),
    Damage(
        "index-entry-in-damage",
        "an index entry that points into a hole",
        _of(lambda: zero_hole().files),
    ),
    Damage(
        "log-not-checked",
        "a copy named 0.log.bak",
        _with_partition_file("0.log.bak", (ORDERS / name(0)).read_bytes()),
    ),
    Damage("name-not-numeric", "an index named abc.index", _with_partition_file("abc.index", b"")),
    Damage(
        "start-fails",
        "a negative epoch in leader-epoch-checkpoint",
        _with_partition_file("leader-epoch-checkpoint", b"0\n1\n-1 0\n"),
    ),
    Damage(
        "deleted-records-back",
        "epochs from offset 500 on",
        _with_partition_file("leader-epoch-checkpoint", b"0\n1\n0 500\n"),
    ),
    Damage("partition-set-aside", "another topic id in partition.metadata", _with_other_topic_id),
    Damage("offsets-lost", "an index without its log", _of(_without_log)),
    Damage("partition-twice", "one partition in two log directories", _in_two_directories),
    Damage("quorum-state-malformed", "an unfinished JSON object", _broken_quorum_state),
    Damage(
        "snapshot-header-missing",
        "without its first batch",
        _with_kraft_snapshot(lambda data: data[len(_first_batch(data)) :]),
    ),
    Damage("snapshot-footer-missing", "only its first batch", _with_kraft_snapshot(_first_batch)),
    Damage(
        "decompression-limit",
        "a limit of 1 KiB",
        _compressed,
        ("--max-decompressed", "1K"),
    ),
]


_WITHOUT_FINDING = ("log-empty", "the last segment")


def _claims() -> list[Damage]:
    damages = []
    for claim in (*LOG_CLAIMS, *RECORD_CLAIMS, *INDEX_CLAIMS, *DIRECTORY_CLAIMS):
        # An empty last log is valid and has no finding.
        if claim.beside or claim.instead or (claim.code, claim.description) == _WITHOUT_FINDING:
            continue
        description = claim.description or claim.code.replace("-", " ")
        broken = claim.broken
        damages.append(Damage(claim.code, description, _of(lambda broken=broken: broken().files)))  # type: ignore[misc]
    return damages


def matrix() -> list[Damage]:
    """Every damage, sorted by kind of finding."""
    return sorted([*_claims(), *MORE_DAMAGES], key=lambda damage: (damage.code, damage.description))
