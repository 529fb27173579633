"""Damage for every kind of finding that `kfmt check` may make, each made from real files."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from crc32c import crc32c

from tests.support.broken_directories import mixed
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
    """A kind of finding, and how to make a log directory in which it is found."""

    code: str
    words: str
    """What is damaged."""
    make: Callable[[Path], None]
    options: tuple[str, ...] = ()
    """Of the call."""


def partition(folder: Path, files: Files, named: str = "orders-0") -> None:
    """A partition in a log directory."""
    (folder / named).mkdir(parents=True)
    for file, content in files.items():
        (folder / named / file).write_bytes(content)


def _of(files: Callable[[], Files]) -> Callable[[Path], None]:
    return lambda folder: partition(folder, files())


def _batch(at: int, new: bytes) -> Callable[[], Files]:
    """The second batch of a producer in a segment of txn-0 with other bytes."""

    def files() -> Files:
        its = dict(sample(TXN))
        data = its[name(357)]
        spans = [pair for pair in pairwise(positions(data)) if not data[pair[0] + 22] & 0x20]
        first = spans[0][0]
        producer = data[first + 43 : first + 51]
        start, end = [span for span in spans if data[span[0] + 43 : span[0] + 51] == producer][1]
        batch = with_crc(with_bytes(data[start:end], at, new))
        its[name(357)] = data[:start] + batch + data[end:]
        return its

    return files


def _epochs() -> Files:
    """A batch of another leader epoch, which its checksum does not cover."""
    its = dict(sample(ORDERS))
    data = its[name(CLOSED)]
    its[name(CLOSED)] = with_bytes(data, positions(data)[5] + 12, int32(9))
    its["leader-epoch-checkpoint"] = (ORDERS / "leader-epoch-checkpoint").read_bytes()
    return its


def _open(late: bool) -> Callable[[], Files]:
    """A transaction whose marker is another producer's; late: it is long past."""

    def files() -> Files:
        its = dict(sample(TXN))
        data = its[name(635)]
        spans = list(pairwise(positions(data)))
        at, end = next(span for span in reversed(spans) if data[span[0] + 22] & 0x20)
        marker = with_crc(with_bytes(data[at:end], 43, (999_999).to_bytes(8, "big")))
        data = data[:at] + marker + data[end:]
        if late:
            at, end = spans[-1]
            time = struct.unpack_from(">q", data, at + 35)[0] + 3_600_000
            batch = with_crc(with_bytes(data[at:end], 35, struct.pack(">q", time)))
            data = data[:at] + batch + data[end:]
        its[name(635)] = data
        return its

    return files


def _snapshot() -> Files:
    """A producer snapshot with another last sequence, and the checksum that fits."""
    its = dict(sample(TXN))
    file = name(635, ".snapshot")
    data = bytearray(its[file])
    data[20:24] = int32(struct.unpack_from(">i", data, 20)[0] + 7)
    data[2:6] = crc32c(bytes(data[6:])).to_bytes(4, "big")
    its[file] = bytes(data)
    return its


def _beside(file: str, content: bytes) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        partition(folder, sample(ORDERS))
        (folder / file).write_bytes(content)

    return make


def _inside(file: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: partition(folder, {**sample(ORDERS), file: content})


def _quorum(folder: Path) -> None:
    shutil.copytree(BROKER / "__cluster_metadata-0", folder / "__cluster_metadata-0")
    (folder / "__cluster_metadata-0/quorum-state").write_bytes(b"{")


def _kraft(cut: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        data = (SAMPLES / "kafka-3.9.1-broker2/bootstrap.checkpoint").read_bytes()
        (folder / "__cluster_metadata-0").mkdir(parents=True)
        path = folder / "__cluster_metadata-0" / "00000000000000000007-0000000001.checkpoint"
        path.write_bytes(cut(data))

    return make


def _without_log() -> Files:
    return {k: v for k, v in sample(ORDERS).items() if k != name(240)}


def _set_aside(folder: Path) -> None:
    for named in ("__cluster_metadata-0", "orders-0"):
        shutil.copytree(BROKER / named, folder / named)
    shutil.copy(BROKER / "meta.properties", folder)
    (folder / "orders-0/partition.metadata").write_text(
        "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )


def _twice(folder: Path) -> None:
    for at in ("one", "two"):
        partition(folder / at, sample(ORDERS))
        said = (BROKER / "meta.properties").read_text()
        said = said.replace(
            "directory.id=Id4q", f"directory.id={'Id4q' if at == 'one' else 'Ie4q'}"
        )
        (folder / at / "meta.properties").write_text(said)
        shutil.copy(BROKER / "orders-0/partition.metadata", folder / at / "orders-0")


def _gzip(folder: Path) -> None:
    shutil.copytree(BROKER / "codec-gzip-0", folder / "codec-gzip-0")


def _old(folder: Path) -> None:
    partition(folder, sample(ORDERS))
    shutil.copy(BROKER / "meta.properties", folder)
    (folder / "old").mkdir()


def _first(data: bytes) -> bytes:
    return data[: positions(data)[1]]


def _point(offset: int, topic: str = "orders") -> bytes:
    return f"0\n1\n{topic} 0 {offset}\n".encode()


MORE = [
    Damage(
        "producer-sequence-gap", "a batch with base sequence 9999", _of(_batch(53, int32(9999)))
    ),
    Damage("producer-sequence-repeated", "a batch with base sequence 0", _of(_batch(53, int32(0)))),
    Damage(
        "producer-epoch-back",
        "a batch with producer epoch 7 before one with a lower epoch",
        _of(_batch(51, b"\0\x07")),
    ),
    Damage("transaction-marker-alone", "a marker with another producer id", _of(_open(late=False))),
    Damage("transaction-open", "a marker with another producer id", _of(_open(late=False))),
    Damage(
        "transaction-hanging",
        "the log continues for an hour after an open transaction",
        _of(_open(late=True)),
    ),
    Damage(
        "transaction-mixed",
        "a non-transactional batch in an open transaction",
        _of(lambda: mixed().files),
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
        _beside("log-start-offset-checkpoint", _point(9000)),
    ),
    Damage(
        "checkpoint-above-end",
        "the cleaner at 9000",
        _beside("cleaner-offset-checkpoint", _point(9000)),
    ),
    Damage(
        "checkpoint-without-partition",
        "the recovery point of a partition without a directory",
        _beside("recovery-point-offset-checkpoint", _point(1, "gone")),
    ),
    Damage(
        "checkpoint-malformed",
        "one letter instead of the version",
        _beside("replication-offset-checkpoint", b"x"),
    ),
    Damage(
        "meta-properties-malformed",
        "one letter instead of properties",
        _beside("meta.properties", b"x"),
    ),
    Damage(
        "clean-shutdown-malformed",
        "one letter instead of JSON",
        _beside(".kafka_cleanshutdown", b"x"),
    ),
    Damage(
        "partition-metadata-malformed",
        "one letter instead of the version",
        _inside("partition.metadata", b"x"),
    ),
    Damage("left-over-file", "a .log.deleted file", _inside(name(0) + ".deleted", b"x")),
    Damage("directory-not-a-partition", "a directory named old", _old),
    Damage(
        "index-entry-in-damage",
        "an index entry that points into a hole",
        _of(lambda: zero_hole().files),
    ),
    Damage(
        "log-not-checked",
        "a copy named 0.log.bak",
        _inside("0.log.bak", (ORDERS / name(0)).read_bytes()),
    ),
    Damage("name-not-numeric", "an index named abc.index", _inside("abc.index", b"")),
    Damage(
        "start-fails",
        "a negative epoch in leader-epoch-checkpoint",
        _inside("leader-epoch-checkpoint", b"0\n1\n-1 0\n"),
    ),
    Damage(
        "deleted-records-back",
        "epochs from offset 500 on",
        _inside("leader-epoch-checkpoint", b"0\n1\n0 500\n"),
    ),
    Damage("partition-set-aside", "another topic id in partition.metadata", _set_aside),
    Damage("offsets-lost", "an index without its log", _of(_without_log)),
    Damage("partition-twice", "one partition in two log directories", _twice),
    Damage("quorum-state-malformed", "an unfinished JSON object", _quorum),
    Damage(
        "snapshot-header-missing",
        "without its first batch",
        _kraft(lambda data: data[len(_first(data)) :]),
    ),
    Damage("snapshot-footer-missing", "only its first batch", _kraft(_first)),
    Damage(
        "decompression-limit",
        "a limit of 1 KiB",
        _gzip,
        ("--max-decompressed", "1K"),
    ),
]


_NOT_FOUND = ("log-empty", "the last segment")


def _claims() -> list[Damage]:
    found = []
    for claim in (*LOG_CLAIMS, *RECORD_CLAIMS, *INDEX_CLAIMS, *DIRECTORY_CLAIMS):
        # A last log of 0 bytes is as it should be; nothing is said of it.
        if claim.beside or claim.instead or (claim.code, claim.what) == _NOT_FOUND:
            continue
        words = claim.what or claim.code.replace("-", " ")
        files = claim.broken
        found.append(Damage(claim.code, words, _of(lambda files=files: files().files)))  # type: ignore[misc]
    return found


def matrix() -> list[Damage]:
    """Every damage, by kind of finding."""
    return sorted([*_claims(), *MORE], key=lambda item: (item.code, item.words))
