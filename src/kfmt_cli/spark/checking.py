"""A file summed up and checked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from kfmt_cli.checks.neighbours import Neighbours
from kfmt_cli.checks.records import check_records
from kfmt_cli.core.finding import Finding, Tally
from kfmt_cli.files.block import Block
from kfmt_cli.files.codes import CODES
from kfmt_cli.files.control import read_control
from kfmt_cli.files.records import is_legacy, read_records, runs
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.spark.arrow import MOST_MILLISECONDS
from kfmt_cli.spark.plan import Piece
from kfmt_cli.spark.reading import Reading
from kfmt_cli.spark.request import Request
from kfmt_cli.spark.seams import Edges

MOST_KEPT = 10_000  # findings of a piece that are kept one by one
NUMBERS = (
    *("batches", "records", "first_offset", "last_offset", "least", "largest", "magics", "codecs"),
    *("errors", "warnings", "notes"),
)


@dataclass(slots=True)
class Summary(Tally):
    """What a whole file holds."""

    piece: Piece
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    least: int | None = None
    largest: int | None = None
    magics: int = 0
    codecs: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0

    def take(self, block: Block) -> None:
        """Add the batches of a block."""
        table = block.batches
        if not len(table):
            return
        self.batches += len(table)
        counts = np.where(table["is_v2"] == 1, table["records_count"].clip(0), 1)
        self.records += int(counts.sum())
        if self.first_offset is None:
            self.first_offset = int(table["base_offset"][0])
        self.last_offset = int(table["last_offset"][-1])
        times = table["max_timestamp"][
            (table["has_timestamp"] == 1) & (table["max_timestamp"] >= 0)
        ]
        if len(times):
            least, largest = int(times.min()), int(times.max())
            self.least = least if self.least is None else min(self.least, least)
            self.largest = largest if self.largest is None else max(self.largest, largest)
        self.magics |= int(np.bitwise_or.reduce(1 << table["magic"].clip(0, 2)))
        self.codecs |= int(np.bitwise_or.reduce(1 << table["compression"]))

    def add(self, other: Summary) -> None:
        """Add what a later part of the same file holds."""
        for name in ("batches", "records", "errors", "warnings", "notes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.magics |= other.magics
        self.codecs |= other.codecs
        if self.first_offset is None:
            self.first_offset = other.first_offset
        if other.last_offset is not None:
            self.last_offset = other.last_offset
        for name, better in (("least", min), ("largest", max)):
            both = [it for it in (getattr(self, name), getattr(other, name)) if it is not None]
            setattr(self, name, better(both) if both else None)

    def as_dict(self) -> dict[str, int | None]:
        """The numbers, for a result that is kept."""
        return {name: getattr(self, name) for name in NUMBERS}

    @classmethod
    def of_dict(cls, piece: Piece, numbers: dict[str, int | None]) -> Summary:
        """The inverse of `as_dict`."""
        return cls(piece, **numbers)  # type: ignore[arg-type]

    def as_row(self) -> dict[str, object]:
        """A row of the table `segments`."""
        topic, partition = self.piece.place
        return {
            "file": self.piece.path,
            "topic": topic,
            "partition": partition,
            "base_offset": self.piece.base_offset,
            "bytes": self.piece.size,
            "batches": self.batches,
            "records": self.records,
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "min_timestamp": _micros(self.least),
            "max_timestamp": _micros(self.largest),
            "magics": [str(it) for it in range(3) if self.magics >> it & 1],
            "codecs": [name for it, name in enumerate(CODECS) if self.codecs >> it & 1],
            "errors": self.errors,
            "warnings": self.warnings,
            "notes": self.notes,
        }


def _micros(milliseconds: int | None) -> int | None:
    if milliseconds is None or abs(milliseconds) > MOST_MILLISECONDS:
        return None
    return milliseconds * 1000


def finding_row(piece: Piece, finding: Finding) -> dict[str, object]:
    """A row of the table `findings`."""
    topic, partition = piece.place
    row = {**finding.row(), "topic": topic, "partition": partition}
    for name in ("expected", "found"):
        row[name] = None if row[name] is None else str(row[name])
    return row


def results_of(piece: Piece, findings: list[Finding], edges: Edges | None) -> dict[str, Any]:
    """Findings as a part of a result that is kept: their rows, up to `MOST_KEPT`, and how many of
    each code there are; with what the neighbouring pieces have to know."""
    return {
        "findings": [finding_row(piece, it) for it in findings[:MOST_KEPT]],
        "codes": Counter(it.code.name for it in findings),
        "edges": edges.as_dict() if edges else None,
    }


def count_severities(counts: dict[str, int]) -> dict[str, int]:
    """How many errors, warnings and notes so many findings of each code are."""
    found = dict.fromkeys(("errors", "warnings", "notes"), 0)
    for name, n in counts.items():
        found[f"{CODES[name].severity.value}s"] += n
    return found


def check_piece(request: Request, piece: Piece) -> tuple[Summary, list[Finding], Edges | None]:
    """What a piece holds, what is wrong with it and its edges; every record is decoded, too, when
    that is asked for."""
    reading, summary = Reading(request), Summary(piece)
    if not request.deep:
        for block in reading.blocks(piece):
            summary.take(block)
            if not block.batches["is_v2"].all():
                _look_into_wrappers(reading, summary, block)
    else:
        neighbours = Neighbours()
        for run, records in reading.records(piece):
            summary.take(run)
            if reading.edges is not None:
                reading.edges.take_records(run, records)
            if is_legacy(run):
                summary.records += len(records.rows) - len(run.batches)
            found = [*neighbours.take(run, records), *check_records(run, records)]
            for finding in [*found, *read_control(run, records)]:
                reading.found(finding)
    findings = sorted(reading.findings, key=lambda it: it.position or 0)
    summary.count(findings)
    return summary, findings, reading.edges


def _look_into_wrappers(reading: Reading, summary: Summary, block: Block) -> None:
    """The messages inside wrappers are counted, and their checksums looked at, by decompression."""
    for run in runs(block):
        if is_legacy(run):
            records = read_records(run, reading.request.limit)
            summary.records += len(records.rows) - len(run.batches)
            for finding in records.findings:
                reading.found(finding)
