"""Broker files in whose place is something else: every file that a start opens, with every kind of
entry that is no file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.broken_partitions import TXN, name, sample
from tools.judge import Loading
from tools.not_files import NotAFile, place

Change = Callable[[Path], None]
FIRST, CLOSED, LAST, END = 0, 357, 635, 736  # the segments of txn-0, and its end
EPOCHS, PARTITION_METADATA = "leader-epoch-checkpoint", "partition.metadata"
LOG_DIRECTORY_NAMES = (
    *("recovery-point-offset-checkpoint", "replication-offset-checkpoint"),
    *("log-start-offset-checkpoint", "cleaner-offset-checkpoint", "meta.properties"),
    *(".kafka_cleanshutdown", "bootstrap.checkpoint", f"victim-0/{EPOCHS}"),
    *(f"victim-0/{PARTITION_METADATA}", f"victim-0/{name(1500, '.snapshot')}"),
    *("__cluster_metadata-0/quorum-state", f"__cluster_metadata-0/{name(0)}"),
    f"__cluster_metadata-0/{PARTITION_METADATA}",
)
# The opening of a pipe waits for a writer; whether a file can be read depends on the user.
SEEN_KINDS = [kind for kind in NotAFile if kind is not NotAFile.UNREADABLE]
# Whether the shutdown was clean, and the recovery point.
STARTS = {"crash": (False, 0), "crash at the end": (False, END), "clean": (True, END)}


def partition_names() -> list[str]:
    """The names in a partition's directory that a start opens, and some that it does not."""
    names = [
        name(base, suffix)
        for base in (FIRST, CLOSED, LAST)
        for suffix in (".log", ".index", ".timeindex", ".txnindex")
    ]
    names += [name(offset, ".snapshot") for offset in (CLOSED, LAST, 700, END)]
    names += [name(base, suffix) for base in (50, END) for suffix in (".log", ".index")]
    names += [f"{name(CLOSED)}{suffix}" for suffix in (".swap", ".cleaned", ".deleted")]
    return [*names, EPOCHS, PARTITION_METADATA]


def loadings() -> dict[str, Loading]:
    """A start of each kind on each name with each kind of entry, by description."""
    files = sample(TXN)
    return {
        f"{kind.name} {file_name} {start}": Loading(
            {**files, file_name: kind}, is_clean, recovery_point, seconds=5
        )
        for file_name in partition_names()
        for kind in SEEN_KINDS
        for start, (is_clean, recovery_point) in STARTS.items()
    }


def directory_changes() -> Iterator[tuple[str, Change]]:
    """Each entry of a log directory that is no file, with its description."""
    for file_name in LOG_DIRECTORY_NAMES:
        for kind in (NotAFile.DIRECTORY, NotAFile.DANGLING_LINK, NotAFile.LOOP):
            yield f"{kind.name} {file_name}", _replace(f"one/{file_name}", kind)


def _replace(path_name: str, kind: NotAFile) -> Change:
    def change(path: Path) -> None:
        (path / path_name).unlink(missing_ok=True)
        place(path / path_name, kind)

    return change
