"""A command's output as objects for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from difflib import get_close_matches
from html import escape
from typing import TYPE_CHECKING, overload

from kfmt_cli.commands.run import Progress, Run
from kfmt_cli.core.json_text import json_text
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.render.sinks.objects import ObjectSink
from kfmt_cli.render.style import PLAIN, Theme
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.section import Object

if TYPE_CHECKING:
    import pyarrow as pa

    from kfmt_cli.rows.result import ResultType

NO_ANSWERS = {"summary", "file", "freed"}  # types of rows that are there without any input
MOST_SHOWN = 20  # rows of a type in a notebook


@dataclass(frozen=True, repr=False)
class Answer:
    """A command's output: the objects of `docs/json.md`, in the order it prints them.

    No `Sequence`, which Polars would take for a list of dicts instead of the Arrow stream.
    """

    rows: list[Object]
    exit_code: ExitCode
    """The command's exit code."""
    notes: list[str]
    """Its lines on standard error, including the inputs that could not be read."""

    @overload
    def __getitem__(self, at: int) -> Object: ...
    @overload
    def __getitem__(self, at: slice) -> list[Object]: ...
    def __getitem__(self, at: int | slice) -> Object | list[Object]:
        return self.rows[at]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Object]:
        return iter(self.rows)

    def __repr__(self) -> str:
        found = ", ".join(f"{n} {name}" for name, n in self._types().items())
        return f"<Answer: {found or 'no rows'}; exit code {int(self.exit_code)}>"

    def _repr_html_(self) -> str:
        parts = (_html_table(name, self.of(name)) for name in self._types())
        return f"<p>{escape(repr(self))}</p>" + "".join(parts)

    def _types(self) -> Counter[str]:
        """The number of rows of each type."""
        return Counter(str(row["type"]) for row in self.rows)

    def objects(self) -> Iterator[Object]:
        """All objects, like `LogRows.objects` for logs."""
        return iter(self.rows)

    def of(self, type_: str) -> list[Object]:
        """The objects of one type; raises UsageError for an unknown type."""
        found = [row for row in self.rows if row["type"] == type_]
        if not found:
            _types_named(type_)
        return found

    @property
    def tables(self) -> dict[str, pa.Table]:
        """An Arrow table of each type; needs pyarrow."""
        return {name: self.arrow(name) for name in self._types()}

    def arrow(self, type_: str | None = None) -> pa.Table:
        """The objects of one type as an Arrow table; needs pyarrow.

        type_: may be omitted if all objects are of one type. Nested values become JSON text. Raises
        UsageError for an unknown type, and if there are several.
        """
        import pyarrow as pa

        there = self._types()
        if type_ is None and len(there) > 1:
            names = ", ".join(there)
            raise UsageError(f"rows of several types ({names}); name one, or use `tables`")
        name = type_ or next(iter(there), "")
        if not name:
            return pa.table({})
        types = {
            ColumnKind.NUMBER: pa.int64(),
            ColumnKind.REAL: pa.float64(),
            ColumnKind.FLAG: pa.bool_(),
        }
        rows = self.of(name)
        columns = _columns_of(name, rows)
        schema = pa.schema(
            [(column.name, types.get(column.kind, pa.string())) for column in columns]
        )
        cells = [
            {column.name: _cell(column, row.get(column.name)) for column in columns} for row in rows
        ]
        return pa.Table.from_pylist(cells, schema=schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The objects, if all are of one type, as an Arrow stream for pandas, Polars and DuckDB;
        raises UsageError."""
        return self.arrow().__arrow_c_stream__(requested_schema)


def _columns_of(name: str, rows: list[Object]) -> list[Column]:
    """The columns of some rows, as their type defines them, others as JSON; raises UsageError."""
    types = _types_named(name)
    members = dict.fromkeys(member for row in rows for member in row if member != "type")
    fitting = max(types, key=lambda type_: sum(column.name in members for column in type_.columns))
    known = {column.name: column for column in fitting.columns}
    return [known.get(member) or Column(member, ColumnKind.JSON) for member in members or known]


def _types_named(name: str) -> tuple[RowType, ...]:
    """The types with a name; raises UsageError if there is none."""
    from kfmt_cli.commands.contract import shapes_by_name

    every = shapes_by_name()
    if name not in every:
        nearest = get_close_matches(name, every, 1)
        meant = f"did you mean {nearest[0]}?" if nearest else "see docs/json.md for all types"
        raise UsageError(f"no row type named {name!r}; {meant}")
    return every[name]


def _html_table(name: str, rows: list[Object]) -> str:
    """The first rows of a type, for notebooks."""
    members = dict.fromkeys(member for row in rows for member in row if member != "type")
    head = "".join(f"<th>{escape(member)}</th>" for member in members)
    lines = (
        "".join(f"<td>{escape(_shown(row.get(member)))}</td>" for member in members)
        for row in rows[:MOST_SHOWN]
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    more = f" ({MOST_SHOWN} of {len(rows)})" if len(rows) > MOST_SHOWN else ""
    title = f"<caption>{escape(name)}{more}</caption>"
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json_text(value)


def _cell(column: Column, value: object) -> object:
    if value is None or column.kind in (ColumnKind.NUMBER, ColumnKind.REAL, ColumnKind.FLAG):
        return value
    return value if isinstance(value, str) else json_text(value)


class Collected(ObjectSink):
    """Collects the objects instead of writing them."""

    def __init__(self, out: Nobody) -> None:
        super().__init__(out)
        self.objects: list[Object] = []

    def line(self, row: Object) -> str:
        self.objects.append(row)
        return ""


@dataclass
class Nobody:
    """A host without streams."""

    theme: Theme = PLAIN
    err_theme: Theme = PLAIN
    exit_code: ExitCode = ExitCode.CLEAN
    width: int | None = None
    err_width: int | None = None
    notes: list[str] = field(default_factory=list)

    def write(self, data: bytes | memoryview) -> None:
        assert not data

    def text(self, words: str) -> None:
        assert not words

    def note(self, words: str) -> None:
        self.notes.append(words.removesuffix("\n"))

    def reached(self, exit_code: ExitCode) -> None:
        self.exit_code = max(self.exit_code, exit_code)

    def expect(self, n_bytes: int) -> None:
        del n_bytes

    def progress(
        self, total: int | None, *, beside_rows: bool = False
    ) -> AbstractContextManager[Progress]:
        del total, beside_rows
        return nullcontext(self)

    def advance(self, n_bytes: int) -> None:
        del n_bytes


def answer_of(command: Callable[[Run], object], type_: ResultType | None = None) -> Answer:
    """Run a command and return its output; raises InputError if nothing could be read."""
    host = Nobody()
    sink = Collected(host)
    run = Run(host, sink, type_)
    command(run)
    sink.flush()
    is_empty = all(row["type"] in NO_ANSWERS for row in sink.objects)
    if host.exit_code == ExitCode.UNREADABLE and is_empty:
        raise InputError(host.notes[0].removeprefix("kfmt: ") if host.notes else "nothing was read")
    return Answer(sink.objects, ExitCode(host.exit_code), host.notes)
