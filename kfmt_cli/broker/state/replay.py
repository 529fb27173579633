"""What a replay of a topic is: records in, rows of state out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.messages import plain_value
from kfmt_cli.formats.control import CONTROL_TYPES
from kfmt_cli.log.stream import Record
from kfmt_cli.rows.column import ColumnKind
from kfmt_cli.rows.state_types import StateType
from kfmt_cli.topics import decoder_for
from kfmt_cli.topics.decoder import Decoded, Decoder

ABORT, COMMIT = CONTROL_TYPES.index("ABORT"), CONTROL_TYPES.index("COMMIT")
Data = dict[str, Any]
Row = tuple[str | int | None, ...]
# The rows of each type, by the columns that tell them apart.
State = dict[StateType, dict[Row, Row]]


class Replay(ABC):
    """Takes the records of one partition in offset order and knows what they come to.

    topic: whose records. types: of the rows, in the order in which they are shown. malformed: what
    is wrong with records, by their offsets. unknown: how many are of a kind that is not known.
    """

    topic: ClassVar[str]
    types: ClassVar[tuple[StateType, ...]]

    def __init__(self) -> None:
        decoder = decoder_for(self.topic)
        assert decoder is not None
        self.decoder: Decoder = decoder
        self.malformed: list[tuple[int, str]] = []
        self.unknown = 0

    @abstractmethod
    def take(self, record: Record) -> None:
        """The next record."""

    @abstractmethod
    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        """The rows of the state, each by the names of its columns; others are null."""

    def begin(self) -> None:  # noqa: B027 (most keep nothing of the kind)
        """A snapshot of the state begins: what is known so far does not count any more."""

    def understood(self, record: Record, said: Decoded | None) -> Data | None:
        """The data of a key or a value, None where it is not whole, which is remembered."""
        if said is not None and said.fault is None and said.data is not None:
            return said.data
        if said is not None and said.fault is not None:
            self.not_understood(record, f"not a valid {said.name}: {said.fault}")
        else:
            self.unknown += 1
        return None

    def not_understood(self, record: Record, words: str) -> None:
        """A record is not what it should be."""
        self.malformed.append((record.offset, words))

    def state(self) -> State:
        """The rows of the state in their order."""
        found: State = {type_: {} for type_ in self.types}
        for type_, values in self.rows():
            row = tuple(
                _cell(column.kind, values.get(column.name)) for column in type_.rows.columns
            )
            found[type_][row[: type_.n_key]] = row
        return {
            state_type: dict(sorted(rows.items(), key=_order)) for state_type, rows in found.items()
        }


def _cell(kind: ColumnKind, value: Any) -> str | int | None:
    if value is None:
        return None
    if kind is ColumnKind.JSON:
        return json_text(plain_value(value))
    return str(value) if kind is ColumnKind.TEXT else int(value)


def _order(item: tuple[Row, Row]) -> list[tuple[int, int, str]]:
    """Numbers before text, null first."""
    return [
        (0, 0, "") if part is None else (1, part, "") if isinstance(part, int) else (2, 0, part)
        for part in item[0]
    ]


@dataclass(slots=True)
class _OpenTransaction:
    """A transaction."""

    committed: bool | None = None
    """None while it is open."""


class ReadCommitted(Replay):
    """A topic whose records take effect in their order, as a reader of what is committed sees them.

    What follows on an open transaction waits for its end.
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
        """The next record that counts."""


class LatestOfKeys(Replay):
    """A topic in which the last value of a key counts and a tombstone takes it away.

    Those of a transaction count when it is committed, unless a later record of the key has come in
    between; a tombstone takes what is open away, too.
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

    def said(self) -> Iterator[tuple[str, Data, Data]]:
        """What counts, in the order of the log: the message of the key, the key's data, the
        value's."""
        for key, record in self._latest.items():
            of_key = self.decoder.key(key)
            key_data = self.understood(record, of_key)
            data = None
            if key_data is not None:
                data = self.understood(record, self.decoder.value(key, record.value))
            if of_key is not None and key_data is not None and data is not None:
                yield of_key.name or "", key_data, data
