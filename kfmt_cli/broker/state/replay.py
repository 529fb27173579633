"""Replays of topics: records in, rows of state out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.layout.messages import plain_value
from kfmt_cli.formats.control import ABORT, COMMIT
from kfmt_cli.log.stream import Record
from kfmt_cli.rows.column import ColumnKind
from kfmt_cli.rows.types.state_types import StateType
from kfmt_cli.topics import decoder_for
from kfmt_cli.topics.decoder import Decoded, Decoder

MOST = 1 << 63
Data = Fields
Row = tuple[str | int | None, ...]
# The rows of each type, by their key columns.
State = dict[StateType, dict[Row, Row]]


class Replay(ABC):
    """Turns the records of one partition, in offset order, into state.

    topic: the topic replayed. types: of the rows, in display order. malformed: the problems of
    records, by offset. unknown: the number of records of an unknown kind.
    """

    topic: ClassVar[str]
    types: ClassVar[tuple[StateType, ...]]
    shows_values = False
    """Whether values of settings are shown that may be secrets."""

    def __init__(self) -> None:
        decoder = decoder_for(self.topic)
        assert decoder is not None
        self.decoder: Decoder = decoder
        self.malformed: list[tuple[int, str]] = []
        self.unknown = 0

    @abstractmethod
    def take(self, record: Record) -> None:
        """Apply the next record."""

    @abstractmethod
    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        """The rows of the state, each by the columns' sources; missing columns are null."""

    def begin(self) -> None:  # noqa: B027 (most keep nothing of the kind)
        """Begin a snapshot of the state: discard everything known so far."""

    def understood(self, record: Record, said: Decoded | None) -> Data | None:
        """The data of a key or a value; None if it is malformed or unknown, which is recorded."""
        if said is not None and said.fault is None and said.data is not None:
            return said.data if isinstance(said.data, Data) else Data(said.data)
        if said is not None and said.fault is not None:
            self.not_understood(record, f"not a valid {said.name}: {said.fault}")
        else:
            self.unknown += 1
        return None

    def not_understood(self, record: Record, words: str) -> None:
        """Record that a record is malformed."""
        self.malformed.append((record.offset, words))

    def state(self) -> State:
        """The rows of the state, sorted by key."""
        found: State = {type_: {} for type_ in self.types}
        for type_, values in self.rows():
            row = tuple(_cell(column.kind, values.get(column.at)) for column in type_.columns)
            found[type_][row[: type_.n_key]] = row
        return {
            state_type: dict(sorted(rows.items(), key=_order)) for state_type, rows in found.items()
        }


def _cell(kind: ColumnKind, value: Any) -> str | int | None:
    if value is None:
        return None
    if kind is ColumnKind.JSON:
        return json_text(plain_value(value))
    if kind is ColumnKind.TEXT:
        return json_text(plain_value(value)) if isinstance(value, dict | list) else str(value)
    # A number of a record is text until proven.
    is_number = isinstance(value, int) and -MOST <= value < MOST
    return int(value) if is_number else None


def _order(item: tuple[Row, Row]) -> list[tuple[int, int, str]]:
    """Sort key: null first, numbers before text."""
    return [
        (0, 0, "") if part is None else (1, part, "") if isinstance(part, int) else (2, 0, part)
        for part in item[0]
    ]


@dataclass(slots=True)
class _OpenTransaction:
    """A transaction."""

    committed: bool | None = None
    """None if it is open."""


class ReadCommitted(Replay):
    """A topic whose records take effect in order, as a read_committed consumer sees them.

    Records after an open transaction wait for its end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[tuple[Record, _OpenTransaction | None]] = deque()
        self._open: dict[int, _OpenTransaction] = {}

    def take(self, record: Record) -> None:
        producer = record.producer_id
        if record.control is not None:
            if producer is not None and record.control in (ABORT, COMMIT):
                ended = self._open.pop(producer, _OpenTransaction())
                ended.committed = record.control == COMMIT
        else:
            of = None
            if producer is not None:
                of = self._open.setdefault(producer, _OpenTransaction())
            self._waiting.append((record, of))
        while self._waiting and ((of := self._waiting[0][1]) is None or of.committed is not None):
            first, _ = self._waiting.popleft()
            if of is None or of.committed:
                self.apply(first)

    @abstractmethod
    def apply(self, record: Record) -> None:
        """Apply the next committed record."""


class LatestOfKeys(Replay):
    """A topic in which the last value of a key counts and a tombstone removes it.

    Transactional records count once committed, unless the key has a later record by then. A
    tombstone also removes the key's records in open transactions. A row has what the key and the
    value say.
    """

    def __init__(self) -> None:
        super().__init__()
        self._latest: dict[bytes, Record] = {}
        self._open: dict[int, dict[bytes, Record]] = {}

    def take(self, record: Record) -> None:
        producer = record.producer_id
        if record.control is not None:
            if producer is not None and record.control in (ABORT, COMMIT):
                kept = self._open.pop(producer, {})
                for key, data in kept.items() if record.control == COMMIT else ():
                    self._put(key, data)
        elif record.key is None:
            self.not_understood(record, "record without a key")
        elif producer is not None:
            self._open.setdefault(producer, {})[record.key] = record
        else:
            self._put(record.key, record)

    def _put(self, key: bytes, record: Record) -> None:
        known = self._latest.get(key)
        if known is not None and known.offset > record.offset:
            return
        self._latest.pop(key, None)
        if record.value is not None:
            self._latest[key] = record
            return
        for kept in self._open.values():
            kept.pop(key, None)

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for _, key, value in self.said():
            yield self.types[0], {**key, **value}

    def said(self) -> Iterator[tuple[str, Data, Data]]:
        """The current records in log order: the name of the key's message, the key's data and the
        value's."""
        for key, record in self._latest.items():
            of_key = self.decoder.key(key)
            key_data = self.understood(record, of_key)
            data = None
            if key_data is not None:
                data = self.understood(record, self.decoder.value(key, record.value))
            if of_key is not None and key_data is not None and data is not None:
                yield of_key.name or "", key_data, data
