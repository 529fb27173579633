"""Templates: programs for the bulk writer `native/emit.py`, assembled in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native import text
from kfmt_cli.core.native.emit import OPS
from kfmt_cli.render.style import PLAIN, Theme

NO_PADDING = 2
BARE = 8  # added to the mode of a preview without quotes, see `core/native/cell.py`
NUMBER_ROOM = 32  # the longest number, time or hex word that one instruction writes


class Literals:
    """The fixed words shared by templates that are written together."""

    def __init__(self) -> None:
        self._words: list[tuple[bytes, int]] = []
        self._known: dict[tuple[bytes, int], int] = {}
        for word in text.FIXED_LITERALS:
            self.entry(word.decode())

    def entry(self, words: str, width: int | None = None) -> int:
        """The number of the words; equal words share one. width: columns, if not one per
        character."""
        key = words.encode(), len(words) if width is None else width
        if key not in self._known:
            self._known[key] = self.row([words])
            self._words[-1] = key
        return self._known[key]

    def row(self, words: list[str]) -> int:
        """The number of the first of several words, numbered consecutively."""
        first = len(self._words)
        self._words += [(word.encode(), len(word)) for word in words]
        return first

    def __getitem__(self, number: int) -> bytes:
        return self._words[number][0]

    @cached_property
    def data(self) -> bytes:
        """All words, concatenated."""
        return b"".join(word for word, _ in self._words) + bytes(text.LITERAL_PADDING)

    @cached_property
    def places(self) -> IntArray:
        """(3, words): start of a word in `data`, its bytes, its columns."""
        lengths = [len(word) for word, _ in self._words]
        places = np.zeros((3, len(lengths)), np.int64)
        places[0] = np.cumsum([0, *lengths[:-1]])
        places[1] = lengths
        places[2] = [width for _, width in self._words]
        return places


@dataclass(frozen=True, slots=True)
class Template:
    """A program of `native/emit.py`; made by `TemplateBuilder`."""

    program: IntArray
    shape: IntArray
    literals: Literals


class TemplateBuilder:
    """Collects instructions; methods are named after the text they write.

    columns: names of the rows' columns; children: names of the columns of their array. Templates
    that are written together share their literals. constants: columns with one value in all rows to
    be written; instructions that depend on them are resolved here, once.
    """

    def __init__(
        self,
        columns: Mapping[str, int],
        children: Mapping[str, int] | None = None,
        literals: Literals | None = None,
        constants: Mapping[str, int] | None = None,
        theme: Theme = PLAIN,
    ) -> None:
        self.theme = theme
        self._columns = columns
        self._constants = constants or {}
        self._pending: tuple[str, int] = ("", 0)  # a literal that may still grow
        self._children = children or {}
        self._program: list[list[int]] = []
        self._literals = literals or Literals()
        self._in_child = False
        self._rooms = [64, 64]  # per row, per row of its array
        self._bytes: tuple[list[int], list[int]] = ([], [])
        self._each = -1

    def _add(self, op: str, a: int = 0, b: int = 0, c: int = 0, room: int = 0) -> list[int]:
        self._flush()
        instruction = [OPS[op], a, b, c]
        self._program.append(instruction)
        self._rooms[self._in_child] += room
        return instruction

    def _column(self, name: str) -> int:
        return (self._children if self._in_child else self._columns)[name]

    def literal(self, words: str, width: int | None = None) -> None:
        """Fixed words; `width` columns if not one per character."""
        before, columns = self._pending
        self._pending = before + words, columns + (len(words) if width is None else width)

    def painted(self, style: str, words: str) -> None:
        """Fixed words in a style."""
        self.literal(self.theme.paint(style, words), len(words))

    def _flush(self) -> None:
        """Emit the pending literal: adjacent ones become one instruction."""
        words, width = self._pending
        self._pending = "", 0
        if words:
            entry = self._literals.entry(words, width)
            self._program.append([OPS["LITERAL"], entry, 0, 0])
            self._rooms[self._in_child] += len(words.encode())

    def _constant(self, name: str) -> int | None:
        """The value of a constant column, None for others."""
        return None if self._in_child else self._constants.get(name)

    def number(self, name: str) -> None:
        """A column's number."""
        constant = self._constant(name)
        if constant is None:
            self._add("NUMBER", self._column(name), room=NUMBER_ROOM)
        else:
            self.literal(str(constant))

    def grouped(self, name: str) -> None:
        """A column's number, with thousands separated."""
        self._add("GROUPED", self._column(name), room=NUMBER_ROOM)

    def hex32(self, name: str) -> None:
        """A column's number as eight hexadecimal digits."""
        self._add("HEX32", self._column(name), room=NUMBER_ROOM)

    def time(self, name: str) -> None:
        """A column of milliseconds as ISO-8601 in UTC."""
        self._add("TIME", self._column(name), room=NUMBER_ROOM)

    def choice(self, name: str, words: list[str], other: tuple[str, str]) -> None:
        """The word at a column's number; any other number is written between the words of
        `other`."""
        constant = self._constant(name)
        if constant is not None and 0 <= constant < len(words):
            self.literal(words[constant])
            return
        first = self._literals.row([*words, *other])
        room = max(len(word.encode()) for word in (*words, *other))
        self._add("CHOICE", self._column(name), first, len(words), room=2 * room + NUMBER_ROOM)

    def json_bytes(self, name: str, mode: str) -> None:
        """Bytes as a JSON string, followed by `"<name>_encoding"` if they are not text."""
        encodings = ("utf8-replaced", "hex", "base64")
        first = self._literals.row([f',"{name}_encoding":"{encoding}"' for encoding in encodings])
        self._bytes_of(name)
        self._add("JSON_BYTES", self._column(name), _mode(mode), first, room=len(name) + 40)

    def raw(self, name: str) -> None:
        """Bytes that are already safe text, unchanged."""
        self._bytes_of(name)
        self._add("RAW", self._column(name))

    def csv_bytes(self, name: str, mode: str) -> None:
        """Bytes as a CSV field: empty for null, quoted otherwise."""
        self._bytes_of(name)
        self._add("CSV_BYTES", self._column(name), _mode(mode), room=8)

    def encoding(self, name: str, mode: str) -> None:
        """The encoding that `csv_bytes` used; empty for text."""
        first = self._literals.row(["hex", "base64"])
        self._add("ENCODING", self._column(name), _mode(mode), first, room=8)

    def cell_bytes(self, name: str, mode: str, limit: int) -> None:
        """A quoted preview of bytes, shortened to `limit` columns unless that is 0."""
        self._bytes_of(name)
        self._add("CELL_BYTES", self._column(name), _mode(mode), limit, room=NUMBER_ROOM)

    def cell_text(self, name: str, mode: str, limit: int) -> None:
        """The same, quoted only if it would otherwise look like a null."""
        self._bytes_of(name)
        self._add("CELL_BYTES", self._column(name), _mode(mode) + BARE, limit, room=NUMBER_ROOM)

    def _bytes_of(self, name: str) -> None:
        self._bytes[self._in_child].append(self._column(name))

    def when(self, name: str, value: int) -> AbstractContextManager[None]:
        """Write the block only if a column is `value`."""
        return self._conditional("IF", name, value, True)

    def unless(self, name: str, value: int) -> AbstractContextManager[None]:
        """Write the block unless a column is `value`."""
        return self._conditional("UNLESS", name, value, False)

    @contextmanager
    def _conditional(self, op: str, name: str, value: int, equal: bool) -> Iterator[None]:
        constant = self._constant(name)
        if constant is not None:
            with nullcontext() if (constant == value) == equal else self._unwritten():
                yield
            return
        instruction = self._add(op, self._column(name), value)
        at = len(self._program)
        yield
        self._flush()
        instruction[3] = len(self._program) - at

    @contextmanager
    def unless_none(
        self, name: str, none: int, words: str = "–", style: str = ""
    ) -> Iterator[None]:
        """Write the block, or words in rows where a column is `none`."""
        with self.when(name, none):
            self.painted(style, words)
        with self.unless(name, none):
            yield

    @contextmanager
    def _unwritten(self) -> Iterator[None]:
        """Forget the block, which no row needs."""
        kept = self._program, self._pending, self._rooms.copy(), self._bytes, self._each
        self._program, self._bytes = [], ([], [])
        yield
        self._program, self._pending, self._rooms, self._bytes, self._each = kept

    @contextmanager
    def each(self, name: str, separator: str) -> Iterator[None]:
        """Write the block for each row of an array; names in it refer to that row's columns."""
        with self._unwritten() if self._constant(name) == 0 else nullcontext():
            self._each = self._column(name)
            entry = self._literals.entry(separator)
            instruction = self._add("EACH", self._each, 0, entry)
            at = len(self._program)
            self._in_child = True
            self._rooms[1] += len(separator.encode())
            yield
            self._flush()
            self._in_child = False
            instruction[2] = len(self._program) - at

    @contextmanager
    def cell(
        self, width: int, *, right: bool = False, cut: bool = False, pad: bool = True
    ) -> Iterator[None]:
        """Pad the block to `width` columns, or shorten it to that, or both."""
        self._add("CELL")
        yield
        self._add("END_CELL", width, int(right) if pad else NO_PADDING, int(cut), room=width + 4)

    @contextmanager
    def quoted(self) -> Iterator[None]:
        """Write the block as one CSV field."""
        self._add("QUOTE")
        at = len(self._program)
        yield
        self._add("END_QUOTE", room=2)
        # Quotes are doubled: numbers have none, literals and JSON strings at most their own length.
        for op, a, _, _ in self._program[at:]:
            if op == OPS["LITERAL"]:
                self._rooms[0] += len(self._literals[a])
                self._rooms[1] += len(self._literals[a])
        self._bytes[0].extend(self._bytes[0])
        self._bytes[1].extend(self._bytes[1])

    def build(self) -> Template:
        """The template built so far."""
        self._flush()
        shape = [*self._rooms, self._each, len(self._bytes[0]), *self._bytes[0], *self._bytes[1]]
        return Template(
            np.array(self._program, np.int64).reshape(-1, 4),
            np.array(shape, np.int64),
            self._literals,
        )


def _mode(mode: str) -> int:
    from kfmt_cli.core.native.quote import MODES

    number: int = MODES[mode]
    return number
