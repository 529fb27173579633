"""What is checked from batch to batch, across the places where a log was cut in pieces.

A task sees nothing of the batches before its piece. It hands the first and the last of its own to
the driver, which applies here the rules that look at neighbours, and counts batches from the front
of the file. The words are those of `files/log.py` and `checks/records.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise
from typing import Any

from kfmt_cli.core.finding import Finding
from kfmt_cli.files import codes
from kfmt_cli.files.block import Block
from kfmt_cli.files.records import Records, is_legacy
from kfmt_cli.spark.plan import Piece

_NUMBER = re.compile(r"^batch (\d+)")

Rows = list[dict[str, Any]]


@dataclass(slots=True)
class Edges:
    """What the neighbours of a piece have to know of it.

    begin: byte where its first batch begins. end: byte behind what was read as its last. batches:
    how many there are. first_position: byte of the first one. first_offset, last_offset: of the
    first and the last batch, as their headers say. first_record, last_record: of the first and the
    last record, where records were decoded; wrapper: the number of the first record's batch where
    that is a compressed message of magic 0 or 1, and wrapper_position its byte.
    """

    begin: int
    end: int
    batches: int = 0
    first_position: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    first_record: int | None = None
    last_record: int | None = None
    wrapper: int | None = None
    wrapper_position: int | None = None
    wrapper_offset: int | None = None

    def take(self, block: Block) -> None:
        """Add the batches of a block."""
        batches = block.batches
        if not len(batches):
            return
        self.batches = int(batches["number"][-1]) + 1
        if self.first_position is None:
            self.first_position = int(batches["position"][0])
            self.first_offset = int(batches["base_offset"][0])
        self.last_offset = int(batches["last_offset"][-1])

    def take_records(self, run: Block, records: Records) -> None:
        """Add the records of a run of batches."""
        if not len(records.rows):
            return
        offsets, batches = records.rows["offset"], run.batches
        if self.first_record is None:
            self.first_record = int(offsets[0])
            i = int((records.ends > 0).argmax())
            if is_legacy(run) and batches["compression"][i]:
                self.wrapper = int(batches["number"][i])
                self.wrapper_position = int(batches["position"][i])
                self.wrapper_offset = int(batches["base_offset"][i])
        self.last_record = int(offsets[-1])

    def as_dict(self) -> dict[str, int | None]:
        """The edges, for a result that is kept."""
        return asdict(self)


def edges_of(result: dict[str, Any]) -> Edges | None:
    """The edges that a result holds; None where nothing begins in the piece."""
    return Edges(**result["edges"]) if result.get("edges") else None


def torn_files(results: list[tuple[Piece, dict[str, Any]]]) -> set[str]:
    """The files in which a piece does not end where the next one begins: damage reaches across the
    cut, and only reading the file as a whole tells what is a batch of it."""
    torn: set[str] = set()
    for path, parts in groupby(results, lambda it: it[0].path):
        known = [edges for _, result in parts if (edges := edges_of(result))]
        if any(one.end != following.begin for one, following in pairwise(known)):
            torn.add(path)
    return torn


def sew(parts: list[tuple[Piece, dict[str, Any]]]) -> Iterator[tuple[Finding, int]]:
    """Number the batches in the findings of a file's pieces from its front, in place; what is wrong
    at the seams, with the index of the part whose first batch it is."""
    before = 0
    offset = record = None
    for i, (piece, result) in enumerate(parts):
        edges = edges_of(result)
        _renumber(result["findings"], before)
        if edges is None:
            continue
        for finding in _at_seam(piece.path, edges, before, offset, record):
            yield finding, i
        before += edges.batches
        offset = edges.last_offset if edges.last_offset is not None else offset
        record = edges.last_record if edges.last_record is not None else record


def _renumber(rows: Rows, before: int) -> None:
    for row in rows if before else ():
        row["message"] = _NUMBER.sub(lambda it: f"batch {int(it[1]) + before}", row["message"])


def _at_seam(
    path: str, edges: Edges, n_before: int, offset: int | None, record: int | None
) -> Iterator[Finding]:
    """The rules of neighbours, for the first batch and the first record of a piece."""
    code = codes.OFFSETS_BACKWARDS
    base = edges.first_offset
    if offset is not None and base is not None and base <= offset:
        words = f"batch {n_before} begins at offset {base}, but offset {offset} comes before it"
        yield Finding(path, code, edges.first_position, words, base, offset + 1, base)
    first = edges.first_record
    if edges.wrapper is not None and record is not None and first is not None and first <= record:
        number = n_before + edges.wrapper
        words = f"batch {number}: begins at offset {first}, but offset {record} comes before it"
        place = edges.wrapper_position
        yield Finding(path, code, place, words, edges.wrapper_offset, record + 1, first)
