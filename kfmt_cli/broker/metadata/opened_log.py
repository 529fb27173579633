"""The metadata log after a broker has opened it: the snapshot that it loads, and whether it keeps
the log.

Source: `kafka.raft.KafkaMetadataLog.recoverSnapshots` and `truncateToLatestSnapshot`, since 4.2
`org.apache.kafka.raft.internals.KafkaRaftLog`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kfmt_cli.core.integers import parse_int
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.log.log_opening import open_log
from kfmt_cli.rows.offset_order import in_order_mask


@dataclass(frozen=True, slots=True)
class OpenedMetadataLog:
    """A metadata log that a broker has opened."""

    snapshot: InputFile | None
    """The newest snapshot, which it loads."""
    start_offset: int
    end_offset: int
    last_epoch: int
    """The leader epoch of the last batch or of the snapshot; -1 if it has neither."""
    is_discarded: bool
    """Whether the broker discards the log, as it ends before the snapshot or has an earlier leader
    epoch: the log begins again, empty, at the end of the snapshot."""


def metadata_snapshots(directory: DirectoryListing) -> list[InputFile]:
    """The snapshots of a metadata log, oldest first, by leader epoch and end offset; a broker loads
    the newest."""
    files = map(directory.input_file, directory.regular_files)
    snapshot_by_id = {
        snapshot_id: file
        for file in files
        if file.path.endswith(".checkpoint")
        and file.kind is KRAFT_SNAPSHOT_KIND
        and (snapshot_id := _parse_snapshot_id(file)) is not None
    }
    return [file for _, file in sorted(snapshot_by_id.items())]


def _parse_snapshot_id(snapshot: InputFile) -> tuple[int, int] | None:
    """The leader epoch and end offset in the name of a snapshot; None for bootstrap.checkpoint."""
    name = snapshot.path.rpartition("/")[2].partition(".")[0]
    offset_text, _, epoch_text = name.partition("-")
    end_offset, epoch = parse_int(offset_text), parse_int(epoch_text)
    return None if end_offset is None or epoch is None else (epoch, end_offset)


def snapshot_end_offset(snapshot: InputFile) -> int | None:
    """The end offset of a KRaft snapshot, from its name; None for bootstrap.checkpoint."""
    snapshot_id = _parse_snapshot_id(snapshot)
    return None if snapshot_id is None else snapshot_id[1]


def find_snapshot_problem(directory: DirectoryListing) -> str | None:
    """Why a broker does not open a metadata log that begins after its newest snapshot, in Kafka's
    words; None if it opens it."""
    log_start_offset = find_log_start_offset(directory)
    snapshots = metadata_snapshots(directory)
    end_offsets = [snapshot_end_offset(snapshot) or 0 for snapshot in snapshots]
    if not log_start_offset or any(end >= log_start_offset for end in end_offsets):
        return None
    newest = f"ends at {end_offsets[-1]}" if end_offsets else "is missing"
    return (
        "Inconsistent snapshot state: there must be a snapshot at an offset larger than the "
        f"current log start offset {log_start_offset}, but the latest snapshot {newest}; copy a "
        "newer snapshot from another node"
    )


def find_missing_records(
    logs: Sequence[InputFile], start_offset: int, at_offset: int | None = None
) -> str | None:
    """The records that are missing between a snapshot and the log, as a sentence; None if none are.
    start_offset: the end offset of the snapshot, 0 without one. at_offset: the last offset that
    matters, None for the end."""
    log_start_offset = logs[0].base_offset_or_zero if logs else start_offset
    last_offset = (
        log_start_offset - 1 if at_offset is None else min(at_offset, log_start_offset - 1)
    )
    if last_offset < start_offset:
        return None
    snapshot = (
        f"the newest undamaged snapshot ends at {start_offset}"
        if start_offset
        else "there is no undamaged snapshot"
    )
    return (
        f"{snapshot} and the log begins at offset {log_start_offset}: "
        f"offsets {start_offset}–{last_offset} are missing"
    )


def find_log_start_offset(directory: DirectoryListing) -> int:
    """The first offset of the logs, 0 without a log."""
    return directory.logs[0].base_offset_or_zero if directory.logs else 0


def open_metadata_log(
    directory: DirectoryListing, read_errors: list[InputError], max_end_offset: int | None = None
) -> OpenedMetadataLog:
    """Open the metadata log in a directory as a broker does. max_end_offset: its end after the
    start has recovered it, None for the entire log; errors of unreadable files are added to
    `read_errors`."""
    start_offset = end_offset = find_log_start_offset(directory)
    last_epoch = -1
    for log in directory.logs:
        try:
            with open_log(log, read_ahead=False) as opened_log:
                for block in opened_log.blocks:
                    batches = block.batches
                    is_kept = in_order_mask(batches, end_offset)
                    if max_end_offset is not None:
                        is_kept &= batches.last_offset < max_end_offset
                    if is_kept.any():
                        end_offset = int(batches.last_offset[is_kept][-1]) + 1
                        last_epoch = int(batches.partition_leader_epoch[is_kept][-1])
        except InputError as error:
            read_errors.append(error)
    newest_snapshot = next(reversed(metadata_snapshots(directory)), None)
    snapshot_id = None if newest_snapshot is None else _parse_snapshot_id(newest_snapshot)
    # An empty log has no epoch, which counts as 0.
    is_discarded = snapshot_id is not None and snapshot_id > (max(last_epoch, 0), end_offset)
    if snapshot_id is not None and is_discarded:
        last_epoch, start_offset = snapshot_id
        end_offset = start_offset
    return OpenedMetadataLog(newest_snapshot, start_offset, end_offset, last_epoch, is_discarded)
