"""compare: two copies of partitions by batches and checksums; by records only where those differ.

Tasks read the headers and checksums of both copies, as `verify` does, and keep the batches as
columns. Then a task takes both copies of a partition, however many wrote their columns.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

from kfmt_cli.arrow.batch_columns import keep_batches
from kfmt_cli.arrow.export.exported_rows import (
    exported_pieces,
    forget_rows,
    is_exported,
    spans_kept,
)
from kfmt_cli.arrow.inputs import files_of
from kfmt_cli.broker.cluster.replicas import Relation
from kfmt_cli.checks.comparison import MISSING, Row
from kfmt_cli.core.parallel import in_shares
from kfmt_cli.core.urls import name_text
from kfmt_cli.errors import UsageError
from kfmt_cli.render.style import grouped
from kfmt_cli.rows.table_types import FINDINGS
from kfmt_cli.rows.types.compared_range import COMPARED_RANGE, RangeStatus
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import LEAST_SPLIT, Request
from kfmt_cli.spark.compared import Pair, compared
from kfmt_cli.spark.copies_of_partitions import BothCopies, check_places, merged_rows, top_of
from kfmt_cli.spark.job import Job, Result
from kfmt_cli.spark.jobs.context import Context, JobSummary, opened
from kfmt_cli.spark.ledger import Ledger, part_name
from kfmt_cli.spark.tasks import in_tasks
from kfmt_cli.spark.worker import carried, home_for

MOST_SHOWN = 20  # ranges as lines
TASKS_PER_CORE = 4
_NAMES = {
    RangeStatus.IDENTICAL: "identical_ranges",
    RangeStatus.EXPLAINED: "explained_ranges",
    RangeStatus.MISSING: "missing_ranges",
    RangeStatus.DIFFERS: "differing_ranges",
}


def inputs_of(
    request: Request, tell: Callable[[str], None] | None = None, *, is_checked: bool = False
) -> Pieces:
    """The segments and the files of tables of both copies; raises InputError. A topic that one has
    no files of is missing in it."""
    del is_checked
    found: list[Piece] = []
    for path in request.paths:
        files = exported_pieces(path)
        found += files_of(replace(request, paths=(path,)), tell) if files is None else files
    return Pieces(found).in_order()


def keep(request: Request, pieces: Sequence[Piece], to: str) -> list[Result]:
    """Check pieces as `verify` does, and keep their batches; of a table, find the partitions."""
    segments = [piece for piece in pieces if not is_exported(piece)]
    kept = iter(keep_batches(request, segments, to, part_name(pieces)) if segments else ())
    return [
        spans_kept(piece, request.wants) if is_exported(piece) else next(kept) for piece in pieces
    ]


def prepare(context: Context) -> Ledger:
    """The directory of the job; raises UsageError if it holds other results, or if there are not
    two copies to compare."""
    paths = context.request.paths
    if len(paths) != 2:
        raise UsageError("compare takes two paths, A and B")
    if top_of(paths[0]) == top_of(paths[1]):
        raise UsageError(f"compare takes two paths, A and B: {name_text(paths[0])} is given twice")
    return opened(context, Job("compare", keep, {}))


def run_job(context: Context) -> JobSummary:
    """Compare every partition."""
    ledger: Ledger = context.prepared or prepare(context)
    check_places(context.request.paths, context.inputs())
    summary = JobSummary(
        dict.fromkeys(("partitions", "segments", "bytes", "batches", "records"), 0)
    )
    ranges: Counter[str] = Counter()
    with (
        context.table_file("ranges/part-0", COMPARED_RANGE) as table,
        context.table_file("findings/part-0", FINDINGS) as summary.table,
    ):
        pairs = _pairs(context, ledger, summary)
        shown: list[dict[str, object]] = []
        for row in merged_rows(_compared(context, pairs)):
            table.add((row,))
            ranges[str(row["status"])] += 1
            if row["status"] != RangeStatus.IDENTICAL.value:
                shown = _worst((*shown, row))
    summary.sum_up()
    summary.numbers["partitions"] = len(pairs)
    for status, name in _NAMES.items():
        summary.numbers[name] = ranges[status.value]
    bad = ranges[RangeStatus.MISSING.value] + ranges[RangeStatus.DIFFERS.value]
    summary.numbers["errors"] = summary.errors
    summary.errors += bad
    summary.lines = [*map(_line, shown), *summary.lines]
    left = sum(ranges.values()) - ranges[RangeStatus.IDENTICAL.value] - len(shown)
    if left:
        summary.lines.append(f"and {grouped(left)} more ranges that are not identical")
    summary.written = [table.path, summary.table.path]
    return summary


def _pairs(context: Context, ledger: Ledger, summary: JobSummary) -> list[Pair]:
    """Both copies of each partition, once all batches are kept."""
    copies = BothCopies(context.request.paths, ledger.job.folder(ledger.to))
    for piece, result in context.results(ledger, summary):
        summary.numbers["segments"] += piece.start == 0 and not is_exported(piece)
        summary.numbers["bytes"] += piece.end - piece.start
        summary.numbers["records" if is_exported(piece) else "batches"] += result["rows"]
        copies.take(piece, result)
    return list(copies.pairs())


def _compared(context: Context, pairs: list[Pair]) -> Iterator[Row]:
    """The rows of all pairs, in tasks of about the same number of bytes."""
    if not pairs:
        return
    spark, request = context.spark, context.request
    target = sum(pair.n_bytes for pair in pairs) // (request.parallelism * TASKS_PER_CORE)
    parts = [part for pair in pairs for part in pair.shares(max(target, LEAST_SPLIT))]
    shares = [pickle.dumps(share) for share in in_shares(parts, target, attrgetter("n_bytes"))]
    do = carried(home_for(spark), partial(_do, request))
    for answer in in_tasks(spark, do, shares, f"kfmt compare into {context.to}"):
        yield from pickle.loads(answer)  # noqa: S301 (the tasks' own)


def _do(request: Request, share: bytes) -> bytes:
    forget_rows()
    pairs: list[Pair] = pickle.loads(share)  # noqa: S301 (the driver's own)
    return pickle.dumps([row for pair in pairs for row in compared(request, pair)])


def _worst(rows: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    order = [status.value for status in reversed(RangeStatus)]
    return sorted(rows, key=lambda row: order.index(str(row["status"])))[:MOST_SHOWN]


def _line(row: dict[str, object]) -> str:
    name = row["a"] or row["b"] if row["topic"] is None else f"{row['topic']}-{row['partition']}"
    relation, status = Relation(row["relation"]), str(row["status"])
    if status == RangeStatus.MISSING.value:
        status = f"missing in {'B' if relation is Relation.ONLY_A else 'A'}"
    elif relation in (Relation.ONLY_A, Relation.ONLY_B):
        status = f"{relation.value}, {status}"
    why = "" if row["why"] == MISSING else f": {row['why']}"
    return f"{name}  {row['first_offset']}–{row['last_offset']}  {status}{why}"
