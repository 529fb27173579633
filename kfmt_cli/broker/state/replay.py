"""Replays of topics: records in, rows of state out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.layout.messages import to_json_value
from kfmt_cli.formats.control import ABORT, COMMIT
from kfmt_cli.log.record_stream import StreamedRecord
from kfmt_cli.rows.column import ColumnKind
from kfmt_cli.rows.types.state_rows import StateType
from kfmt_cli.topics import find_decoder
from kfmt_cli.topics.decoder import DecodedPayload, Decoder

INT64_LIMIT = 1 << 63
RecordFields = FieldDict
StateRow = tuple[str | int | None, ...]
# The rows of each type, by their key columns.
ReplayedState = dict[StateType, dict[StateRow, StateRow]]


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """The first record with which a broker fails to load a partition of an internal topic."""

    offset: int
    """Its offset; in a snapshot of the metadata log, its number among the records there."""
    record: str
    """Its type, and whose it is."""
    reason: str
    """Kafka's exception."""
    is_in_snapshot: bool = False

    @property
    def message(self) -> str:
        """The failure in the words of Kafka's `MetadataLoader`."""
        place = (
            f"{self.offset} in the snapshot"
            if self.is_in_snapshot
            else f"from offset {self.offset}"
        )
        return f"Error loading metadata log record {place}, {self.record}: {self.reason}"


class TopicReplay(ABC):
    """Turns the records of one partition, in offset order, into state.

    topic: the topic replayed. row_types: the types of its rows, in display order.
    malformed_records: the problems of records, by offset. skipped_kinds: skipped records, by their
    unknown type or version. later_kinds: records of later versions that were read as the newest
    known. load_failure: the first record with which a broker fails to load the partition.
    """

    topic: ClassVar[str]
    row_types: ClassVar[tuple[StateType, ...]]
    shows_secret_values = False
    """Whether values of settings are shown that may be secrets."""
    partition: int | None = None
    """The partition of the topic, if known."""

    def __init__(self) -> None:
        decoder = find_decoder(self.topic)
        assert decoder is not None
        self.decoder: Decoder = decoder
        self.malformed_records: list[tuple[int, str]] = []
        self.skipped_kinds: Counter[str] = Counter()
        self.later_kinds: Counter[str] = Counter()
        self.load_failure: LoadFailure | None = None
        self.load_error: str | None = None
        """Why a coordinator cannot load the partition, for the rows of what it does not serve."""

    @abstractmethod
    def apply_record(self, record: StreamedRecord) -> None:
        """Apply the next record."""

    @abstractmethod
    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        """The rows of the state, each as values by table column; missing columns are null."""

    def reset(self) -> None:  # noqa: B027 (most replays need no reset)
        """Discard the state so far, before another snapshot of it is applied."""

    def extract_fields(
        self, record: StreamedRecord, decoded_payload: DecodedPayload | None
    ) -> RecordFields | None:
        """The data of a key or a value; None if it is malformed or unknown, which is recorded."""
        if (
            decoded_payload is not None
            and decoded_payload.error is None
            and decoded_payload.stored_values is not None
        ):
            if decoded_payload.json_values.get("note"):
                self.later_kinds[_describe_kind(decoded_payload)] += 1
            return (
                decoded_payload.stored_values
                if isinstance(decoded_payload.stored_values, RecordFields)
                else RecordFields(decoded_payload.stored_values)
            )
        if decoded_payload is not None and decoded_payload.error is not None:
            self.report_malformed_record(
                record, f"not a valid {decoded_payload.message_name}: {decoded_payload.error}"
            )
        else:
            self.skipped_kinds[_describe_kind(decoded_payload)] += 1
        return None

    def orphan_messages(self) -> Iterator[str]:
        """A sentence for each record that the topic's program considers deleted but Kafka does
        not."""
        return iter(())

    def unknown_record_messages(self) -> Iterator[str]:
        """A sentence for each kind of record that was skipped or read as an older version."""
        for kinds, consequence in (
            (self.skipped_kinds, "skipped"),
            (self.later_kinds, "read as the newest known version"),
        ):
            if kinds:
                n_records = kinds.total()
                noun, verb = ("record", "was") if n_records == 1 else ("records", "were")
                kind_texts = (f"{kind} ({n})" if n > 1 else kind for kind, n in kinds.items())
                yield (
                    f"{n_records} {noun} of an unknown type or version {verb} {consequence}: "
                    f"{', '.join(kind_texts)}"
                )

    def report_malformed_record(self, record: StreamedRecord, problem: str) -> None:
        """Record that a record is malformed."""
        self.malformed_records.append((record.offset, problem))

    def sorted_rows(self) -> ReplayedState:
        """The rows of the state, sorted by key."""
        rows_by_type: ReplayedState = {type_: {} for type_ in self.row_types}
        for row_type, row_values in self.iter_rows():
            row = tuple(
                _to_cell(column.kind, row_values.get(column.table_column))
                for column in row_type.columns
            )
            rows_by_type[row_type][row[: row_type.n_key_columns]] = row
        return {
            sorted_type: dict(sorted(row_by_key.items(), key=_row_sort_key))
            for sorted_type, row_by_key in rows_by_type.items()
        }


def _describe_kind(payload: DecodedPayload | None) -> str:
    """The type and version of a record as text."""
    members = {} if payload is None else payload.json_values
    name = payload.message_name if payload is not None else None
    if name is None:
        return f"type {members['type']}" if members.get("type") is not None else "without a type"
    return f"{name} version {members.get('version')}"


def _to_cell(column_kind: ColumnKind, column_value: Any) -> str | int | None:
    if column_value is None:
        return None
    if column_kind is ColumnKind.JSON:
        return json_text(to_json_value(column_value))
    if column_kind is ColumnKind.TEXT:
        return (
            json_text(to_json_value(column_value))
            if isinstance(column_value, dict | list)
            else str(column_value)
        )
    # A number in a record can be of any type and size.
    is_int64 = isinstance(column_value, int) and -INT64_LIMIT <= column_value < INT64_LIMIT
    return int(column_value) if is_int64 else None


def _row_sort_key(key_and_row: tuple[StateRow, StateRow]) -> list[tuple[int, int, str]]:
    """Sort key: null first, numbers before text."""
    return [
        (0, 0, "") if cell is None else (1, cell, "") if isinstance(cell, int) else (2, 0, cell)
        for cell in key_and_row[0]
    ]


@dataclass(slots=True)
class _ReplayedTransaction:
    """A transaction with at least one record read."""

    is_committed: bool | None = None
    """None if it is open."""


class CommittedReplay(TopicReplay):
    """A topic whose records take effect in order, as a read_committed consumer sees them.

    Records after an open transaction wait for its end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._pending_records: deque[tuple[StreamedRecord, _ReplayedTransaction | None]] = deque()
        self._open_transaction_by_producer: dict[int, _ReplayedTransaction] = {}

    def apply_record(self, record: StreamedRecord) -> None:
        producer_id = record.producer_id
        if record.control_type is not None:
            if producer_id is not None and record.control_type in (ABORT, COMMIT):
                ended_transaction = self._open_transaction_by_producer.pop(
                    producer_id, _ReplayedTransaction()
                )
                ended_transaction.is_committed = record.control_type == COMMIT
        else:
            transaction = None
            if producer_id is not None:
                transaction = self._open_transaction_by_producer.setdefault(
                    producer_id, _ReplayedTransaction()
                )
            self._pending_records.append((record, transaction))
        while self._pending_records and (
            (transaction := self._pending_records[0][1]) is None
            or transaction.is_committed is not None
        ):
            pending_record, _ = self._pending_records.popleft()
            if transaction is None or transaction.is_committed:
                self.apply_committed_record(pending_record)

    @abstractmethod
    def apply_committed_record(self, record: StreamedRecord) -> None:
        """Apply the next committed record."""


class CompactedTopicReplay(TopicReplay):
    """A topic in which the last value of a key counts and a tombstone removes it.

    Transactional records count once committed, unless the key has a later record by then. A
    tombstone also removes the key's records in open transactions. A row has the fields of the key
    and the value.
    """

    needs_only_latest: ClassVar[bool] = True
    """Whether records that a later one of the same key supersedes have no other effect."""

    def __init__(self) -> None:
        super().__init__()
        self._latest_by_key: dict[Hashable, StreamedRecord] = {}
        self._open_records_by_producer: dict[int, dict[Hashable, StreamedRecord]] = {}
        self._latest_by_form: dict[Hashable, dict[bytes, StreamedRecord]] = {}
        """The latest records of each form of a key, where these differ from the logical key."""

    def apply_record(self, record: StreamedRecord) -> None:
        producer_id = record.producer_id
        if record.control_type is not None:
            if producer_id is not None and record.control_type in (ABORT, COMMIT):
                transaction_records = self._open_records_by_producer.pop(producer_id, {})
                for key, latest_record in (
                    transaction_records.items() if record.control_type == COMMIT else ()
                ):
                    self._store_latest_record(key, latest_record)
        elif record.key is None:
            self.report_malformed_record(record, "record without a key")
        elif producer_id is not None:
            self._open_records_by_producer.setdefault(producer_id, {})[
                self.decoder.logical_key(record.key)
            ] = record
        else:
            self._store_latest_record(self.decoder.logical_key(record.key), record)

    def _store_latest_record(self, key: Hashable, record: StreamedRecord) -> None:
        if record.key is not None and key != record.key:
            self._latest_by_form.setdefault(key, {})[record.key] = record
        current_record = self._latest_by_key.get(key)
        if current_record is not None and current_record.offset > record.offset:
            return
        self._latest_by_key.pop(key, None)
        if record.value is not None:
            self._latest_by_key[key] = record
            return
        for transaction_records in self._open_records_by_producer.values():
            transaction_records.pop(key, None)

    def orphan_messages(self) -> Iterator[str]:
        for latest_by_form in self._latest_by_form.values():
            tombstone = max(latest_by_form.values(), key=lambda record: record.offset)
            for form, record in latest_by_form.items() if tombstone.value is None else ():
                if record.value is not None:
                    yield (
                        f"offset {record.offset} has the key of the tombstone at offset "
                        f"{tombstone.offset} in another form, so compaction keeps it: it counts "
                        "again once the tombstone is removed; to delete it, write a tombstone with "
                        f"exactly this key: {form.decode()}"
                    )

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for _, key_fields, value_fields in self.iter_current_records():
            yield self.row_types[0], {**key_fields, **value_fields}

    def iter_current_records(self) -> Iterator[tuple[str, RecordFields, RecordFields]]:
        """The current records in log order: the name of the key's message, the data of the key
        (with its bytes as `key_bytes`) and the data of the value."""
        for record in self._latest_by_key.values():
            key = record.key or b""
            decoded_key = self.decoder.decode_key(key)
            key_data = self.extract_fields(record, decoded_key)
            value_data = None
            if key_data is not None:
                key_data["key_bytes"] = key
                value_data = self.extract_fields(
                    record, self.decoder.decode_value(key, record.value)
                )
            if decoded_key is not None and key_data is not None and value_data is not None:
                yield decoded_key.message_name or "", key_data, value_data
