"""The summary and checks of a piece of a file, and their stored form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kfmt_cli.arrow.columns.arrays import LEAST_MILLISECONDS, MOST_MILLISECONDS
from kfmt_cli.arrow.inputs import input_of, packed, reader_of
from kfmt_cli.checks.log.packs import checked_pack, look_inside
from kfmt_cli.checks.log.verifier import Stretch
from kfmt_cli.checks.registry import every_code
from kfmt_cli.core.urls import name_text
from kfmt_cli.findings.finding import Finding, Severity, in_order
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.log.block import is_legacy, runs
from kfmt_cli.log.decoding import read_for_checks, read_records
from kfmt_cli.rows.table_types import SEGMENTS
from kfmt_cli.rows.types.finding_row import finding_row as row_of
from kfmt_cli.rows.types.segment_row import (
    NOTHING,
    Numbers,
    merged,
    names_of,
    numbers_of,
    numbers_of_files,
)
from kfmt_cli.sharing.piece import Piece, telling
from kfmt_cli.sharing.read_piece import Edges, facts_of
from kfmt_cli.sharing.request import Request

MOST_KEPT = 10_000  # findings per piece that are kept individually
MAGICS = ("0", "1", "2")


def segment_row(piece: Piece, numbers: Numbers) -> dict[str, object]:
    """A row of the table `segments`, about the file of a piece."""
    topic, partition = piece.place
    row: dict[str, object] = {
        **numbers,
        "file": name_text(piece.path),
        "topic": topic and name_text(topic),
        "partition": partition,
        "base_offset": piece.base_offset,
        "bytes": piece.size,
        "min_timestamp": micros(numbers["min_timestamp"]),
        "max_timestamp": micros(numbers["max_timestamp"]),
        "magics": names_of(numbers["magics"], MAGICS),
        "codecs": names_of(numbers["codecs"], CODECS),
    }
    return {leaf.name: row[leaf.name] for leaf in SEGMENTS.leaves}


def micros(milliseconds: int | None) -> int | None:
    """A time in Arrow's unit; None for times outside the years 1 to 9999."""
    if milliseconds is None or not LEAST_MILLISECONDS <= milliseconds <= MOST_MILLISECONDS:
        return None
    return milliseconds * 1000


def finding_row(piece: Piece, finding: Finding) -> dict[str, object]:
    """A row of the table `findings`."""
    topic, partition = piece.place
    row = {**row_of(finding), "topic": topic, "partition": partition}
    for name in ("expected", "found"):
        row[name] = None if row[name] is None else str(row[name])
    return {
        name: name_text(value) if isinstance(value, str) else value for name, value in row.items()
    }


@dataclass(slots=True)
class Checked:
    """A piece's content and findings, and the edges that its neighbours need."""

    numbers: Numbers
    """See `rows/types/segment_row.py`."""
    findings: list[Finding]
    edges: Edges | None


def check_piece(request: Request, piece: Piece) -> Checked:
    """Check a piece; with `request.deep`, also decode every record."""
    reader, numbers = reader_of(request, piece), dict(NOTHING)
    if request.deep:
        base = piece.base_offset
        stretch = Stretch(deep=True, limit=request.limit, base_offset=base)
        for run, records in reader.records(piece, read_for_checks):
            here = numbers_of(run.batches)
            if is_legacy(run):
                here["records"] = len(records)
            numbers = merged(numbers, here)
            for _, finding in stretch.take_records(run, records):
                reader.found(finding)
        if reader.edges is not None:
            reader.edges.checks |= facts_of(stretch.checks)
    else:
        for block in reader.blocks(piece):
            numbers = merged(numbers, numbers_of(block.batches))
            # Only decompression shows how many messages wrappers contain, and their checksums.
            for run in runs(block):
                if is_legacy(run):
                    records = read_records(run, request.limit)
                    more = len(records.rows) - len(run.batches)
                    numbers = merged(numbers, {**NOTHING, "records": more})
                    for finding in records.findings:
                        reader.found(finding)
    findings = in_order(reader.findings)
    numbers |= count_severities(Counter(finding.code.name for finding in findings))
    return Checked(numbers, findings, reader.edges)


def check_pieces(request: Request, pieces: Sequence[Piece]) -> Iterator[Checked]:
    """Check pieces in order; small local logs are checked together."""
    for part in packed(pieces):
        known = _check_pack(request, part) if len(part) > 1 else [None]
        for piece, found in zip(part, known, strict=True):
            checked = found
            if checked is None:
                with telling(piece):
                    checked = check_piece(request, piece)
            yield checked


def _check_pack(request: Request, pieces: Sequence[Piece]) -> list[Checked | None]:
    """Check the healthy logs of a pack; None for each log that must be checked individually."""
    pack = checked_pack([input_of(piece) for piece in pieces])
    if request.deep:
        look_inside(pack, request.limit)
    same_size = pack.sizes == np.array([piece.size for piece in pieces])
    good = (pack.good & same_size).tolist()
    numbers = numbers_of_files(pack.batches, pack.owner, len(pieces))
    return [
        Checked(found, [], None) if fine else None
        for found, fine in zip(numbers, good, strict=True)
    ]


# The results for a piece, as JSON.


def results_of(findings: list[Finding], edges: Edges | None) -> dict[str, Any]:
    """Findings, up to `MOST_KEPT`, with the number of each code and the edges."""
    return {
        "findings": [_kept(finding) for finding in findings[:MOST_KEPT]],
        "codes": Counter(finding.code.name for finding in findings),
        "edges": asdict(edges) if edges else None,
    }


def _kept(finding: Finding) -> dict[str, Any]:
    names = ("file", "position", "words", "offset", "expected", "found", "batch")
    return {"code": finding.code.name, **{name: getattr(finding, name) for name in names}}


def finding_of(kept: dict[str, Any]) -> Finding:
    """Restore a stored finding."""
    return Finding(**{**kept, "code": every_code()[kept["code"]]})


def edges_of(result: dict[str, Any]) -> Edges | None:
    """The edges in a result; None if no batch begins in the piece."""
    return Edges(**result["edges"]) if result.get("edges") else None


def count_severities(counts: dict[str, int]) -> Numbers:
    """The numbers of errors, warnings and notes, from counts by code."""
    codes = every_code()
    found: Numbers = {f"{severity.value}s": 0 for severity in Severity}
    for name, n in counts.items():
        severity = f"{codes[name].severity.value}s"
        found[severity] = (found[severity] or 0) + n
    return found
