"""The metadata log of a KRaft cluster, replayed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kfmt_cli.broker.start.metadata_files import end_of, snapshots_of
from kfmt_cli.broker.state import replay_of
from kfmt_cli.broker.state.replay import Replay
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.tree import Folder
from kfmt_cli.errors import InputError
from kfmt_cli.findings.damage import BATCH_TRUNCATED
from kfmt_cli.findings.finding import Finding, is_error
from kfmt_cli.log.block import Block
from kfmt_cli.log.open_log import open_log
from kfmt_cli.log.stream import stream
from kfmt_cli.topics import CLUSTER_METADATA


def replayed(
    folder: Folder, unread: list[InputError], end: int | None, bootstrap: Input | None
) -> Replay:
    """The metadata log in a directory, replayed from its newest snapshot. unread: the errors of
    unreadable files are added to it. end: the log end offset after a start, None for the whole log.
    bootstrap: the initial records of an empty log."""
    replay = replay_of(CLUSTER_METADATA)
    first = 0
    n_records = 0
    for file in snapshots_of(folder)[-1:]:
        first = end_of(file) or 0
        n_records += _take(replay, [file], unread, 0, None)
    n_records += _take(replay, folder.logs, unread, first, end)
    if not n_records and bootstrap is not None:
        _take(replay, [bootstrap], unread, 0, None)
    return replay


def replayed_undamaged(
    folder: Folder, unread: list[InputError], damage: list[InputError]
) -> Replay:
    """The metadata log in a directory, replayed from its newest undamaged snapshot. damage:
    receives an error for each damaged part of its files, whose records are missing."""
    replay = replay_of(CLUSTER_METADATA)
    first = 0
    for file in reversed(snapshots_of(folder)):
        n_before = len(damage)
        _take(replay, [file], unread, 0, None, damage)
        if len(damage) == n_before:
            first = end_of(file) or 0
            break
        replay.begin()
    _take(replay, folder.logs, unread, first, None, damage)
    return replay


def _take(
    replay: Replay,
    files: Iterable[Input],
    unread: list[InputError],
    first: int,
    end: int | None,
    damage: list[InputError] | None = None,
) -> int:
    """Replay records of files between two offsets; returns the number of data records."""
    n_records = 0
    for file in files:
        try:
            with open_log(file, read_ahead=False) as opened:
                log = opened
                if damage is not None:
                    log = replace(opened, blocks=_noting(file, opened.blocks, damage))
                for record in stream(log, Limit()):
                    if isinstance(record, Finding) or record.offset < first:
                        continue
                    if end is not None and record.offset >= end:
                        return n_records
                    replay.take(record)
                    n_records += record.control is None
        except InputError as error:
            unread.append(error)
    return n_records


def _noting(file: Input, blocks: Iterable[Block], errors: list[InputError]) -> Iterator[Block]:
    """The same blocks; adds an error for each damaged part. The end of a log may be cut off, as
    after a crash."""
    for block in blocks:
        batches = block.batches
        damaged = batches.position[batches.crc_valid == 0].tolist()
        said = [(at, "a batch fails its checksum") for at in damaged]
        errors_here = (each for each in block.findings if is_error(each))
        found = [each for each in errors_here if each.code is not BATCH_TRUNCATED]
        said += [(each.position or 0, each.message) for each in found]
        for at, words in said:
            errors.append(InputError(f"{file.name} byte {at}: {words}", file=file.path))
        yield block
