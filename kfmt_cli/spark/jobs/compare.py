"""compare: two copies of partitions by batches and checksums; by records only where those differ.

Tasks read the headers and checksums of both copies, as `verify` does, and keep the batches as
columns. Then a task takes both copies of a partition, however many wrote their columns.
"""

from __future__ import annotations

import os
import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from kfmt_cli.arrow.batch_columns import keep_batches
from kfmt_cli.arrow.schema import schema_of
from kfmt_cli.arrow.table_file import table_file
from kfmt_cli.broker.replicas import Relation
from kfmt_cli.checks.comparison import Row
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.disk.tree import printable
from kfmt_cli.errors import UsageError
from kfmt_cli.render.style import grouped
from kfmt_cli.rows.compared_range import COMPARED_RANGE, RangeStatus
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.compared import Pair, PieceColumns, compared
from kfmt_cli.spark.job import Job, Result
from kfmt_cli.spark.jobs.context import Context, JobFindings, JobSummary, opened, rows_table
from kfmt_cli.spark.ledger import Ledger, part_name
from kfmt_cli.spark.tasks import in_tasks
from kfmt_cli.spark.work import run
from kfmt_cli.spark.worker import carried, home_for

MOST_SHOWN = 20  # ranges as lines
TASKS_PER_CORE = 4
_NAMES = {
    RangeStatus.IDENTICAL: "identical_ranges",
    RangeStatus.EXPLAINED: "explained_ranges",
    RangeStatus.MISSING: "missing_ranges",
    RangeStatus.DIFFERS: "differing_ranges",
}
Place = tuple[str | None, int | None, str]
"""Topic and partition; without a topic, the directory below the path."""


def keep(request: Request, pieces: Sequence[Piece], to: str) -> list[Result]:
    """Check pieces as `verify` does, and keep their batches."""
    name = part_name(pieces)
    results = [kept.result(name) for kept in keep_batches(request, pieces, f"{to}/{name}")]
    results[0]["outputs"] = [name]
    return results


def prepare(context: Context) -> Ledger:
    """The directory of the job; raises UsageError if it holds other results, or if there are not
    two copies to compare."""
    paths = context.request.paths
    if len(paths) != 2 or _top(paths[0]) == _top(paths[1]):
        raise UsageError("compare takes two paths, A and B: " + ", ".join(map(printable, paths)))
    return opened(context, Job("compare", keep, {}))


def run_job(context: Context) -> JobSummary:
    """Compare every partition."""
    ledger: Ledger = context.prepared or prepare(context)
    _check_places(context)
    ledger.plan(context.request, context.inputs())
    findings = JobFindings()
    summary = JobSummary(dict.fromkeys(("partitions", "segments", "bytes", "batches"), 0))
    ranges: Counter[str] = Counter()
    with ExitStack() as files:
        schema = schema_of(COMPARED_RANGE.leaves)
        place = f"{context.to}/ranges/part-0"
        table = files.enter_context(table_file(place, schema, context.format))
        place, schema = f"{context.to}/findings/part-0", rows_table("findings")
        findings.table = files.enter_context(table_file(place, schema, context.format))
        pairs = list(_pairs(context, ledger, findings, summary))
        names = schema_of(COMPARED_RANGE.leaves).names
        shown: list[dict[str, object]] = []
        for values in _compared(context, pairs):
            row = dict(zip(names, values, strict=True))
            table.add((row,))
            ranges[str(row["status"])] += 1
            if row["status"] != RangeStatus.IDENTICAL.value:
                shown = _worst((*shown, row))
    findings.sum_up(summary)
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
    summary.written = [table.path, findings.table.path]
    return summary


def _top(path: str) -> str:
    return os.path.abspath(local(path)) if is_local(path) else path.rstrip("/")  # noqa: PTH100


def _side_of(context: Context) -> tuple[str, str]:
    a, b = map(_top, context.request.paths)
    return a, b


def _place_of(piece: Piece, tops: tuple[str, str]) -> tuple[int, Place]:
    """Which copy a piece belongs to, 0 or 1, and its place in it."""
    below = [i for i, top in enumerate(tops) if f"{piece.path}/".startswith(f"{top}/")]
    side = max(below, key=lambda i: len(tops[i]))
    topic, partition = piece.place
    rest = "" if topic is not None else piece.folder.removeprefix(tops[side])
    return side, (topic, partition, rest)


def _check_places(context: Context) -> None:
    """Raise UsageError if a copy has a partition in two directories, or has none."""
    tops = _side_of(context)
    folders: dict[tuple[int, Place], str] = {}
    for piece in context.inputs():
        held = folders.setdefault(_place_of(piece, tops), piece.folder)
        if held != piece.folder:
            both = f"{printable(held)} and {printable(piece.folder)}"
            raise UsageError(f"{both} are the same partition: compare with one of them at a time")


def _pairs(
    context: Context, ledger: Ledger, findings: JobFindings, summary: JobSummary
) -> Iterator[Pair]:
    """Both copies of each partition, once all batches are kept."""
    tops, folder = _side_of(context), ledger.job.folder(ledger.to)
    sides: tuple[dict[Place, list[PieceColumns]], ...] = defaultdict(list), defaultdict(list)
    for piece, result in run(context.spark, context.request, ledger, context.advance):
        findings.take(result)
        summary.numbers["segments"] += piece.start == 0
        summary.numbers["bytes"] += piece.end - piece.start
        summary.numbers["batches"] += result["rows"]
        side, place = _place_of(piece, tops)
        kept = PieceColumns(piece, f"{folder}/{result['file']}", result["first"], result["end"])
        sides[side][place].append(kept)
    a, b = sides
    if len(a) == len(b) == 1:  # also copies under another name
        b = dict(zip(a, b.values(), strict=True))
    for place in {**a, **b}:
        yield Pair(place[0], place[1], tuple(a.get(place, ())), tuple(b.get(place, ())))


def _compared(context: Context, pairs: list[Pair]) -> Iterator[Row]:
    """The rows of all pairs, in tasks of about the same number of bytes."""
    if not pairs:
        return
    spark, request = context.spark, context.request
    shares = [pickle.dumps(share) for share in _shares(pairs, request.parallelism)]
    do = carried(home_for(spark), partial(_do, request))
    for answer in in_tasks(spark, do, shares, f"kfmt compare into {context.to}"):
        yield from pickle.loads(answer)  # noqa: S301 (the tasks' own)


def _shares(pairs: list[Pair], cores: int) -> Iterator[list[Pair]]:
    sizes = [sum(kept.piece.end - kept.piece.start for kept in (*p.a, *p.b)) for p in pairs]
    target = sum(sizes) // (cores * TASKS_PER_CORE)
    share: list[Pair] = []
    room = target
    for pair, size in zip(pairs, sizes, strict=True):
        if share and size > room:
            yield share
            share, room = [], target
        share.append(pair)
        room -= size
    yield share


def _do(request: Request, share: bytes) -> bytes:
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
    return f"{name}  {row['first_offset']}–{row['last_offset']}  {status}: {row['why']}"
