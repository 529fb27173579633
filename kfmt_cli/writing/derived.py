"""The files that a broker derives from complete logs, written next to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from kfmt_cli.disk.kinds.fixed import PRODUCER_SNAPSHOT, TRANSACTION_INDEX
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.tree import classify
from kfmt_cli.errors import OutputError
from kfmt_cli.findings.finding import has_errors
from kfmt_cli.writing.output import Staging
from kfmt_cli.writing.rebuild import How, Rebuilt, rebuild
from kfmt_cli.writing.salvage.holes import Gaps
from kfmt_cli.writing.segment_writer import SegmentWriter

FROM_THE_LOG = (TRANSACTION_INDEX.suffix, PRODUCER_SNAPSHOT.suffix)


def write_derived(
    staging: Staging, folder: str, segments: Sequence[SegmentWriter], interval: int
) -> Iterator[Rebuilt]:
    """Read back the complete logs of a partition, and write the files derived from them; raises
    InputError, OutputError. interval: index.interval.bytes."""
    logs = [classify(str(staging.folder / each.name), each.name) for each in segments]
    for done in rebuild(logs, How(interval), lambda _: None, from_nothing=True):
        for name, data in done.files.items():
            known = name.endswith(TRANSACTION_INDEX.suffix) or done.has_producers
            if data is not None and name.endswith(FROM_THE_LOG) and known:
                staging.put(str(PurePath(folder) / name), data)
        yield done


def write_missing(
    staging: Staging, below: PurePath, logs: Sequence[Input], interval: int, gaps: Gaps
) -> None:
    """Write the indexes and producer snapshots of a partition's new logs, except those that are
    there; raises InputError, and OutputError if a log does not read back.

    interval: index.interval.bytes. gaps: receives the batches.
    """
    snapshot = f"{logs[0].base_offset:020}{PRODUCER_SNAPSHOT.suffix}"
    known = (staging.folder / below / snapshot).exists()
    made_of = rebuild(list(logs), How(interval), lambda _: None, from_nothing=not known, gaps=gaps)
    for made in made_of:
        if has_errors(made.findings):
            words = "verification failed: the output does not read back; nothing was written"
            raise OutputError(f"{made.log.name}: {words}")
        for file, data in made.files.items():
            if data is not None and not (staging.folder / below / file).exists():
                staging.put(str(below / file), data)


def epoch_checkpoint(epochs: Iterable[tuple[int, int]]) -> bytes:
    """The contents of leader-epoch-checkpoint: each epoch with its first offset."""
    lines = [f"{epoch} {offset}\n" for epoch, offset in epochs]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()
