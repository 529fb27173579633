"""A command's output as objects for programs."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Protocol, TypeVar, overload

from kfmt_cli.commands.command_run import CommandRun, Progress
from kfmt_cli.core.json_text import json_text
from kfmt_cli.disk.topic_filter import TOPIC_PATTERNS
from kfmt_cli.errors import ExitCode, InputError, UsageError, unknown_name_question
from kfmt_cli.options.declaration import deprecation_messages
from kfmt_cli.render.sinks.objects import ObjectSink
from kfmt_cli.render.style import NO_COLOUR, Theme
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.columnar_rows import JsonObject

if TYPE_CHECKING:
    import pyarrow as pa

OptionsT = TypeVar("OptionsT")
# Types of rows that a command writes even if it could read no input.
ALWAYS_PRESENT_TYPES = {
    "summary",
    "file",
    "freed",
}
MAX_NOTEBOOK_ROWS = 20  # rows shown per type in a notebook


@dataclass(frozen=True, repr=False)
class CommandResult:
    """A command's output: the objects of `docs/json.md`, in the order it prints them.

    Not a `Sequence`, because Polars would treat that as a list of dicts instead of an Arrow stream.
    """

    rows: list[JsonObject]
    exit_code: ExitCode
    """The command's exit code."""
    notes: list[str]
    """Its lines on standard error, including the inputs that could not be read."""

    @overload
    def __getitem__(self, index: int) -> JsonObject: ...
    @overload
    def __getitem__(self, index: slice) -> list[JsonObject]: ...
    def __getitem__(self, index: int | slice) -> JsonObject | list[JsonObject]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[JsonObject]:
        return iter(self.rows)

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{n_rows} {type_name}" for type_name, n_rows in self._count_by_type().items()
        )
        return f"<Answer: {counts or 'no rows'}; exit code {int(self.exit_code)}>"

    def _repr_html_(self) -> str:
        html_tables = (
            _html_table(type_name, self.of(type_name)) for type_name in self._count_by_type()
        )
        return f"<p>{escape(repr(self))}</p>" + "".join(html_tables)

    def _count_by_type(self) -> Counter[str]:
        """The number of rows of each type."""
        return Counter(str(row["type"]) for row in self.rows)

    def objects(self) -> Iterator[JsonObject]:
        """All objects, like `LogRowReader.objects` for logs."""
        return iter(self.rows)

    def of(self, type_: str) -> list[JsonObject]:
        """The objects of one type; raises UsageError for an unknown type."""
        rows = [row for row in self.rows if row["type"] == type_]
        if not rows:
            _require_row_types(type_)
        return rows

    @property
    def tables(self) -> dict[str, pa.Table]:
        """An Arrow table of each type; needs pyarrow."""
        return {type_name: self.arrow(type_name) for type_name in self._count_by_type()}

    def arrow(self, type_: str | None = None) -> pa.Table:
        """The objects of one type as an Arrow table; needs pyarrow.

        type_: may be omitted if all objects are of one type. Nested values become JSON text. Raises
        UsageError for an unknown type, and if there are several.
        """
        import pyarrow as pa

        count_by_type = self._count_by_type()
        if type_ is None and len(count_by_type) > 1:
            type_names = ", ".join(count_by_type)
            raise UsageError(f"rows of several types ({type_names}); name one, or use `tables`")
        type_name = type_ or next(iter(count_by_type), "")
        if not type_name:
            return pa.table({})
        arrow_type_by_kind = {
            ColumnKind.NUMBER: pa.int64(),
            ColumnKind.REAL: pa.float64(),
            ColumnKind.FLAG: pa.bool_(),
        }
        rows = self.of(type_name)
        columns = _best_matching_columns(type_name, rows)
        schema = pa.schema(
            [(column.name, arrow_type_by_kind.get(column.kind, pa.string())) for column in columns]
        )
        arrow_rows = [
            {column.name: _arrow_value(column, row.get(column.name)) for column in columns}
            for row in rows
        ]
        return pa.Table.from_pylist(arrow_rows, schema=schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The objects, if all are of one type, as an Arrow stream for pandas, Polars and DuckDB;
        raises UsageError."""
        return self.arrow().__arrow_c_stream__(requested_schema)


def _best_matching_columns(type_name: str, rows: list[JsonObject]) -> list[Column]:
    """The columns for the members of some rows, as the best matching type of this name defines
    them, other members as JSON; raises UsageError for an unknown type."""
    row_types = _require_row_types(type_name)
    members = dict.fromkeys(member for row in rows for member in row if member != "type")
    best_type = max(
        row_types, key=lambda type_: sum(column.name in members for column in type_.columns)
    )
    column_by_name = {column.name: column for column in best_type.columns}
    return [
        column_by_name.get(member) or Column(member, ColumnKind.JSON)
        for member in members or column_by_name
    ]


def _require_row_types(type_name: str) -> tuple[RowType, ...]:
    """The row types with a name; raises UsageError for an unknown name."""
    from kfmt_cli.commands.contract import variants_by_type_name

    types_by_name = variants_by_type_name()
    if type_name not in types_by_name:
        question = unknown_name_question(
            type_name, types_by_name, "; see docs/json.md for all types"
        )
        raise UsageError(f"no row type named {type_name!r}{question}")
    return types_by_name[type_name]


def _html_table(type_name: str, rows: list[JsonObject]) -> str:
    """The first rows of a type as an HTML table, for notebooks."""
    members = dict.fromkeys(member for row in rows for member in row if member != "type")
    header_cells = "".join(f"<th>{escape(member)}</th>" for member in members)
    table_rows = (
        "".join(f"<td>{escape(_format_cell(row.get(member)))}</td>" for member in members)
        for row in rows[:MAX_NOTEBOOK_ROWS]
    )
    body = "".join(f"<tr>{table_row}</tr>" for table_row in table_rows)
    truncation_note = (
        f" ({MAX_NOTEBOOK_ROWS} of {len(rows)})" if len(rows) > MAX_NOTEBOOK_ROWS else ""
    )
    caption = f"<caption>{escape(type_name)}{truncation_note}</caption>"
    return f"<table>{caption}<thead><tr>{header_cells}</tr></thead><tbody>{body}</tbody></table>"


def _format_cell(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json_text(value)


def _arrow_value(column: Column, value: object) -> object:
    if value is None or column.kind in (ColumnKind.NUMBER, ColumnKind.REAL, ColumnKind.FLAG):
        return value
    return value if isinstance(value, str) else json_text(value)


class CollectingSink(ObjectSink):
    """Collects the objects instead of writing them."""

    def __init__(self, out: NullHost) -> None:
        super().__init__(out)
        self.objects: list[JsonObject] = []

    def format_object(self, row: JsonObject) -> str:
        self.objects.append(row)
        return ""


@dataclass
class NullHost:
    """A host without output streams, which collects the lines for standard error."""

    theme: Theme = NO_COLOUR
    err_theme: Theme = NO_COLOUR
    exit_code: ExitCode = ExitCode.CLEAN
    width: int | None = None
    err_width: int | None = None
    notes: list[str] = field(default_factory=list)

    def write(self, data: bytes | memoryview) -> None:
        assert not data

    def write_text(self, text: str) -> None:
        assert not text

    def write_error(self, text: str) -> None:
        self.notes.append(text.removesuffix("\n"))

    def raise_exit_code(self, exit_code: ExitCode) -> None:
        self.exit_code = max(self.exit_code, exit_code)

    def expect_bytes(self, n_bytes: int) -> None:
        del n_bytes

    def progress(
        self, total: int | None, *, with_rows: bool = False
    ) -> AbstractContextManager[Progress]:
        del total, with_rows
        return nullcontext(self)

    def on_progress(self, n_bytes: int) -> None:
        del n_bytes


class ExecutableCommand(Protocol):
    """A call of a command."""

    def execute(self) -> object:
        """Run the command."""


def null_run() -> CommandRun:
    """A run without output, for commands whose objects are collected."""
    host = NullHost()
    return CommandRun(host, CollectingSink(host))


def run_command(
    command_class: Callable[[CommandRun, OptionsT], ExecutableCommand], options: OptionsT
) -> CommandResult:
    """Run a command and return its output; raises InputError if nothing could be read."""
    for message in deprecation_messages(options):
        warnings.warn(message, DeprecationWarning, stacklevel=3)
    TOPIC_PATTERNS.set(getattr(options, "directory_topics", ()))
    host = NullHost()
    sink = CollectingSink(host)
    command_class(CommandRun(host, sink), options).execute()
    sink.flush_texts()
    has_no_rows = all(row["type"] in ALWAYS_PRESENT_TYPES for row in sink.objects)
    if host.exit_code == ExitCode.UNREADABLE and has_no_rows:
        raise InputError(host.notes[0].removeprefix("kfmt: ") if host.notes else "nothing was read")
    return CommandResult(sink.objects, ExitCode(host.exit_code), host.notes)
