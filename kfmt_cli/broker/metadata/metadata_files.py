"""The files of the metadata log that stop a KRaft broker before it loads any other log.

Source: `kafka.raft.KafkaMetadataLog`, `org.apache.kafka.snapshot.RecordsSnapshotReader`,
`org.apache.kafka.raft.FileQuorumStateStore`,
`org.apache.kafka.metadata.bootstrap.BootstrapDirectory`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from functools import partial

from kfmt_cli.broker.log_reading.consumer import ConsumerFault, read_delivered_offsets
from kfmt_cli.broker.log_reading.not_files import Access, find_start_files
from kfmt_cli.broker.log_reading.stored_batches import (
    CorruptError,
    LogBytes,
    StartError,
    is_batch_valid,
    iter_stored_batches,
)
from kfmt_cli.broker.metadata.meta_properties import read_topic_id
from kfmt_cli.broker.metadata.opened_log import find_snapshot_problem, metadata_snapshots
from kfmt_cli.core.json_text import parse_json
from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.kinds import PARTITION_METADATA_KIND, QUORUM_STATE_KIND
from kfmt_cli.disk.kinds.kind import InputFile, LazyFileKind, read_small_file
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import is_error
from kfmt_cli.formats import batch_header_readers as header

METADATA_TOPIC_ID = (1).to_bytes(16, "big")
_VERSION_RECORD_NAME = b"metadata.version"
_MAX_READ_BYTES = 1 << 20
_LAST_EPOCH = (1 << 31) - 1


def iter_metadata_problems(
    directory: DirectoryListing, read_errors: list[InputError]
) -> Iterator[tuple[str, str]]:
    """The files that prevent a start in the directory of the metadata log, with the reasons; adds
    the errors of unreadable ones to `read_errors`."""
    yield from iter_start_file_problems(
        directory, QUORUM_STATE_KIND.names, _find_quorum_state_problem, read_errors
    )
    yield from iter_start_file_problems(
        directory, PARTITION_METADATA_KIND.names, _find_topic_id_problem, read_errors
    )
    snapshot_problem = find_snapshot_problem(directory)
    if snapshot_problem is not None:
        yield directory.name, f"{directory.name}: {snapshot_problem}"
    newest_snapshots = metadata_snapshots(directory)[-1:]
    yield from iter_file_problems(newest_snapshots, _find_snapshot_problem, read_errors)


def iter_file_errors(
    directory: DirectoryListing, kind: LazyFileKind, read_errors: list[InputError]
) -> Iterator[tuple[str, str]]:
    """The files of a kind in a directory that have an error or cannot be read, each with its first
    error; adds the errors of unreadable ones to `read_errors`."""
    find_first_error = partial(_find_first_error, kind)
    return iter_start_file_problems(directory, kind.names, find_first_error, read_errors)


def _find_first_error(kind: LazyFileKind, file: InputFile) -> str | None:
    error = next(filter(is_error, kind.reader(file).findings), None)
    return None if error is None else f"{file.name}: {error.message}"


def iter_start_file_problems(
    directory: DirectoryListing,
    names: Iterable[str],
    find_problem: Callable[[InputFile], str | None],
    read_errors: list[InputError],
) -> Iterator[tuple[str, str]]:
    """As `iter_file_problems`, for the files that a start reads if they exist; also the files that
    it cannot open."""
    access_errors: list[tuple[str, StartError]] = []
    files = find_start_files(directory, names, Access.READ_EXISTING, access_errors)
    yield from ((name, str(error)) for name, error in access_errors)
    yield from iter_file_problems(files, find_problem, read_errors)


def iter_file_problems(
    files: Iterable[InputFile],
    find_problem: Callable[[InputFile], str | None],
    read_errors: list[InputError],
) -> Iterator[tuple[str, str]]:
    """The files that have a problem or cannot be read, each with the problem or the error; adds the
    errors of unreadable ones to `read_errors`."""
    for file in files:
        try:
            problem = find_problem(file)
        except (CorruptError, StartError, InputError) as error:
            if isinstance(error, InputError):
                read_errors.append(error)
            problem = str(error)
        if problem is not None:
            yield file.name, problem


def _find_topic_id_problem(file: InputFile) -> str | None:
    topic_id = read_topic_id(file)
    if topic_id == METADATA_TOPIC_ID:
        return None
    actual_id, expected_id = format_uuid(topic_id), format_uuid(METADATA_TOPIC_ID)
    return f"{file.name}: topic id is {actual_id}, but must be {expected_id} for the metadata log"


def _find_snapshot_problem(file: InputFile) -> str | None:
    is_first_batch = True
    with closing(LogBytes(file.path, file.name)) as log:
        for batch in iter_stored_batches(log, 0, log.size):
            location = f"{file.name} byte {batch.position}"
            if not 0 <= batch.magic <= 2:
                return f"{location}: magic {batch.magic}"
            if not is_batch_valid(log, batch):
                return f"{location}: the checksum of a batch is wrong"
            n_records = header.records_count(
                log.read_bytes(batch.position, min(batch.size, _MAX_READ_BYTES))
            )
            if is_first_batch and not (batch.is_control and n_records):
                return f"{location}: the first batch is not a control batch"
            if read_delivered_offsets(log, batch).fault is not ConsumerFault.NONE:
                return f"{location}: a batch cannot be decoded"
            is_first_batch = False
    return f"{file.name}: no batch in it" if is_first_batch else None


def find_bootstrap_problem(file: InputFile) -> str | None:
    """Why a broker does not start with a bootstrap.checkpoint, whose checksums it does not check;
    raises CorruptError, StartError, InputError."""
    has_version_record = False
    with closing(LogBytes(file.path, file.name)) as log:
        for batch in iter_stored_batches(log, 0, log.size):
            batch_bytes = log.read_bytes(batch.position, min(batch.size, _MAX_READ_BYTES))
            if read_delivered_offsets(log, batch, checks_crc=False).fault is not ConsumerFault.NONE:
                return f"{file.name} byte {batch.position}: a batch cannot be decoded"
            is_data_batch = batch.magic >= 2 and not batch.is_control
            has_version_record = has_version_record or (
                is_data_batch and _VERSION_RECORD_NAME in batch_bytes
            )
    return None if has_version_record else f"{file.name}: no metadata version record"


def _find_quorum_state_problem(file: InputFile) -> str | None:
    problem = _find_first_error(QUORUM_STATE_KIND, file)
    if problem is not None:
        return problem
    quorum_state = parse_json(read_small_file(file, _MAX_READ_BYTES))
    # The only voter elects itself.
    if len(quorum_state.get("currentVoters", ())) == 1 and (
        quorum_state["leaderEpoch"] == _LAST_EPOCH
    ):
        reason = f"leaderEpoch is {_LAST_EPOCH}: there is no epoch for the next election"
        return f"{file.name}: {reason}"
    return None


def read_voter_ids(directory: DirectoryListing) -> list[int | None]:
    """The ids of the voters in quorum-state, None for a malformed id; empty if the file is missing
    or malformed, or names no voters. Raises InputError."""
    for file_name in QUORUM_STATE_KIND.names.intersection(directory.regular_files):
        with suppress(ValueError, TypeError, AttributeError):
            quorum_state = parse_json(
                read_small_file(directory.input_file(file_name), _MAX_READ_BYTES)
            )
            return [_parse_voter_id(voter) for voter in quorum_state.get("currentVoters", ())]
    return []


def _parse_voter_id(voter: object) -> int | None:
    voter_id = voter.get("voterId") if isinstance(voter, dict) else None
    return voter_id if isinstance(voter_id, int) else None
