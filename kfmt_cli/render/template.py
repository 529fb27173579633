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
        self._encoded_literals: list[tuple[bytes, int]] = []
        self._index_by_literal: dict[tuple[bytes, int], int] = {}
        for literal in text.FIXED_LITERALS:
            self.add_literal(literal.decode())

    def add_literal(self, literal_text: str, width: int | None = None) -> int:
        """Add a literal; returns its index, which equal literals share. width: columns, if not one
        per character."""
        encoded_literal = literal_text.encode(), len(literal_text) if width is None else width
        if encoded_literal not in self._index_by_literal:
            self._index_by_literal[encoded_literal] = self.add_consecutive_literals([literal_text])
            self._encoded_literals[-1] = encoded_literal
        return self._index_by_literal[encoded_literal]

    def add_consecutive_literals(self, literal_texts: list[str]) -> int:
        """Add literals with consecutive indexes; returns the first index."""
        first_index = len(self._encoded_literals)
        self._encoded_literals += [(content.encode(), len(content)) for content in literal_texts]
        return first_index

    def __getitem__(self, index: int) -> bytes:
        return self._encoded_literals[index][0]

    @cached_property
    def concatenated_bytes(self) -> bytes:
        """All literals, concatenated."""
        return b"".join(content for content, _ in self._encoded_literals) + bytes(
            text.LITERAL_PADDING
        )

    @cached_property
    def literal_layout(self) -> IntArray:
        """Array (3, literals): start of each literal in `data`, its bytes, its columns."""
        byte_counts = [len(content) for content, _ in self._encoded_literals]
        literal_layout = np.zeros((3, len(byte_counts)), np.int64)
        literal_layout[0] = np.cumsum([0, *byte_counts[:-1]])
        literal_layout[1] = byte_counts
        literal_layout[2] = [width for _, width in self._encoded_literals]
        return literal_layout


@dataclass(frozen=True, slots=True)
class Template:
    """A program of `native/emit.py`, built by `TemplateBuilder`."""

    program: IntArray
    row_size_limits: IntArray
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
        constant_by_column: Mapping[str, int] | None = None,
        theme: Theme = NO_COLOUR,
    ) -> None:
        self.theme = theme
        self._column_indexes = column_indexes
        self._constant_by_column = constant_by_column or {}
        # A literal that may still grow, and its columns.
        self._pending_literal: tuple[str, int] = (
            "",
            0,
        )
        self._child_column_indexes = child_column_indexes or {}
        self._instructions: list[list[int]] = []
        self._literals = literals or TemplateLiterals()
        self._is_in_child = False
        self._max_row_bytes = [64, 64]  # maximum size of a row, and of a row of its array
        self._bytes_column_indexes: tuple[list[int], list[int]] = ([], [])
        self._array_column_index = -1

    def _add_instruction(
        self,
        op_name: str,
        operand_1: int = 0,
        operand_2: int = 0,
        operand_3: int = 0,
        max_bytes: int = 0,
    ) -> list[int]:
        self._flush_literal()
        instruction = [OPS[op_name], operand_1, operand_2, operand_3]
        self._instructions.append(instruction)
        self._max_row_bytes[self._is_in_child] += max_bytes
        return instruction

    def _column_index(self, column_name: str) -> int:
        return (self._child_column_indexes if self._is_in_child else self._column_indexes)[
            column_name
        ]

    def write_literal(self, literal_text: str, width: int | None = None) -> None:
        """Fixed text; `width` columns if not one per character."""
        pending_text, pending_width = self._pending_literal
        self._pending_literal = (
            pending_text + literal_text,
            pending_width + (len(literal_text) if width is None else width),
        )

    def write_styled_literal(self, style: str, literal_text: str) -> None:
        """Fixed text in a style."""
        self.write_literal(self.theme.paint(style, literal_text), len(literal_text))

    def _flush_literal(self) -> None:
        """Emit the pending literal: adjacent ones become one instruction."""
        pending_text, pending_width = self._pending_literal
        self._pending_literal = "", 0
        if pending_text:
            literal_index = self._literals.add_literal(pending_text, pending_width)
            self._instructions.append([OPS["LITERAL"], literal_index, 0, 0])
            self._max_row_bytes[self._is_in_child] += len(pending_text.encode())

    def _find_constant(self, column_name: str) -> int | None:
        """The value of a constant column; None for other columns."""
        return None if self._is_in_child else self._constant_by_column.get(column_name)

    def write_number(self, column_name: str) -> None:
        """A column's number."""
        constant = self._find_constant(column_name)
        if constant is None:
            self._add_instruction(
                "NUMBER", self._column_index(column_name), max_bytes=MAX_NUMBER_BYTES
            )
        else:
            self.write_literal(str(constant))

    def write_grouped_number(self, column_name: str) -> None:
        """A column's number, with thousands separated."""
        self._add_instruction(
            "GROUPED", self._column_index(column_name), max_bytes=MAX_NUMBER_BYTES
        )

    def write_hex32(self, column_name: str) -> None:
        """A column's number as eight hexadecimal digits."""
        self._add_instruction("HEX32", self._column_index(column_name), max_bytes=MAX_NUMBER_BYTES)

    def write_time(self, column_name: str) -> None:
        """A column of milliseconds as ISO-8601 in UTC."""
        self._add_instruction("TIME", self._column_index(column_name), max_bytes=MAX_NUMBER_BYTES)

    def write_choice(
        self, column_name: str, choice_texts: list[str], other_texts: tuple[str, str]
    ) -> None:
        """The text with the index that a column contains; any other number is written between the
        two texts of `other_texts`."""
        constant = self._find_constant(column_name)
        if constant is not None and 0 <= constant < len(choice_texts):
            self.write_literal(choice_texts[constant])
            return
        first_literal = self._literals.add_consecutive_literals([*choice_texts, *other_texts])
        max_text_bytes = max(len(content.encode()) for content in (*choice_texts, *other_texts))
        self._add_instruction(
            "CHOICE",
            self._column_index(column_name),
            first_literal,
            len(choice_texts),
            max_bytes=2 * max_text_bytes + MAX_NUMBER_BYTES,
        )

    def write_json_bytes(self, column_name: str, bytes_mode: str) -> None:
        """Bytes as a JSON string, followed by `"<name>_encoding"` if they are not text."""
        encodings = ("utf8-replaced", "hex", "base64")
        first_literal = self._literals.add_consecutive_literals(
            [f',"{column_name}_encoding":"{encoding}"' for encoding in encodings]
        )
        self._add_bytes_column(column_name)
        self._add_instruction(
            "JSON_BYTES",
            self._column_index(column_name),
            _mode_number(bytes_mode),
            first_literal,
            max_bytes=len(column_name) + 40,
        )

    def write_raw_bytes(self, column_name: str) -> None:
        """Bytes that are already safe text, unchanged."""
        self._add_bytes_column(column_name)
        self._add_instruction("RAW", self._column_index(column_name))

    def write_csv_bytes(self, column_name: str, bytes_mode: str) -> None:
        """Bytes as a CSV field: empty for null, quoted otherwise."""
        self._add_bytes_column(column_name)
        self._add_instruction(
            "CSV_BYTES", self._column_index(column_name), _mode_number(bytes_mode), max_bytes=8
        )

    def write_encoding(self, column_name: str, bytes_mode: str) -> None:
        """The encoding that `write_csv_bytes` used; empty for text."""
        first_literal = self._literals.add_consecutive_literals(["hex", "base64"])
        self._add_instruction(
            "ENCODING",
            self._column_index(column_name),
            _mode_number(bytes_mode),
            first_literal,
            max_bytes=8,
        )

    def write_bytes_preview(self, column_name: str, bytes_mode: str, max_columns: int) -> None:
        """A quoted preview of bytes, shortened to `max_columns` columns unless that is 0."""
        self._add_bytes_column(column_name)
        self._add_instruction(
            "CELL_BYTES",
            self._column_index(column_name),
            _mode_number(bytes_mode),
            max_columns,
            max_bytes=MAX_NUMBER_BYTES,
        )

    def write_text_preview(self, column_name: str, bytes_mode: str, max_columns: int) -> None:
        """A preview of bytes as by `write_bytes_preview`, quoted only if it would otherwise look
        like a null."""
        self._add_bytes_column(column_name)
        self._add_instruction(
            "CELL_BYTES",
            self._column_index(column_name),
            _mode_number(bytes_mode) + UNQUOTED_FLAG,
            max_columns,
            max_bytes=MAX_NUMBER_BYTES,
        )

    def _add_bytes_column(self, column_name: str) -> None:
        self._bytes_column_indexes[self._is_in_child].append(self._column_index(column_name))

    def when_equal(self, column_name: str, expected_value: int) -> AbstractContextManager[None]:
        """Write the block only if a column is `expected_value`."""
        return self._write_if("IF", column_name, expected_value, True)

    def unless_equal(self, column_name: str, excluded_value: int) -> AbstractContextManager[None]:
        """Write the block unless a column is `excluded_value`."""
        return self._write_if("UNLESS", column_name, excluded_value, False)

    @contextmanager
    def _write_if(
        self, op_name: str, column_name: str, compared_value: int, runs_if_equal: bool
    ) -> Iterator[None]:
        constant = self._find_constant(column_name)
        if constant is not None:
            with (
                nullcontext()
                if (constant == compared_value) == runs_if_equal
                else self._discard_block()
            ):
                yield
            return
        instruction = self._add_instruction(
            op_name, self._column_index(column_name), compared_value
        )
        block_start = len(self._instructions)
        yield
        self._flush_literal()
        instruction[3] = len(self._instructions) - block_start

    @contextmanager
    def unless_null(
        self, column_name: str, null_value: int, null_text: str = "–", style: str = ""
    ) -> Iterator[None]:
        """Write the block, or `null_text` in rows where a column is `null_value`."""
        with self.when_equal(column_name, null_value):
            self.write_styled_literal(style, null_text)
        with self.unless_equal(column_name, null_value):
            yield

    @contextmanager
    def _discard_block(self) -> Iterator[None]:
        """Discard the block, which no row needs."""
        saved_state = (
            self._instructions,
            self._pending_literal,
            self._max_row_bytes.copy(),
            self._bytes_column_indexes,
            self._array_column_index,
        )
        self._instructions, self._bytes_column_indexes = [], ([], [])
        yield
        (
            self._instructions,
            self._pending_literal,
            self._max_row_bytes,
            self._bytes_column_indexes,
            self._array_column_index,
        ) = saved_state

    @contextmanager
    def for_each_child(self, array_name: str, separator: str) -> Iterator[None]:
        """Write the block for each row of an array; in the block, names refer to the columns of
        the array's rows."""
        with self._discard_block() if self._find_constant(array_name) == 0 else nullcontext():
            self._array_column_index = self._column_index(array_name)
            separator_index = self._literals.add_literal(separator)
            instruction = self._add_instruction(
                "EACH", self._array_column_index, 0, separator_index
            )
            block_start = len(self._instructions)
            self._is_in_child = True
            self._max_row_bytes[1] += len(separator.encode())
            yield
            self._flush_literal()
            self._is_in_child = False
            instruction[2] = len(self._instructions) - block_start

    @contextmanager
    def fit_cell(
        self,
        width: int,
        *,
        align_right: bool = False,
        may_truncate: bool = False,
        is_padded: bool = True,
    ) -> Iterator[None]:
        """Pad the block to `width` columns if `is_padded`; shorten it to `width` if
        `may_truncate`."""
        self._add_instruction("CELL")
        yield
        self._add_instruction(
            "END_CELL",
            width,
            int(align_right) if is_padded else NO_PADDING,
            int(may_truncate),
            max_bytes=width + 4,
        )

    @contextmanager
    def quote_csv_field(self) -> Iterator[None]:
        """Write the block as one CSV field."""
        self._add_instruction("QUOTE")
        block_start = len(self._instructions)
        yield
        self._add_instruction("END_QUOTE", max_bytes=2)
        # Quotes are doubled: numbers have none, literals and JSON strings at most one per byte.
        for op, literal_index, _, _ in self._instructions[block_start:]:
            if op == OPS["LITERAL"]:
                self._max_row_bytes[0] += len(self._literals[literal_index])
                self._max_row_bytes[1] += len(self._literals[literal_index])
        self._bytes_column_indexes[0].extend(self._bytes_column_indexes[0])
        self._bytes_column_indexes[1].extend(self._bytes_column_indexes[1])

    def build_template(self) -> Template:
        """The template built so far."""
        self._flush_literal()
        row_size_limits = [
            *self._max_row_bytes,
            self._array_column_index,
            len(self._bytes_column_indexes[0]),
            *self._bytes_column_indexes[0],
            *self._bytes_column_indexes[1],
        ]
        return Template(
            np.array(self._instructions, np.int64).reshape(-1, 4),
            np.array(row_size_limits, np.int64),
            self._literals,
        )


def _mode_number(bytes_mode: str) -> int:
    from kfmt_cli.core.native.quote import MODES

    mode_number: int = MODES[bytes_mode]
    return mode_number
