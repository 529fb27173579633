"""A command's output as objects for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from kfmt_cli.commands.run import Progress, Run
from kfmt_cli.core.json_text import json_text
from kfmt_cli.errors import ExitCode, UsageError
from kfmt_cli.render.sinks.objects import ObjectSink
from kfmt_cli.render.style import PLAIN, Theme
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.section import Object

if TYPE_CHECKING:
    import pyarrow as pa

    from kfmt_cli.rows.result import ResultType


@dataclass(frozen=True)
class Answer(Sequence[Object]):
    """A command's output: the objects of `docs/json.md`, in the order it prints them."""

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

    def objects(self) -> Iterator[Object]:
        """All objects, like `LogRows.objects` for logs."""
        return iter(self.rows)

    def of(self, type_: str) -> list[Object]:
        """The objects of one type."""
        return [row for row in self.rows if row["type"] == type_]

    def arrow(self, type_: str | None = None) -> pa.Table:
        """The objects of one type as an Arrow table; needs pyarrow.

        type_: the first object's type if omitted. Nested values become JSON text.
        """
        import pyarrow as pa

        name = type_ or (str(self.rows[0]["type"]) if self.rows else "")
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
        """The objects of the first object's type as an Arrow stream: pandas, Polars, DuckDB."""
        return self.arrow().__arrow_c_stream__(requested_schema)


def _columns_of(name: str, rows: list[Object]) -> list[Column]:
    """The columns of some rows, as their type defines them, others as JSON; raises UsageError."""
    from kfmt_cli.commands.contract import contract

    types = [type_ for part in contract() for type_ in part.types if type_.name == name]
    if not types:
        raise UsageError(f"no row type named {name!r}; see docs/json.md for all types")
    members = dict.fromkeys(member for row in rows for member in row if member != "type")
    fitting = max(types, key=lambda type_: _in_common(type_, members))
    known = {column.name: column for column in fitting.columns}
    return [known.get(member) or Column(member, ColumnKind.JSON) for member in members or known]


def _in_common(type_: RowType, members: dict[str, None]) -> int:
    return len({column.name for column in type_.columns} & members.keys())


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


def answer_of(
    command: Callable[[Run], object], type_: ResultType | None = None, *, is_whole: bool = False
) -> Answer:
    """Run a command and return its output. is_whole: end with a summary."""
    host = Nobody()
    sink = Collected(host)
    run = Run(host, sink, type_)
    command(run)
    if is_whole:
        run.end()
    sink.flush()
    return Answer(sink.objects, ExitCode(host.exit_code), host.notes)
