"""Every object that kfmt prints as JSON, by its `type`: the contract that `docs/json.md` shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from kfmt_cli.broker.state import REPLAYS, replay_of
from kfmt_cli.checks.comparison import RANGE
from kfmt_cli.checks.index.checker import INDEX_RESULT
from kfmt_cli.commands.build.command import BUILT
from kfmt_cli.commands.convert.command import CONVERTED
from kfmt_cli.commands.protocol_headers.command import REQUEST, RESPONSE
from kfmt_cli.commands.rebuild_index.command import REBUILT
from kfmt_cli.commands.salvage.command import SALVAGED
from kfmt_cli.commands.verify_crc.command import LOG_RESULT
from kfmt_cli.disk.kinds import KINDS
from kfmt_cli.disk.kinds.notes import ROWS as NOTES_ROWS
from kfmt_cli.rows import documents
from kfmt_cli.rows.column import PLACE, Column, ColumnKind, Placed, RowType
from kfmt_cli.rows.documents import COUNTED_FINDINGS, FINDING, FINDINGS_LEFT_OUT
from kfmt_cli.rows.result import ResultType
from kfmt_cli.rows.table_types import BATCHES, RECORDS, TABLES, exported
from kfmt_cli.rows.types import cluster_rows
from kfmt_cli.rows.types.anatomy import FIELD
from kfmt_cli.rows.types.batch import BATCH
from kfmt_cli.rows.types.found import FOUND
from kfmt_cli.rows.types.placements import PLACEMENTS
from kfmt_cli.rows.types.record import DECODED_RECORD, RECORD
from kfmt_cli.rows.types.replayed import REPLAYED_ROWS
from kfmt_cli.rows.types.shapes import SHAPES
from kfmt_cli.rows.types.transaction import TRANSACTION

_RESULTS = {
    "verify-crc": LOG_RESULT,
    "index-check": INDEX_RESULT,
    "rebuild-index": REBUILT,
    "build": BUILT,
    "convert-v0-to-v2": CONVERTED,
    "salvage": SALVAGED,
    "export": exported((RECORDS.name, BATCHES.name)),
}


@dataclass(frozen=True)
class ContractPart:
    """Objects that belong together."""

    title: str
    types: tuple[RowType, ...]


def contract() -> Iterator[ContractPart]:
    """The objects of every command, each type once."""
    yield ContractPart("Batches and records", (BATCH, DECODED_RECORD, FIELD))
    yield ContractPart("Findings", (FINDING, FINDINGS_LEFT_OUT))
    yield ContractPart("Results of a file and of a run", (_file(), _SUMMARY))
    declared = (var for var in vars(documents).values() if isinstance(var, RowType))
    shown = {FINDING, FINDINGS_LEFT_OUT}
    answers = tuple(document for document in declared if document not in shown)
    yield ContractPart("Answers of commands", (*answers, *PLACEMENTS, *REPLAYED_ROWS))
    yield ContractPart("Rows of commands", (FOUND, TRANSACTION, RANGE, REQUEST, RESPONSE))
    cluster = (var for var in vars(cluster_rows).values() if isinstance(var, RowType))
    yield ContractPart("A dead cluster", tuple(cluster))
    yield ContractPart("Log shapes, and the report page", SHAPES)
    for topic in REPLAYS:
        yield ContractPart(f"The state of {topic}", replay_of(topic).types)
    kinds = dict.fromkeys(chain.from_iterable(kind.row_types for kind in KINDS))
    yield ContractPart(
        "Entries of files",
        (*(kind for kind in kinds if kind not in (BATCH, RECORD)), NOTES_ROWS),
    )


def shapes_by_name() -> dict[str, tuple[RowType, ...]]:
    """The shapes of each type. Where it has several, `telling` tells them apart."""
    found: dict[str, tuple[RowType, ...]] = {}
    for part in contract():
        for type_ in part.types:
            found[type_.name] = (*found.get(type_.name, ()), type_)
    return found


def telling(shape: RowType, shapes: tuple[RowType, ...]) -> str:
    """The first member that each object of a shape has, and no object of another shape."""
    others = {column.name for other in shapes if other is not shape for column in other.columns}
    others |= {"file", *PLACE}
    return next(
        column.name for column in shape.columns if column.name not in others and not column.only
    )


def state_types() -> frozenset[RowType]:
    """The types of `state`, whose objects have a `change` with --since-offset."""
    return frozenset(chain.from_iterable(replay_of(topic).types for topic in REPLAYS))


def results() -> dict[str, RowType]:
    """The row type of a file's result, by command."""
    return {command: _result(command, type_) for command, type_ in _RESULTS.items()}


def _result(command: str, type_: ResultType) -> RowType:
    """An export counts the rows of the tables that it writes, which may be some."""
    tables = TABLES if command == "export" else ()
    counted = (_counted(number, may_lack=number in tables) for number in type_.numbers)
    return RowType("file", "", (*_FILE, *counted, *COUNTED_FINDINGS), Placed.FILE)


def _file() -> RowType:
    """The results of all commands as one type; what only some count may be absent."""
    counting: dict[str, list[str]] = {}
    for command, type_ in _RESULTS.items():
        for number in type_.numbers:
            counting.setdefault(number, []).append(command)
    counted = (
        replace(
            _counted(number, may_lack=len(commands) < len(_RESULTS)),
            doc=f"{_COUNTED[number]} Of {', '.join(f'`{command}`' for command in commands)}.",
        )
        for number, commands in counting.items()
    )
    doc = "Result for one file of a command that checks or writes."
    return RowType("file", doc, (*_FILE, *counted, *COUNTED_FINDINGS), Placed.FILE)


def _counted(number: str, *, may_lack: bool) -> Column:
    given = f"has_{number}"
    return Column(number, given=given, only=(given, 1) if may_lack else None)


_FILE = (
    Column("file", ColumnKind.TEXT, "The file."),
    Column("kind", ColumnKind.TEXT, "File type."),
)
_COUNTED = {
    "bytes": "Bytes of the file.",
    "bytes_after": "Bytes of the new log.",
    "batches": "Batches.",
    "batches_after": "Batches of the new log.",
    "records": "Records.",
    "snapshot_records": "Records of a KRaft snapshot.",
    "messages": "Magic 0 and 1 messages, including those in wrappers.",
    "left_out": "Messages that could not be converted.",
    "entries": "Index entries.",
    "holes": "Damaged places that were dropped.",
    "reencoded": "Batches re-encoded without their damaged records.",
}
_SUMMARY = RowType(
    "summary",
    "Result of the run: the per-file counters summed over all files, plus these.",
    (
        Column("files", doc="Files read."),
        Column("unread", doc="Inputs that could not be read."),
        Column(
            "not_looked_at",
            ColumnKind.JSON,
            "Number of files of other types, by type.",
            only=("has_not_looked_at", 1),
        ),
        Column("exit_code", doc="Exit code."),
    ),
)
