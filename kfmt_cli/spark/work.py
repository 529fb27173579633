"""Distribute a job's pieces to tasks, and combine their results."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, overload

from kfmt_cli.arrow.checking import edges_of, finding_of, finding_row
from kfmt_cli.arrow.export.output import put_json
from kfmt_cli.arrow.inputs import at_hand
from kfmt_cli.core.native.compiled import interpreted
from kfmt_cli.findings.damage import UNREAD
from kfmt_cli.findings.finding import in_order
from kfmt_cli.render.style import grouped
from kfmt_cli.sharing.piece import Piece, name_of, pack, telling
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request, share_of
from kfmt_cli.sharing.seams import Seam, is_torn
from kfmt_cli.spark.job import Job, Stored, about
from kfmt_cli.spark.ledger import Ledger, file_of
from kfmt_cli.spark.tasks import in_tasks
from kfmt_cli.spark.wanted import in_these
from kfmt_cli.spark.worker import LOG, carried, home_for

if TYPE_CHECKING:
    from kfmt_cli.spark.worker import Spark

SLOW = b"slow"


def run(
    spark: Spark, request: Request, ledger: Ledger, advance: Callable[[int], None]
) -> Iterator[tuple[Piece, Stored]]:
    """Process the open pieces; the results of all pieces, in order, with the findings at the seams
    between them.

    advance: called with the number of further input bytes processed.
    """
    _finish(spark, request, ledger, advance)
    torn = torn_files(ledger.done(lambda piece: not piece.is_whole))
    if torn:
        ledger.uncut(torn)
        _finish(spark, request, ledger, advance)
    return sewn_together(ledger.done())


def torn_files(found: Iterable[tuple[Piece, Stored]]) -> set[str]:
    """The files in which a piece does not end where the next one begins."""
    return {
        path
        for path, parts in groupby(found, lambda read: read[0].path)
        if is_torn(edges_of(result) for _, result in parts)
    }


def sewn_together(found: Iterable[tuple[Piece, Stored]]) -> Iterator[tuple[Piece, Stored]]:
    """The results with the findings at the seams between pieces of a file.

    `findings` are then rows of that table, with batches numbered from the front of the file.
    """
    for path, parts in groupby(found, lambda read: read[0].path):
        seam = Seam(path)
        for piece, result in parts:
            findings = [seam.numbered(finding_of(row)) for row in result.findings]
            codes: Counter[str] = Counter(result.codes)
            if edges := edges_of(result):
                at_seam = list(seam.join(edges))
                findings = in_order([*at_seam, *findings])
                codes.update(finding.code.name for finding in at_seam)
            rows = [finding_row(piece, finding) for finding in findings]
            yield piece, Stored(result, findings=rows, codes=codes)


def _finish(spark: Spark, request: Request, ledger: Ledger, advance: Callable[[int], None]) -> None:
    """Process the open pieces."""
    numbers = ledger.open_pieces()
    if numbers:
        shares = shares_of(ledger.job, request, ledger.pieces.taken(numbers))
        _run(spark, request, ledger, shares, advance)
        ledger.take(numbers, shares)


def shares_of(job: Job, request: Request, pieces: Pieces) -> list[Pieces]:
    """The pieces grouped by task."""
    share = share_of(request, pieces)
    made = pack(pieces, share) if job.bundling is None else job.bundling.bundles(pieces, share)
    return list(pieces.shared(made))


def _run(
    spark: Spark,
    request: Request,
    ledger: Ledger,
    shares: list[Pieces],
    advance: Callable[[int], None],
) -> None:
    """Run one task per share."""
    done = ledger.done_folder
    to = ledger.job.folder(ledger.to)
    common = replace(request, in_folders={})
    do = carried(home_for(spark), partial(_do, ledger.job, common, to, done, ledger.run))
    total, n_tasks = sum(share.n_bytes for share in shares), len(shares)
    told = 0

    def reached(tasks_done: int) -> None:
        nonlocal told
        n = total * tasks_done // n_tasks
        advance(n - told)
        told = n

    words = f"kfmt {ledger.job.name}: {grouped(total)} bytes into {ledger.to}"
    slow = sum(
        answer == SLOW
        for answer in in_tasks(spark, do, TaskShares(request, shares), words, reached)
    )
    if slow:
        LOG.warning(
            "kfmt: %d of %d tasks ran without kfmt's compiled modules, which takes up to 80 times "
            "as long: ship an environment with an installed kfmt-cli (docs/spark.md, A cluster)",
            *(slow, n_tasks),
        )


@dataclass(frozen=True, slots=True)
class TaskShares(Sequence[bytes]):
    """What each task gets, made when it is sent: those of a million segments are 100 MB."""

    request: Request
    shares: Sequence[Pieces]

    def __len__(self) -> int:
        return len(self.shares)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(at, slice):
            return TaskShares(self.request, self.shares[at])
        return share_for_task(self.request, self.shares[at])


def share_for_task(request: Request, pieces: Pieces) -> bytes:
    """A task's own share: its pieces, and the selections in their directories. As bytes: a worker
    imports kfmt before it unpickles them."""
    return pickle.dumps((pieces, in_these(pieces, request.in_folders)))


def _do(job: Job, request: Request, to: str, done: str, run: int, share: bytes) -> bytes:
    """The work of a task; SLOW if it ran interpreted modules. to: the directory for outputs, done:
    for the results. run: the number of the run. share: see `share_for_task`."""
    pieces, known = pickle.loads(share)  # noqa: S301 (the driver's own)
    request = replace(request, in_folders=known)
    with telling(pieces[0]), at_hand(request, pieces):
        results = job.work(request, pieces, to)
    kept = {}
    for piece, result in zip(pieces, results, strict=True):
        # An input that could not be read is read again by the next run.
        valid_for = None if is_unread(result) else about(piece, request)
        kept[name_of(piece.path, piece.start)] = {**result, "about": valid_for}
    put_json(f"{done}/{file_of(pieces, run)}", kept)
    return SLOW if interpreted() else b""


def is_unread(result: Mapping[str, Any]) -> bool:
    """Whether an input could not be read, or not to its end."""
    return any(code.name in result["codes"] for code in UNREAD)
