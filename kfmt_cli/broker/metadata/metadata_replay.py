"""The metadata log of a KRaft cluster, replayed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kfmt_cli.broker.metadata.opened_log import (
    find_missing_records,
    metadata_snapshots,
    open_metadata_log,
    snapshot_end_offset,
)
from kfmt_cli.broker.state import create_replay
from kfmt_cli.broker.state.cluster import ClusterReplay
from kfmt_cli.broker.state.replay import TopicReplay
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.findings.codes import BATCH_TRUNCATED
from kfmt_cli.findings.finding import Finding, is_error
from kfmt_cli.log.block import Block
from kfmt_cli.log.log_opening import open_log
from kfmt_cli.log.record_stream import iter_records_and_findings
from kfmt_cli.topics import CLUSTER_METADATA


def replay_metadata_log(
    directory: DirectoryListing,
    read_errors: list[InputError],
    end_offset: int | None,
    bootstrap_file: InputFile | None,
) -> ClusterReplay:
    """The metadata log in a directory, replayed as a broker loads it. read_errors: the errors
    of unreadable files are added to it. end_offset: the log end offset after a start, None for the
    entire log. bootstrap_file: the initial records of an empty log."""
    replay = _create_replay()
    start_offset = 0
    n_records = 0
    damage_errors: list[InputError] = []
    opened_log = open_metadata_log(directory, [], end_offset)
    if opened_log.snapshot is not None:
        start_offset = snapshot_end_offset(opened_log.snapshot) or 0
        snapshot_files = [opened_log.snapshot]
        n_records += _replay_files(replay, snapshot_files, read_errors, 0, None, damage_errors)
    if not opened_log.is_discarded:
        n_records += _replay_files(
            *(replay, directory.logs, read_errors, start_offset, end_offset, damage_errors)
        )
        damage_errors += _missing_record_errors(directory, start_offset)
    if damage_errors:  # a record may only seem to fail, as an earlier one is missing
        replay.load_failure = None
    if not n_records and bootstrap_file is not None:
        _replay_files(replay, [bootstrap_file], read_errors, 0, None)
    read_errors += _skipped_record_errors(directory, replay)
    return replay


def replay_undamaged_metadata(
    directory: DirectoryListing, read_errors: list[InputError], damage_errors: list[InputError]
) -> ClusterReplay:
    """The metadata log in a directory, replayed from its newest undamaged snapshot. damage_errors:
    receives an error for each damaged part of its files, whose records are missing."""
    replay = _create_replay()
    start_offset = 0
    for snapshot_file in reversed(metadata_snapshots(directory)):
        n_previous_errors = len(damage_errors)
        _replay_files(replay, [snapshot_file], read_errors, 0, None, damage_errors)
        if len(damage_errors) == n_previous_errors:
            start_offset = snapshot_end_offset(snapshot_file) or 0
            break
        replay.reset()
    _replay_files(replay, directory.logs, read_errors, start_offset, None, damage_errors)
    damage_errors += _missing_record_errors(directory, start_offset)
    damage_errors += _skipped_record_errors(directory, replay)
    return replay


def _missing_record_errors(directory: DirectoryListing, start_offset: int) -> list[InputError]:
    """An error if records are missing between the snapshot that ends at an offset and the log."""
    missing_records = find_missing_records(directory.logs, start_offset)
    if missing_records is None:
        return []
    return [InputError(f"{directory.name}: {missing_records}", file=directory.path)]


def _create_replay() -> ClusterReplay:
    replay = create_replay(CLUSTER_METADATA)
    assert isinstance(replay, ClusterReplay)
    return replay


def _skipped_record_errors(directory: DirectoryListing, replay: TopicReplay) -> list[InputError]:
    """An error if records of unknown types or versions were skipped: what they say is unknown."""
    if not replay.skipped_kinds:
        return []
    message = next(replay.unknown_record_messages())
    return [InputError(f"{directory.name}: {message}", file=directory.path)]


def _replay_files(
    replay: TopicReplay,
    files: Iterable[InputFile],
    read_errors: list[InputError],
    start_offset: int,
    end_offset: int | None,
    damage_errors: list[InputError] | None = None,
) -> int:
    """Replay the records of files from `start_offset` to before `end_offset`; returns the number of
    data records."""
    n_records = 0
    for file in files:
        try:
            with open_log(file, read_ahead=False) as opened_log:
                log = opened_log
                if damage_errors is not None:
                    log = replace(
                        opened_log,
                        blocks=_collect_damage_errors(file, opened_log.blocks, damage_errors),
                    )
                for record in iter_records_and_findings(log, DecompressionLimit()):
                    if isinstance(record, Finding) or record.offset < start_offset:
                        continue
                    if end_offset is not None and record.offset >= end_offset:
                        return n_records
                    replay.apply_record(record)
                    n_records += record.control_type is None
        except InputError as error:
            read_errors.append(error)
    return n_records


def _collect_damage_errors(
    file: InputFile, blocks: Iterable[Block], damage_errors: list[InputError]
) -> Iterator[Block]:
    """The same blocks; adds an error for each damaged part. A truncated last batch does not count:
    a crash may leave one."""
    for block in blocks:
        batches = block.batches
        damaged_positions = batches.position[batches.crc_valid == 0].tolist()
        problems = [(position, "a batch fails its checksum") for position in damaged_positions]
        error_findings = (finding for finding in block.findings if is_error(finding))
        damage_findings = [
            finding for finding in error_findings if finding.code is not BATCH_TRUNCATED
        ]
        problems += [(finding.position or 0, finding.message) for finding in damage_findings]
        for position, message in problems:
            damage_errors.append(
                InputError(f"{file.name} byte {position}: {message}", file=file.path)
            )
        yield block
