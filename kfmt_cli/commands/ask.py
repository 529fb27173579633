"""The commands for programs: each gives its rows, as objects or as Arrow.

What `kfmt_cli` offers to Python besides reading (docs/python.md) is here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from kfmt_cli.commands.read import Path, path_names
from kfmt_cli.commands.run import Progress, Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.parallel import available_cores
from kfmt_cli.errors import ExitCode, UsageError
from kfmt_cli.findings.finding import MOST_FINDINGS
from kfmt_cli.render.sinks.objects import ObjectSink
from kfmt_cli.render.style import PLAIN, Theme
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.section import Object

if TYPE_CHECKING:
    import pyarrow as pa

    from kfmt_cli.commands.log_settings import SettingsOf
    from kfmt_cli.rows.result import ResultType

Paths = Path | Sequence[Path]


@dataclass(frozen=True)
class Answer(Sequence[Object]):
    """What a command says: the objects of `docs/json.md`, in its order."""

    rows: list[Object]
    exit_code: ExitCode
    """What the command ends with."""
    notes: list[str]
    """What it says on standard error, also which inputs could not be read."""

    @overload
    def __getitem__(self, at: int) -> Object: ...
    @overload
    def __getitem__(self, at: slice) -> list[Object]: ...
    def __getitem__(self, at: int | slice) -> Object | list[Object]:
        return self.rows[at]

    def __len__(self) -> int:
        return len(self.rows)

    def objects(self) -> Iterator[Object]:
        """All objects, as `LogRows.objects` gives those of logs."""
        return iter(self.rows)

    def of(self, type_: str) -> list[Object]:
        """The objects of one type."""
        return [row for row in self.rows if row["type"] == type_]

    def arrow(self, type_: str | None = None) -> pa.Table:
        """The objects of one type as an Arrow table; needs pyarrow.

        type_: that of the first object where it is not given. What has parts is JSON as text.
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
        """The objects of the first one's type as an Arrow stream, for pandas, Polars and DuckDB."""
        return self.arrow().__arrow_c_stream__(requested_schema)


def _columns_of(name: str, rows: list[Object]) -> list[Column]:
    """The columns of a type, and those that only the rows have."""
    from kfmt_cli.commands.contract import contract

    types = [type_ for part in contract() for type_ in part.types if type_.name == name]
    if not types:
        raise UsageError(f"no rows are of the type {name!r}; docs/json.md has all types")
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


class _Collected(ObjectSink):
    """Keeps the objects."""

    def __init__(self, out: _Nobody) -> None:
        super().__init__(out)
        self.objects: list[Object] = []

    def line(self, row: Object) -> str:
        self.objects.append(row)
        return ""


@dataclass
class _Nobody:
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

    @contextmanager
    def progress(self, total: int | None, *, beside_rows: bool = False) -> Iterator[Progress]:
        del total, beside_rows
        yield self

    def advance(self, n_bytes: int) -> None:
        del n_bytes


def _answer(
    command: Callable[[Run], object], type_: ResultType | None = None, *, is_whole: bool = False
) -> Answer:
    """What a command says. is_whole: it ends with a summary."""
    host = _Nobody()
    sink = _Collected(host)
    run = Run(host, sink, type_)
    command(run)
    if is_whole:
        run.end()
    sink.flush()
    return Answer(sink.objects, ExitCode(host.exit_code), host.notes)


def check(paths: Paths, *, jobs: int | None = None) -> Answer:
    """Check everything about the partitions below some paths, as `kfmt check` does."""
    from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
    from kfmt_cli.commands.check.command import CheckPaths, of_codes
    from kfmt_cli.commands.check.report import CHECK_RESULT

    def command(run: Run) -> None:
        takes = of_codes((), ())
        n = jobs or available_cores()
        task = CheckPaths(run, n, Limit(), INDEX_INTERVAL_BYTES, MOST_FINDINGS, takes)
        task.paths(path_names(paths))

    return _answer(command, CHECK_RESULT)


def stat(paths: Paths, *, by: str = "partition", deep: bool = False) -> Answer:
    """Count batches, records, codecs, offsets and times, as `kfmt stat` does.

    by: segment, partition or topic. deep: records are decoded, too.
    """
    from kfmt_cli.commands.stat import Stat

    def command(run: Run) -> None:
        Stat(run, by, deep, (), False, available_cores(), Limit()).paths(path_names(paths))

    return _answer(command)


def find(
    paths: Paths,
    *,
    offset: int | None = None,
    timestamp: int | None = None,
    key: bytes | None = None,
    producer_id: int | None = None,
    limit: int | None = None,
) -> Answer:
    """Find what is at an offset or a time, or of a key or a producer, as `kfmt find` does."""
    from kfmt_cli.commands.find import Find, Sought
    from kfmt_cli.log.matching import Match
    from kfmt_cli.log.select import Asked, Selection

    if sum(wanted is not None for wanted in (offset, timestamp, key, producer_id)) != 1:
        raise UsageError("give one of offset, timestamp, key and producer_id")

    def command(run: Run) -> None:
        match = Match(key, producer_id=producer_id)
        sought = Sought(offset, timestamp, Asked(Selection(match=match)))
        Find(run, sought, limit, Limit()).paths(path_names(paths))

    return _answer(command)


def txn(paths: Paths, *, only_open: bool = False) -> Answer:
    """List the transactions of partitions, as `kfmt txn` does."""
    from kfmt_cli.commands.txn import ShowTransactions

    return _answer(lambda run: ShowTransactions(run, only_open).paths(path_names(paths)))


def diff(a: Path, b: Path) -> Answer:
    """Compare two replicas, as `kfmt diff` does."""
    from kfmt_cli.commands.diff import Diff

    return _answer(lambda run: Diff(run, Limit()).paths(os.fspath(a), os.fspath(b)))


def retention(paths: Paths, *, now: int | None = None, **settings: object) -> Answer:
    """What retention deletes, and when, as `kfmt retention` does.

    now: the time to go by, in milliseconds. settings: of topics, as retention_ms.
    """
    from kfmt_cli.commands.retention import Retention

    def command(run: Run) -> None:
        Retention(run, _settings(settings), _time(now)).paths(path_names(paths))

    return _answer(command)


def compaction(
    paths: Paths, *, now: int | None = None, offsets: bool = False, **settings: object
) -> Answer:
    """What a run of the log cleaner would make of partitions, as `kfmt compaction` does.

    now: the time to go by, in milliseconds. offsets: those that stay are listed. settings: of
    topics, as delete_retention_ms.
    """
    from kfmt_cli.commands.compaction import Compaction

    def command(run: Run) -> None:
        task = Compaction(run, _settings(settings), _time(now), offsets)
        task.insists = "min_cleanable_ratio" in settings
        task.paths(path_names(paths))

    return _answer(command)


def state(
    paths: Paths,
    *,
    at_offset: int | None = None,
    since_offset: int | None = None,
    group: str | None = None,
    topic: str | None = None,
    of_topic: str | None = None,
) -> Answer:
    """What internal topics say, as `kfmt state` does."""
    from kfmt_cli.commands.state import ShowState, Wanted

    def command(run: Run) -> None:
        wanted = Wanted(at_offset, since_offset, group, topic, of_topic)
        ShowState(run, wanted, Limit()).paths(path_names(paths))

    return _answer(command)


def _settings(settings: dict[str, object]) -> SettingsOf:
    from kfmt_cli.broker.topic_settings import TopicSettings
    from kfmt_cli.commands.log_settings import SettingsOf

    known = TopicSettings.__dataclass_fields__
    for name in settings:
        if name not in known:
            raise UsageError(f"no setting is named {name!r}; there are {', '.join(known)}")
    return SettingsOf(None, settings)


def _time(now: int | None) -> int:
    return int(time.time() * 1000) if now is None else now
