"""Every object that kfmt prints as JSON, by its `type`: the contract that `docs/json.md` shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from kfmt_cli.broker.state import REPLAYS, replay_of
from kfmt_cli.checks.index.checker import INDEX_RESULT
from kfmt_cli.commands.build import BUILT
from kfmt_cli.commands.convert import CONVERTED
from kfmt_cli.commands.diff import RANGE
from kfmt_cli.commands.protocol_headers import REQUEST, RESPONSE
from kfmt_cli.commands.rebuild import REBUILT
from kfmt_cli.commands.salvage import SALVAGED
from kfmt_cli.commands.verify import LOG_RESULT
from kfmt_cli.disk.kinds import KINDS
from kfmt_cli.disk.kinds.notes import ROWS as NOTES_ROWS
from kfmt_cli.rows.anatomy import FIELD
from kfmt_cli.rows.batch import BATCH
from kfmt_cli.rows.column import Column, ColumnKind, Placed, RowType
from kfmt_cli.rows.documents import DOCUMENTS, FINDING, FINDINGS_LEFT_OUT
from kfmt_cli.rows.found import FOUND
from kfmt_cli.rows.placements import PLACEMENTS
from kfmt_cli.rows.record import DECODED_RECORD, RECORD
from kfmt_cli.rows.result import SEVERITIES, ResultType
from kfmt_cli.rows.shapes import SHAPES
from kfmt_cli.rows.table_types import BATCHES, RECORDS, TABLES, exported
from kfmt_cli.rows.transaction import TRANSACTION

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
    results = (_result(name, result) for name, result in _RESULTS.items())
    yield ContractPart("Results of a file and of a run", (*results, _SUMMARY))
    shown = {FINDING, FINDINGS_LEFT_OUT}
    yield ContractPart(
        "Answers of commands",
        (*(document for document in DOCUMENTS if document not in shown), *PLACEMENTS),
    )
    yield ContractPart("Rows of commands", (FOUND, TRANSACTION, RANGE, REQUEST, RESPONSE))
    yield ContractPart("Log shapes, and the report page", SHAPES)
    for topic in REPLAYS:
        yield ContractPart(
            f"The state of {topic}", tuple(type_.rows for type_ in replay_of(topic).types)
        )
    kinds = dict.fromkeys(chain.from_iterable(kind.row_types for kind in KINDS))
    yield ContractPart(
        "Entries of files",
        (*(kind for kind in kinds if kind not in (BATCH, RECORD)), NOTES_ROWS),
    )


def _result(command: str, type_: ResultType) -> RowType:
    """The row type of a command's result for a file."""
    counted = (
        Column(
            number,
            doc="",
            given=f"has_{number}",
            only=(f"has_{number}", 1) if number in TABLES and command == "export" else None,
        )
        for number in type_.numbers
    )
    columns = (
        Column("file", ColumnKind.TEXT, "The file."),
        Column("kind", ColumnKind.TEXT, "File type."),
        *counted,
        *(
            Column(severity, doc=f"Findings of severity {severity.removesuffix('s')}.")
            for severity in SEVERITIES
        ),
    )
    return RowType("file", f"Result for one file of {command}.", columns, Placed.FILE)


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


def type_names() -> frozenset[str]:
    """The names of all types."""
    return frozenset(type_.name for part in contract() for type_ in part.types)
