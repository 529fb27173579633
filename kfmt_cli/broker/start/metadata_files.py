"""The files of the metadata log that stop a KRaft broker before it loads any other log.

Source: `kafka.raft.KafkaMetadataLog`, `org.apache.kafka.snapshot.RecordsSnapshotReader`,
`org.apache.kafka.raft.FileQuorumStateStore`,
`org.apache.kafka.metadata.bootstrap.BootstrapDirectory`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress

from kfmt_cli.broker.start.consumer import Fault, given_of
from kfmt_cli.broker.start.identity import read_topic_id
from kfmt_cli.broker.start.stored import CorruptError, LogBytes, StartFailed, batches, is_valid
from kfmt_cli.core.uuids import uuid_text
from kfmt_cli.disk.kinds import PARTITION_METADATA, QUORUM_STATE
from kfmt_cli.disk.kinds.kind import Input, LazyKind, read_whole
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT
from kfmt_cli.disk.tree import Folder
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import is_error
from kfmt_cli.formats import header_numbers as header

METADATA_TOPIC_ID = (1).to_bytes(16, "big")
_VERSION_RECORD = b"metadata.version"
_LARGE = 1 << 20


def metadata_troubles(folder: Folder, unread: list[InputError]) -> Iterator[tuple[str, str]]:
    """The files that prevent a start in the directory of the metadata log, with the reasons; adds
    the errors of unreadable ones to `unread`."""
    yield from with_errors(folder, QUORUM_STATE, unread)
    named = PARTITION_METADATA.names.intersection(folder.readable)
    yield from troubles_of(map(folder.input, named), _id_trouble, unread)
    newest = snapshots_of(folder)[-1:]
    for name, trouble in troubles_of(newest, _snapshot_trouble, unread):
        yield name, f"{name}: {trouble}"


def with_errors(
    folder: Folder, kind: LazyKind, unread: list[InputError]
) -> Iterator[tuple[str, str]]:
    """The files of a kind in a directory that have an error or cannot be read, with the first;
    adds the errors of unreadable ones to `unread`."""

    def first_error(file: Input) -> str | None:
        wrong = next(filter(is_error, kind.read(file).findings), None)
        return None if wrong is None else f"{file.name}: {wrong.message}"

    named = kind.names.intersection(folder.readable)
    return troubles_of(map(folder.input, named), first_error, unread)


def snapshots_of(folder: Folder) -> list[Input]:
    """The snapshots of a metadata log, oldest first; a broker loads the newest."""
    inputs = (folder.input(name) for name in folder.readable if name.endswith(".checkpoint"))
    return [file for file in inputs if file.kind is KRAFT_SNAPSHOT and end_of(file) is not None]


def end_of(snapshot: Input) -> int | None:
    """The end offset of a KRaft snapshot, from its name; None for bootstrap.checkpoint."""
    number = snapshot.path.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdigit() else None


def troubles_of(
    files: Iterable[Input], look: Callable[[Input], str | None], unread: list[InputError]
) -> Iterator[tuple[str, str]]:
    """The files with what a look at them finds or fails on; adds the errors of unreadable ones to
    `unread`."""
    for file in files:
        try:
            trouble = look(file)
        except (CorruptError, StartFailed, InputError) as error:
            if isinstance(error, InputError):
                unread.append(error)
            trouble = str(error)
        if trouble is not None:
            yield file.name, trouble


def _id_trouble(file: Input) -> str | None:
    topic_id = read_topic_id(file)
    if topic_id == METADATA_TOPIC_ID:
        return None
    mine, its = uuid_text(topic_id), uuid_text(METADATA_TOPIC_ID)
    return f"{file.name}: topic id is {mine}, but must be {its} for the metadata log"


def _snapshot_trouble(file: Input) -> str | None:
    is_first = True
    with closing(LogBytes(file.path, file.name)) as log:
        for batch in batches(log, 0, log.size):
            place = f"byte {batch.position}"
            if not 0 <= batch.magic <= 2:
                return f"{place}: magic {batch.magic}"
            if not is_valid(log, batch):
                return f"{place}: the checksum of a batch is wrong"
            count = header.records_count(log.read(batch.position, min(batch.size, _LARGE)))
            if is_first and not (batch.is_control and count):
                return f"{place}: the first batch is not a control batch"
            if given_of(log, batch).fault is not Fault.NONE:
                return f"{place}: a batch cannot be decoded"
            is_first = False
    return "no batch in it" if is_first else None


def bootstrap_trouble(file: Input) -> str | None:
    """Why a broker does not start with a bootstrap.checkpoint, whose checksums it does not check;
    raises CorruptError, StartFailed, InputError."""
    has_version = False
    with closing(LogBytes(file.path, file.name)) as log:
        for batch in batches(log, 0, log.size):
            data = log.read(batch.position, min(batch.size, _LARGE))
            if given_of(log, batch, checks_crc=False).fault is not Fault.NONE:
                return f"{file.name} byte {batch.position}: a batch cannot be decoded"
            is_data = batch.magic >= 2 and not batch.is_control
            has_version = has_version or (is_data and _VERSION_RECORD in data)
    return None if has_version else f"{file.name}: no metadata version record"


def voters_of(folder: Folder) -> list[int | None]:
    """The ids of the voters in quorum-state, None for a malformed one; none if it is missing or
    names none. Raises InputError."""
    for name in QUORUM_STATE.names.intersection(folder.readable):
        with suppress(ValueError, TypeError, AttributeError):
            state = json.loads(read_whole(folder.input(name), _LARGE))
            return [_id_of(voter) for voter in state.get("currentVoters", ())]
    return []


def _id_of(voter: object) -> int | None:
    found = voter.get("voterId") if isinstance(voter, dict) else None
    return found if isinstance(found, int) else None
