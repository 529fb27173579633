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
from kfmt_cli.render.style import NO_COLOUR, Theme

NO_PADDING = 2
UNQUOTED_FLAG = 8  # added to the mode of a preview without quotes, see `core/native/cell.py`
MAX_NUMBER_BYTES = 32  # of the longest number, time or hex value that one instruction writes


class TemplateLiterals:
    """The literals shared by templates that are written together."""

    def __init__(self) -> None:
        self._entries: list[tuple[bytes, int]] = []
        self._index_by_entry: dict[tuple[bytes, int], int] = {}
        for literal in text.FIXED_LITERALS:
            self.add(literal.decode())

    def add(self, content: str, width: int | None = None) -> int:
        """Add a literal; returns its index, which equal literals share. width: columns, if not one
        per character."""
        entry = content.encode(), len(content) if width is None else width
        if entry not in self._index_by_entry:
            self._index_by_entry[entry] = self.add_all([content])
            self._entries[-1] = entry
        return self._index_by_entry[entry]

    def add_all(self, texts: list[str]) -> int:
        """Add literals with consecutive indexes; returns the first index."""
        first_index = len(self._entries)
        self._entries += [(content.encode(), len(content)) for content in texts]
        return first_index

    def __getitem__(self, index: int) -> bytes:
        return self._entries[index][0]

    @cached_property
    def data(self) -> bytes:
        """All literals, concatenated."""
        return b"".join(content for content, _ in self._entries) + bytes(text.LITERAL_PADDING)

    @cached_property
    def spans(self) -> IntArray:
        """Array (3, literals): start of each literal in `data`, its bytes, its columns."""
        lengths = [len(content) for content, _ in self._entries]
        spans = np.zeros((3, len(lengths)), np.int64)
        spans[0] = np.cumsum([0, *lengths[:-1]])
        spans[1] = lengths
        spans[2] = [width for _, width in self._entries]
        return spans


@dataclass(frozen=True, slots=True)
class Template:
    """A program of `native/emit.py`, built by `TemplateBuilder`."""

    program: IntArray
    sizing: IntArray
    literals: TemplateLiterals


class TemplateBuilder:
    """Collects instructions; methods are named after the text they write.

    columns: indexes of the rows' columns by name. children: the same for the rows of their array.
    literals: shared by templates that are written together. constants: values of columns with one
    value in all rows to be written; instructions that depend on them are resolved when the template
    is built.
    """

    def __init__(
        self,
        column_indexes: Mapping[str, int],
        child_column_indexes: Mapping[str, int] | None = None,
        literals: TemplateLiterals | None = None,
        constants: Mapping[str, int] | None = None,
        theme: Theme = NO_COLOUR,
    ) -> None:
        self.theme = theme
        self._column_indexes = column_indexes
        self._constants = constants or {}
        # A literal that may still grow, and its columns.
        self._pending_literal: tuple[str, int] = (
            "",
            0,
        )
        self._child_column_indexes = child_column_indexes or {}
        self._program: list[list[int]] = []
        self._literals = literals or TemplateLiterals()
        self._is_in_child = False
        self._row_bytes = [64, 64]  # maximum size of a row, and of a row of its array
        self._bytes_columns: tuple[list[int], list[int]] = ([], [])
        self._array_column = -1

    def _add_instruction(
        self, op: str, a: int = 0, b: int = 0, c: int = 0, max_bytes: int = 0
    ) -> list[int]:
        self._flush()
        instruction = [OPS[op], a, b, c]
        self._program.append(instruction)
        self._row_bytes[self._is_in_child] += max_bytes
        return instruction

    def _column_index(self, name: str) -> int:
        return (self._child_column_indexes if self._is_in_child else self._column_indexes)[name]

    def literal(self, content: str, width: int | None = None) -> None:
        """Fixed text; `width` columns if not one per character."""
        pending_text, columns = self._pending_literal
        self._pending_literal = (
            pending_text + content,
            columns + (len(content) if width is None else width),
        )

    def styled_literal(self, style: str, content: str) -> None:
        """Fixed text in a style."""
        self.literal(self.theme.paint(style, content), len(content))

    def _flush(self) -> None:
        """Emit the pending literal: adjacent ones become one instruction."""
        content, width = self._pending_literal
        self._pending_literal = "", 0
        if content:
            literal_index = self._literals.add(content, width)
            self._program.append([OPS["LITERAL"], literal_index, 0, 0])
            self._row_bytes[self._is_in_child] += len(content.encode())

    def _constant(self, name: str) -> int | None:
        """The value of a constant column; None for other columns."""
        return None if self._is_in_child else self._constants.get(name)

    def number(self, name: str) -> None:
        """A column's number."""
        constant = self._constant(name)
        if constant is None:
            self._add_instruction("NUMBER", self._column_index(name), max_bytes=MAX_NUMBER_BYTES)
        else:
            self.literal(str(constant))

    def grouped(self, name: str) -> None:
        """A column's number, with thousands separated."""
        self._add_instruction("GROUPED", self._column_index(name), max_bytes=MAX_NUMBER_BYTES)

    def hex32(self, name: str) -> None:
        """A column's number as eight hexadecimal digits."""
        self._add_instruction("HEX32", self._column_index(name), max_bytes=MAX_NUMBER_BYTES)

    def time(self, name: str) -> None:
        """A column of milliseconds as ISO-8601 in UTC."""
        self._add_instruction("TIME", self._column_index(name), max_bytes=MAX_NUMBER_BYTES)

    def choice(self, name: str, texts: list[str], other_texts: tuple[str, str]) -> None:
        """The text with the index that a column contains; any other number is written between the
        two texts of `other_texts`."""
        constant = self._constant(name)
        if constant is not None and 0 <= constant < len(texts):
            self.literal(texts[constant])
            return
        first_literal = self._literals.add_all([*texts, *other_texts])
        max_text_bytes = max(len(content.encode()) for content in (*texts, *other_texts))
        self._add_instruction(
            "CHOICE",
            self._column_index(name),
            first_literal,
            len(texts),
            max_bytes=2 * max_text_bytes + MAX_NUMBER_BYTES,
        )

    def json_bytes(self, name: str, mode: str) -> None:
        """Bytes as a JSON string, followed by `"<name>_encoding"` if they are not text."""
        encodings = ("utf8-replaced", "hex", "base64")
        first_literal = self._literals.add_all(
            [f',"{name}_encoding":"{encoding}"' for encoding in encodings]
        )
        self._add_bytes_column(name)
        self._add_instruction(
            "JSON_BYTES",
            self._column_index(name),
            _mode_number(mode),
            first_literal,
            max_bytes=len(name) + 40,
        )

    def raw(self, name: str) -> None:
        """Bytes that are already safe text, unchanged."""
        self._add_bytes_column(name)
        self._add_instruction("RAW", self._column_index(name))

    def csv_bytes(self, name: str, mode: str) -> None:
        """Bytes as a CSV field: empty for null, quoted otherwise."""
        self._add_bytes_column(name)
        self._add_instruction(
            "CSV_BYTES", self._column_index(name), _mode_number(mode), max_bytes=8
        )

    def encoding(self, name: str, mode: str) -> None:
        """The encoding that `csv_bytes` used; empty for text."""
        first_literal = self._literals.add_all(["hex", "base64"])
        self._add_instruction(
            "ENCODING", self._column_index(name), _mode_number(mode), first_literal, max_bytes=8
        )

    def cell_bytes(self, name: str, mode: str, max_columns: int) -> None:
        """A quoted preview of bytes, shortened to `max_columns` columns unless that is 0."""
        self._add_bytes_column(name)
        self._add_instruction(
            "CELL_BYTES",
            self._column_index(name),
            _mode_number(mode),
            max_columns,
            max_bytes=MAX_NUMBER_BYTES,
        )

    def cell_text(self, name: str, mode: str, max_columns: int) -> None:
        """A preview of bytes as by `cell_bytes`, quoted only if it would otherwise look like a
        null."""
        self._add_bytes_column(name)
        self._add_instruction(
            "CELL_BYTES",
            self._column_index(name),
            _mode_number(mode) + UNQUOTED_FLAG,
            max_columns,
            max_bytes=MAX_NUMBER_BYTES,
        )

    def _add_bytes_column(self, name: str) -> None:
        self._bytes_columns[self._is_in_child].append(self._column_index(name))

    def when(self, name: str, value: int) -> AbstractContextManager[None]:
        """Write the block only if a column is `value`."""
        return self._conditional("IF", name, value, True)

    def unless(self, name: str, value: int) -> AbstractContextManager[None]:
        """Write the block unless a column is `value`."""
        return self._conditional("UNLESS", name, value, False)

    @contextmanager
    def _conditional(self, op: str, name: str, value: int, is_equal: bool) -> Iterator[None]:
        constant = self._constant(name)
        if constant is not None:
            with nullcontext() if (constant == value) == is_equal else self._discard_block():
                yield
            return
        instruction = self._add_instruction(op, self._column_index(name), value)
        block_start = len(self._program)
        yield
        self._flush()
        instruction[3] = len(self._program) - block_start

    @contextmanager
    def unless_none(
        self, name: str, null_value: int, content: str = "–", style: str = ""
    ) -> Iterator[None]:
        """Write the block, or `content` in rows where a column is `null_value`."""
        with self.when(name, null_value):
            self.styled_literal(style, content)
        with self.unless(name, null_value):
            yield

    @contextmanager
    def _discard_block(self) -> Iterator[None]:
        """Discard the block, which no row needs."""
        saved_state = (
            self._program,
            self._pending_literal,
            self._row_bytes.copy(),
            self._bytes_columns,
            self._array_column,
        )
        self._program, self._bytes_columns = [], ([], [])
        yield
        (
            self._program,
            self._pending_literal,
            self._row_bytes,
            self._bytes_columns,
            self._array_column,
        ) = saved_state

    @contextmanager
    def for_each(self, name: str, separator: str) -> Iterator[None]:
        """Write the block for each row of an array; in the block, names refer to the columns of
        the array's rows."""
        with self._discard_block() if self._constant(name) == 0 else nullcontext():
            self._array_column = self._column_index(name)
            separator_index = self._literals.add(separator)
            instruction = self._add_instruction("EACH", self._array_column, 0, separator_index)
            block_start = len(self._program)
            self._is_in_child = True
            self._row_bytes[1] += len(separator.encode())
            yield
            self._flush()
            self._is_in_child = False
            instruction[2] = len(self._program) - block_start

    @contextmanager
    def cell(
        self, width: int, *, align_right: bool = False, may_truncate: bool = False, pad: bool = True
    ) -> Iterator[None]:
        """Pad the block to `width` columns if `pad`; shorten it to `width` if `may_truncate`."""
        self._add_instruction("CELL")
        yield
        self._add_instruction(
            "END_CELL",
            width,
            int(align_right) if pad else NO_PADDING,
            int(may_truncate),
            max_bytes=width + 4,
        )

    @contextmanager
    def quoted(self) -> Iterator[None]:
        """Write the block as one CSV field."""
        self._add_instruction("QUOTE")
        block_start = len(self._program)
        yield
        self._add_instruction("END_QUOTE", max_bytes=2)
        # Quotes are doubled: numbers have none, literals and JSON strings at most one per byte.
        for op, a, _, _ in self._program[block_start:]:
            if op == OPS["LITERAL"]:
                self._row_bytes[0] += len(self._literals[a])
                self._row_bytes[1] += len(self._literals[a])
        self._bytes_columns[0].extend(self._bytes_columns[0])
        self._bytes_columns[1].extend(self._bytes_columns[1])

    def build(self) -> Template:
        """The template built so far."""
        self._flush()
        sizing = [
            *self._row_bytes,
            self._array_column,
            len(self._bytes_columns[0]),
            *self._bytes_columns[0],
            *self._bytes_columns[1],
        ]
        return Template(
            np.array(self._program, np.int64).reshape(-1, 4),
            np.array(sizing, np.int64),
            self._literals,
        )


def _mode_number(mode: str) -> int:
    from kfmt_cli.core.native.quote import MODES

    mode_number: int = MODES[mode]
    return mode_number
