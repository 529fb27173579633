"""How checking logs is shared out to processes, and how what they find is put together.

Small logs are packed; a large one is cut where a batch is proven to begin (`sharing/bounds.py`), as
on Spark. What comes out is the same as from one process, in the same order.
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

# A process hands this many findings over at once; a file with more is read by the first process.
MOST_HANDED = 10_000
# A log is worth several processes from here on; each has some pieces of it.
LARGE = 64 << 20
LEAST_PIECE, MOST_PIECE = 16 << 20, 256 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a file."""

    verified: Verified | None
    """None where it could not be read, and `unread` says why."""
    findings: list[Finding] = field(default_factory=list)
    unread: Unread | None = None


@dataclass(frozen=True, slots=True)
class PieceFindings:
    """What was found in a piece of a log."""

    piece: Piece
    records: int
    extent: Extent
    edges: Edges | None
    findings: list[Finding]


Share = list[Input] | Piece
Done = list[Outcome | None] | PieceFindings | None


def shares_of(units: list[list[Input]], verifier: Verifier, jobs: int) -> list[Share]:
    """What the processes are handed: packs, files, and pieces of large files, in their order."""
    shares: list[Share] = []
    for unit in units:
        pieces = _pieces_of(unit[0], jobs) if len(unit) == 1 and verifier.deep else []
        shares += pieces or [unit]
    return shares


def _pieces_of(file: Input, jobs: int) -> list[Piece]:
    """A large log in pieces, none where that is not worth it."""
    size = size_of(file)
    if file.kind is not LOG or size < LARGE:
        return []
    share = min(max(-(-size // jobs), LEAST_PIECE), MOST_PIECE)
    return list(cut([Piece(file.path, file.kind, file.base_offset, size, 0, 0, size)], share))


def in_processes(
    shares: list[Share], verifier: Verifier, jobs: int, advance: Callable[[int], None]
) -> Iterator[Outcome | None]:
    """What became of each file, in order; None for one that is to be read by this process."""
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
    """The pieces of a log as a whole; None where only reading it as a whole tells what is in it."""
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
    """Check a share in a process of its own; None for what has too much to hand over."""
    if isinstance(share, Piece):
        return _verify_piece(share, verifier)
    done: list[Outcome | None] = []
    for file, known in zip(share, healthy(share, verifier), strict=True):
        done.append(Outcome(known) if known is not None else _alone(file, verifier))
    return done


def healthy(unit: list[Input], verifier: Verifier) -> list[Verified | None]:
    """Which files of a pack need no second look; a file that is alone is read by itself."""
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
    """What is found in a piece; None also where the file is not what it was a moment ago."""
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
