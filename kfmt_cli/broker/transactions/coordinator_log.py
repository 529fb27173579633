"""The decisions of transaction coordinators, from the logs of __transaction_state.

Before it writes the markers of a transaction, the coordinator logs how it ends, with its
partitions: PrepareCommit or PrepareAbort. Source:
`org.apache.kafka.coordinator.transaction.TransactionMetadata`,
`kafka.coordinator.transaction.TransactionCoordinator`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from kfmt_cli.broker.metadata.meta_properties import read_meta_properties
from kfmt_cli.broker.state.unfinished_transactions import TRANSACTION_STATES
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.source import STDIN_PATH
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.directory_listing import DirectoryListing, classify_file, list_directory
from kfmt_cli.disk.file_access import is_file
from kfmt_cli.disk.file_names import (
    log_partition_directory,
    parse_topic_partition,
    partition_directory,
    path_identity,
)
from kfmt_cli.disk.input_paths import InputPath, resolve_paths
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding, is_error
from kfmt_cli.formats.control import ABORT, COMMIT
from kfmt_cli.log.log_opening import open_log
from kfmt_cli.log.record_stream import StreamedRecord, iter_records_and_findings
from kfmt_cli.topics import find_decoder

TRANSACTION_STATE_TOPIC = "__transaction_state"
_EMPTY, _ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT = map(
    TRANSACTION_STATES.index, ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort")
)
_CONTROL_TYPE_BY_STATUS = {_PREPARE_COMMIT: COMMIT, _PREPARE_ABORT: ABORT}
# Transactions of this version end with a greater epoch than their records have.
_EPOCH_BUMPING_VERSION = 2


@dataclass(frozen=True, slots=True)
class Decision:
    """How a coordinator decided to end a transaction in a partition."""

    control_type: int
    """`COMMIT` or `ABORT`."""
    producer_epoch: int
    """The epoch of its markers."""
    bumps_epoch: bool
    """Whether the epoch of its records is lower: a transaction of version 2."""
    start_ms: int
    """By the coordinator's clock: before it wrote the markers."""
    end_ms: int | None = None
    """By the same clock: after it had written them; None if unknown."""

    def can_end(self, records_epoch: int) -> bool:
        """Whether it can end a transaction whose records have this producer epoch."""
        n_bumps = self.producer_epoch - records_epoch
        if self.control_type == ABORT and n_bumps == 1 + self.bumps_epoch:
            return True  # by the coordinator, which fences the producer by another epoch
        return n_bumps == self.bumps_epoch


@dataclass(slots=True)
class ProducerHistory:
    """All decisions of a coordinator about one producer in one partition."""

    decisions: list[Decision] = field(default_factory=list)
    is_complete: bool = False
    """Whether it begins with the producer id itself; else earlier ones may have been removed."""


class _HistoryReader:
    """Reads the histories of some producers in one partition from a coordinator's log."""

    def __init__(self, producer_ids: Collection[int], topic_partition: tuple[str, int]) -> None:
        self.history_by_producer: dict[int, ProducerHistory] = {}
        self._producer_ids = frozenset(producer_ids)
        self._topic_partition = topic_partition
        self._next_offset = -1
        decoder = find_decoder(TRANSACTION_STATE_TOPIC)
        assert decoder is not None
        self._decoder = decoder

    def add_log(self, log: InputFile) -> None:
        """Add the next log; raises InputError."""
        with open_log(log, read_ahead=False) as opened_log:
            for record in iter_records_and_findings(opened_log, DecompressionLimit()):
                if isinstance(record, Finding):
                    if is_error(record):
                        self._next_offset = -1
                    continue
                if record.offset != self._next_offset:  # compaction or damage has removed some
                    self.history_by_producer.clear()
                self._next_offset = record.offset + 1
                if record.value is not None and record.control_type is None:
                    self._add_record(record)

    def _add_record(self, record: StreamedRecord) -> None:
        payload = self._decoder.decode_value(record.key, record.value)
        if payload is None or payload.error is not None or payload.stored_values is None:
            return
        value = FieldDict(payload.stored_values)
        if value.producer_id not in self._producer_ids:
            return
        history = self.history_by_producer.setdefault(value.producer_id, ProducerHistory())
        status, start_ms = value.transaction_status, value.transaction_start_timestamp_ms
        if status == _EMPTY:
            if not value.producer_epoch and start_ms < 0:
                history.is_complete, history.decisions = True, []
            start_ms = value.transaction_last_update_timestamp_ms
        is_decision = status in _CONTROL_TYPE_BY_STATUS
        if not is_decision and status not in (_EMPTY, _ONGOING):
            return
        decisions = history.decisions
        if decisions and decisions[-1].end_ms is None:  # the next transaction begins after it
            decisions[-1] = replace(decisions[-1], end_ms=max(start_ms, decisions[-1].start_ms))
        if is_decision and self._includes_partition(value):
            decisions.append(
                Decision(
                    _CONTROL_TYPE_BY_STATUS[status],
                    value.producer_epoch,
                    (value.get("client_transaction_version") or 0) >= _EPOCH_BUMPING_VERSION,
                    value.transaction_last_update_timestamp_ms,
                )
            )

    def _includes_partition(self, value: FieldDict) -> bool:
        topic, partition = self._topic_partition
        return any(
            entry["topic"] == topic and partition in entry["partition_ids"]
            for entry in value.transaction_partitions or ()
        )


def read_producer_histories(
    log_path: str,
    user_paths: Sequence[InputPath | str],
    producer_ids: Collection[int],
) -> Iterator[dict[int, ProducerHistory]]:
    """The histories of producers in the partition of a log, by producer id. Each readable
    coordinator's log in its log directory or under the given paths contributes one."""
    directory = log_partition_directory(log_path)
    topic, partition = parse_topic_partition(directory.name)
    if topic is None or partition is None or topic == TRANSACTION_STATE_TOPIC:
        return
    listing_by_path: dict[str, DirectoryListing] = {}
    for listing in _iter_coordinator_logs(str(directory.parent), user_paths):
        listing_by_path.setdefault(path_identity(listing.path), listing)
    cluster_id = _read_cluster_id(str(directory.parent))
    for listing in listing_by_path.values():
        other_cluster_id = _read_cluster_id(str(partition_directory(listing.path).parent))
        if None in (cluster_id, other_cluster_id) or cluster_id == other_cluster_id:
            with suppress(InputError):
                reader = _HistoryReader(producer_ids, (topic, partition))
                for log in listing.logs:
                    reader.add_log(log)
                yield reader.history_by_producer


def _iter_coordinator_logs(
    log_directory: str, user_paths: Sequence[InputPath | str]
) -> Iterator[DirectoryListing]:
    """The partitions of __transaction_state in a local log directory and under other paths."""
    if is_local(log_directory):
        with suppress(InputError):
            for name in list_directory(log_directory).partition_names:
                if parse_topic_partition(name)[0] == TRANSACTION_STATE_TOPIC:
                    yield list_directory(f"{log_directory}/{name}")
    readable_paths = [path for path in user_paths if path != STDIN_PATH]
    for input_path in resolve_paths(readable_paths, lambda _: None):
        for listing in input_path.directories:
            directory_name = partition_directory(listing.path).name
            if parse_topic_partition(directory_name)[0] == TRANSACTION_STATE_TOPIC:
                yield listing


def _read_cluster_id(log_directory: str) -> str | None:
    """The cluster id in the meta.properties of a log directory; None if unknown."""
    path = f"{log_directory}/meta.properties"
    with suppress(InputError):
        if is_file(path):
            return read_meta_properties(classify_file(path, path)).cluster_id
    return None
