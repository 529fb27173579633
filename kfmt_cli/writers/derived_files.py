"""Writes the files that a broker derives from complete logs, next to these logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.kinds.fixed_size_rows import PRODUCER_SNAPSHOT_KIND, TRANSACTION_INDEX_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import OutputError
from kfmt_cli.findings.finding import has_errors
from kfmt_cli.writers.output import StagingDirectory
from kfmt_cli.writers.rebuilt_log import RebuildOptions, RebuiltLog, rebuild_files
from kfmt_cli.writers.salvage.holes import OffsetGaps
from kfmt_cli.writers.segment_writer import SegmentWriter

REBUILT_SUFFIXES = (TRANSACTION_INDEX_KIND.suffix, PRODUCER_SNAPSHOT_KIND.suffix)


def write_derived_files(
    staging: StagingDirectory,
    directory: str,
    segments: Sequence[SegmentWriter],
    index_interval_bytes: int,
) -> Iterator[RebuiltLog]:
    """Read back the complete logs of a partition, and write their transaction indexes and producer
    snapshots; raises InputError, OutputError. index_interval_bytes: index.interval.bytes."""
    logs = [
        classify_file(str(staging.directory / segment.relative_path), segment.relative_path)
        for segment in segments
    ]
    for rebuilt_log in rebuild_files(
        logs, RebuildOptions(index_interval_bytes), lambda _: None, has_no_earlier_producers=True
    ):
        for file_name, content in rebuilt_log.files.items():
            has_known_content = (
                file_name.endswith(TRANSACTION_INDEX_KIND.suffix) or rebuilt_log.has_producers
            )
            if content is not None and file_name.endswith(REBUILT_SUFFIXES) and has_known_content:
                staging.write_file(str(PurePath(directory) / file_name), content)
        yield rebuilt_log


def write_missing_files(
    staging: StagingDirectory,
    subpath: PurePath,
    logs: Sequence[InputFile],
    index_interval_bytes: int,
    offset_gaps: OffsetGaps,
) -> None:
    """Write the missing indexes and producer snapshots of a partition's new logs.

    Raises InputError, and OutputError if a log has errors when it is read back.
    index_interval_bytes: index.interval.bytes. offset_gaps: receives the batches.
    """
    snapshot_name = f"{logs[0].base_offset:020}{PRODUCER_SNAPSHOT_KIND.suffix}"
    has_snapshot = (staging.directory / subpath / snapshot_name).exists()
    rebuilt_logs = rebuild_files(
        list(logs),
        RebuildOptions(index_interval_bytes),
        lambda _: None,
        has_no_earlier_producers=not has_snapshot,
        offset_gaps=offset_gaps,
    )
    for rebuilt_log in rebuilt_logs:
        if has_errors(rebuilt_log.findings):
            message = "verification failed: the output does not read back; nothing was written"
            raise OutputError(f"{rebuilt_log.log.name}: {message}")
        for file_name, content in rebuilt_log.files.items():
            if content is not None and not (staging.directory / subpath / file_name).exists():
                staging.write_file(str(subpath / file_name), content)


def encode_epoch_checkpoint(epochs_and_offsets: Iterable[tuple[int, int]]) -> bytes:
    """The contents of leader-epoch-checkpoint: each epoch with its first offset."""
    lines = [f"{epoch} {offset}\n" for epoch, offset in epochs_and_offsets]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()
