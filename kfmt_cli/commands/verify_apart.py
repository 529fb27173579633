"""Distributes the checking of logs to processes and joins their findings.

Small logs are packed; a large one is cut at proven batch starts (`sharing/bounds.py`), as on Spark.
The result is the same as from one process, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from kfmt_cli.checks.log.extent import Extent
from kfmt_cli.checks.log.verifier import Stretch, Verified, Verifier, all_of
from kfmt_cli.commands.run import Unread
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.tree import size_of
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding, in_order
from kfmt_cli.sharing.piece import Piece, cut
from kfmt_cli.sharing.processes import at_once, map_processes
from kfmt_cli.sharing.read_piece import Edges, PieceReader, facts_of
from kfmt_cli.sharing.seams import Seam, is_torn

# A process returns at most this many findings; the main process reads a file with more.
MOST_HANDED = 10_000
# A log of at least this size is split over several processes.
LARGE = 64 << 20
LEAST_PIECE, MOST_PIECE = 16 << 20, 256 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one file."""

    verified: Verified | None
    """None if it could not be read; `unread` says why."""
    findings: list[Finding] = field(default_factory=list)
    unread: Unread | None = None


@dataclass(frozen=True, slots=True)
class PieceFindings:
    """The result for a piece of a log."""

    piece: Piece
    records: int
    extent: Extent
    edges: Edges | None
    findings: list[Finding]


Share = list[Input] | Piece
Done = list[Outcome | None] | PieceFindings | None


def shares_of(units: list[list[Input]], verifier: Verifier, jobs: int) -> list[Share]:
    """The shares of the processes: packs, files and pieces of large files, in order."""
    shares: list[Share] = []
    for unit in units:
        pieces = _pieces_of(unit[0], jobs) if len(unit) == 1 and verifier.deep else []
        shares += pieces or [unit]
    return shares


def _pieces_of(file: Input, jobs: int) -> list[Piece]:
    """The pieces of a large log; empty for other files."""
    size = size_of(file)
    if file.kind is not LOG or size < LARGE:
        return []
    share = min(max(-(-size // jobs), LEAST_PIECE), MOST_PIECE)
    return list(cut([Piece(file.path, file.kind, file.base_offset, size, 0, 0, size)], share))


def in_processes(
    shares: list[Share], verifier: Verifier, jobs: int, advance: Callable[[int], None]
) -> Iterator[Outcome | None]:
    """The result of each file, in order; None for one that the caller must read itself."""
    work = partial(verify_share, verifier=replace(verifier, workers=0))
    held: list[PieceFindings | None] = []
    results = map_processes(work, shares, jobs, at_once(len(shares), jobs))
    for share, done in zip(shares, results, strict=True):
        if isinstance(share, Piece):
            advance(share.end - share.start)
            assert not isinstance(done, list)
            held.append(done)
            if share.is_last:
                yield _joined(held)
                held = []
            continue
        assert isinstance(done, list)
        for outcome in done:
            if outcome is not None and outcome.verified is not None:
                advance(outcome.verified.bytes)
            yield outcome


def _joined(parts: list[PieceFindings | None]) -> Outcome | None:
    """The result of a log from its pieces; None if it must be read as a whole."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or is_torn(part.edges for part in known):
        return None
    seam = Seam(known[0].piece.path)
    findings: list[Finding] = []
    extent, records = Extent(), 0
    for piece in known:
        here = [seam.numbered(finding) for finding in piece.findings]
        at_seam = list(seam.join(piece.edges)) if piece.edges is not None else []
        findings += in_order([*at_seam, *here])
        extent.join(piece.extent)
        records += piece.records
    size = known[0].piece.size
    return Outcome(Verified(size, seam.n_batches, records, extent), findings)


def verify_share(share: Share, verifier: Verifier) -> Done:
    """Check a share in a separate process; None if there are too many findings to return."""
    if isinstance(share, Piece):
        return _verify_piece(share, verifier)
    done: list[Outcome | None] = []
    for file, known in zip(share, healthy(share, verifier), strict=True):
        done.append(Outcome(known) if known is not None else _alone(file, verifier))
    return done


def healthy(unit: list[Input], verifier: Verifier) -> list[Verified | None]:
    """The results of a pack's healthy files; None for others and for a file that is alone."""
    if len(unit) == 1:
        return [None]
    from kfmt_cli.checks.log.packs import verify_pack

    return verify_pack(unit, verifier.deep, verifier.limit)


def _alone(file: Input, verifier: Verifier) -> Outcome | None:
    try:
        done = all_of(verifier.findings(file), MOST_HANDED)
    except InputError as error:
        return Outcome(None, unread=Unread.of(error))
    return None if done is None else Outcome(done[1], done[0])


def _verify_piece(piece: Piece, verifier: Verifier) -> PieceFindings | None:
    """Check a piece; None if it has too many findings or the file has changed."""
    reader = PieceReader(limit=verifier.limit, searches=True)
    stretch = Stretch(True, verifier.limit, piece.base_offset)
    first: list[Finding] = []
    for run, records in reader.records(piece):
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
