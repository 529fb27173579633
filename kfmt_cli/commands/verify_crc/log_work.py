"""How processes check logs: small ones in packs, a large one in pieces.

A large log is cut at proven batch starts (`sharing/bounds.py`), as on Spark. The findings are the
same as from one process, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kfmt_cli.checks.log.extent import Extent
from kfmt_cli.checks.log.verifier import MOST_HANDED, Checked, Stretch, Verified, Verifier, all_of
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.findings.finding import Finding, in_order
from kfmt_cli.log.decoding import read_for_checks
from kfmt_cli.log.pack import is_packable
from kfmt_cli.sharing.engine import Work
from kfmt_cli.sharing.piece import Piece, cut

if TYPE_CHECKING:
    from kfmt_cli.sharing.read_piece import Edges

LEAST_PIECE, MOST_PIECE = 16 << 20, 256 << 20


@dataclass(frozen=True, slots=True)
class PieceFindings:
    """The result for a piece of a log."""

    piece: Piece
    records: int
    extent: Extent
    edges: Edges | None
    findings: list[Finding]


@dataclass(frozen=True, slots=True)
class LogWork(Work[Input, Checked[Verified], PieceFindings]):
    """Checks logs."""

    verifier: Verifier

    def is_packed(self, item: Input) -> bool:
        return is_packable(item)

    def together(self, items: Sequence[Input]) -> list[Checked[Verified] | None]:
        from kfmt_cli.checks.log.packs import checked_pack, verified

        found = verified(checked_pack(items), self.verifier.deep, self.verifier.limit)
        return [None if known is None else (known, []) for known in found]

    def alone(self, item: Input) -> Checked[Verified] | None:
        return all_of(replace(self.verifier, workers=0).findings(item))

    def parts(self, item: Input, size: int, jobs: int) -> list[Piece]:
        if item.kind is not LOG or not self.verifier.deep:
            return []
        share = min(max(-(-size // jobs), LEAST_PIECE), MOST_PIECE)
        return list(cut([Piece(item.path, item.kind, item.base_offset, size, 0, 0, size)], share))

    def part(self, piece: Piece) -> PieceFindings | None:
        """Check a piece; None if it has too many findings or the file has changed."""
        from kfmt_cli.sharing.read_piece import PieceReader, facts_of

        limit = self.verifier.limit
        reader = PieceReader(limit=limit, searches=True)
        stretch = Stretch(True, limit, piece.base_offset)
        first: list[Finding] = []
        for run, records in reader.records(piece, read_for_checks):
            for check, finding in stretch.take_records(run, records):
                (first if check.looks_back else reader.findings).append(finding)
            if len(reader.findings) > MOST_HANDED:
                return None
        if reader.changed:
            return None
        if reader.edges is not None:
            reader.edges.checks |= facts_of(stretch.checks)
        findings = in_order([*first, *reader.findings])
        return PieceFindings(piece, stretch.records, stretch.extent, reader.edges, findings)

    def joined(self, parts: list[PieceFindings]) -> Checked[Verified] | None:
        from kfmt_cli.sharing.seams import Seam, is_torn

        if is_torn(part.edges for part in parts):
            return None
        seam = Seam(parts[0].piece.path)
        findings: list[Finding] = []
        extent, records = Extent(), 0
        for piece in parts:
            here = [seam.numbered(finding) for finding in piece.findings]
            at_seam = list(seam.join(piece.edges)) if piece.edges is not None else []
            findings += in_order([*at_seam, *here])
            extent.join(piece.extent)
            records += piece.records
        size = parts[0].piece.size
        return Verified(size, seam.n_batches, records, extent), findings
