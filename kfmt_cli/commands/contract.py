"""Every object that kfmt prints as JSON, by its `type`: the contract that `docs/json.md` shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from kfmt_cli.broker.state import REPLAYS, create_replay
from kfmt_cli.checks.index.checker import INDEX_RESULT
from kfmt_cli.checks.replica_comparison import RANGE_ROW
from kfmt_cli.commands.build.command import BUILD_RESULT_TYPE
from kfmt_cli.commands.convert.command import CONVERT_RESULT
from kfmt_cli.commands.protocol_headers.command import REQUEST_HEADER_ROW, RESPONSE_HEADER_ROW
from kfmt_cli.commands.rebuild_index.command import REBUILD_RESULT
from kfmt_cli.commands.salvage.command import SALVAGE_RESULT
from kfmt_cli.commands.verify_crc.command import LOG_RESULT
from kfmt_cli.disk.kinds import KINDS
from kfmt_cli.disk.kinds.notes_v0 import NOTES_ROW as NOTES_ROWS
from kfmt_cli.rows.column import LOCATION_COLUMNS, Column, ColumnKind, LocationSource, RowType
from kfmt_cli.rows.documents import SEVERITY_COUNT_COLUMNS, TYPES_BY_CHAPTER
from kfmt_cli.rows.file_result import FileResultType
from kfmt_cli.rows.table_types import BATCHES_TABLE, RECORDS_TABLE, TABLES, export_result_type
from kfmt_cli.rows.types.anatomy import FIELD_ROW
from kfmt_cli.rows.types.batch import BATCH_ROW
from kfmt_cli.rows.types.record import DECODED_RECORD_ROW, RECORD_ROW

_RESULT_TYPE_BY_COMMAND = {
    "verify-crc": LOG_RESULT,
    "index-check": INDEX_RESULT,
    "rebuild-index": REBUILD_RESULT,
    "build": BUILD_RESULT_TYPE,
    "convert-v0-to-v2": CONVERT_RESULT,
    "salvage": SALVAGE_RESULT,
    "export": export_result_type((RECORDS_TABLE.name, BATCHES_TABLE.name)),
}


@dataclass(frozen=True)
class ContractSection:
    """Objects that belong together."""

    title: str
    row_types: tuple[RowType, ...]


def iter_contract_sections() -> Iterator[ContractSection]:
    """The objects of every command, each type once."""
    yield ContractSection("Batches and records", (BATCH_ROW, DECODED_RECORD_ROW, FIELD_ROW))
    yield ContractSection("Findings", tuple(TYPES_BY_CHAPTER["Findings"].values()))
    yield ContractSection(
        "Results of a file and of a run", (_common_result_row_type(), _SUMMARY_ROW)
    )
    for chapter, extra_types in (
        ("Answers of commands", ()),
        ("Rows of commands", (RANGE_ROW, REQUEST_HEADER_ROW, RESPONSE_HEADER_ROW)),
        ("A dead cluster", ()),
        ("Log shapes, and the report page", ()),
    ):
        yield ContractSection(chapter, (*TYPES_BY_CHAPTER[chapter].values(), *extra_types))
    for topic in REPLAYS:
        yield ContractSection(f"The state of {topic}", create_replay(topic).row_types)
    row_types = dict.fromkeys(chain.from_iterable(kind.row_types for kind in KINDS))
    yield ContractSection(
        "Entries of files",
        (
            *(row_type for row_type in row_types if row_type not in (BATCH_ROW, RECORD_ROW)),
            NOTES_ROWS,
        ),
    )


def variants_by_type_name() -> dict[str, tuple[RowType, ...]]:
    """The shapes of each type. If it has several, `distinguishing_member` tells them apart."""
    variants: dict[str, tuple[RowType, ...]] = {}
    for section in iter_contract_sections():
        for row_type in section.row_types:
            variants[row_type.name] = (*variants.get(row_type.name, ()), row_type)
    return variants


def distinguishing_member(variant: RowType, variants: tuple[RowType, ...]) -> str:
    """The first member that each object of a shape has, and no object of another shape."""
    other_members = {
        column.name
        for other_variant in variants
        if other_variant is not variant
        for column in other_variant.columns
    }
    other_members |= {"file", *LOCATION_COLUMNS}
    return next(
        column.name
        for column in variant.columns
        if column.name not in other_members and not column.present_if
    )


def state_row_types() -> frozenset[RowType]:
    """The types of `state`, whose objects have a `change` with --since-offset."""
    return frozenset(chain.from_iterable(create_replay(topic).row_types for topic in REPLAYS))


def result_row_type_by_command() -> dict[str, RowType]:
    """The row type of a file's result, by command."""
    return {
        command: _result_row_type(command, result_type)
        for command, result_type in _RESULT_TYPE_BY_COMMAND.items()
    }


def _result_row_type(command: str, result_type: FileResultType) -> RowType:
    """The row type of a command's results. An export counts only the rows of tables it writes."""
    tables = TABLES if command == "export" else ()
    count_columns = (
        _count_column(count_name, is_optional=count_name in tables)
        for count_name in result_type.count_names
    )
    return RowType(
        "file", "", (*_FILE_COLUMNS, *count_columns, *SEVERITY_COUNT_COLUMNS), LocationSource.FILE
    )


def _common_result_row_type() -> RowType:
    """The results of all commands as one type; counts of only some commands may be absent."""
    commands_by_count: dict[str, list[str]] = {}
    for command, result_type in _RESULT_TYPE_BY_COMMAND.items():
        for count_name in result_type.count_names:
            commands_by_count.setdefault(count_name, []).append(command)
    count_columns = (
        replace(
            _count_column(count_name, is_optional=len(commands) < len(_RESULT_TYPE_BY_COMMAND)),
            doc=f"{_DOC_BY_COUNT[count_name]} Of {', '.join(f'`{name}`' for name in commands)}.",
        )
        for count_name, commands in commands_by_count.items()
    )
    doc = "Result for one file of a command that checks or writes."
    return RowType(
        "file", doc, (*_FILE_COLUMNS, *count_columns, *SEVERITY_COUNT_COLUMNS), LocationSource.FILE
    )


def _count_column(count_name: str, *, is_optional: bool) -> Column:
    presence_column = f"has_{count_name}"
    return Column(
        count_name,
        presence_column=presence_column,
        present_if=(presence_column, 1) if is_optional else None,
    )


_FILE_COLUMNS = (
    Column("file", ColumnKind.TEXT, "The file."),
    Column("kind", ColumnKind.TEXT, "File type."),
)
_DOC_BY_COUNT = {
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
_SUMMARY_ROW = RowType(
    "summary",
    "Result of the run: the per-file counters summed over all files, plus these.",
    (
        Column("files", doc="Files read."),
        Column("unread", doc="Inputs that could not be read."),
        Column(
            "not_looked_at",
            ColumnKind.JSON,
            "Number of files of other types, by type.",
            present_if=("has_not_looked_at", 1),
        ),
        Column("exit_code", doc="Exit code."),
    ),
)
