"""restore: exported records become the segments of their partitions again."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial

from kfmt_cli.arrow.export.exported_rows import Span, forget_rows, spans_kept
from kfmt_cli.arrow.restore.restored_partition import (
    LOG_DIRECTORY,
    ExportedPartition,
    exported_partitions,
    grouped_by_file,
    restore_partition,
    tables_at,
)
from kfmt_cli.arrow.restore.restoring import RestoredCounts
from kfmt_cli.core.urls import name_text
from kfmt_cli.errors import KfmtError, UsageError
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.render.style import count, grouped
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.job import Job, Result
from kfmt_cli.spark.jobs.context import Context, JobSummary, opened
from kfmt_cli.spark.ledger import Ledger
from kfmt_cli.spark.tasks import in_tasks
from kfmt_cli.spark.worker import carried, home_for
from kfmt_cli.topics import CLUSTER_METADATA
from kfmt_cli.writing.output import need_local

TASKS_PER_CORE = 4
MOST_SHOWN = 20  # partitions as lines


def inputs_of(
    request: Request, tell: Callable[[str], None] | None = None, *, is_checked: bool = False
) -> Pieces:
    """The files of tables of records and batches; raises InputError, UsageError."""
    del tell, is_checked
    found: list[Piece] = []
    for path in request.paths:
        files = tables_at(path)
        if files is None:
            raise UsageError(f"{name_text(path)}: no table of records in Parquet files")
        found += files
    return Pieces(found).in_order()


def spans(request: Request, pieces: Sequence[Piece], to: str) -> list[Result]:
    """The partitions with rows in files."""
    del to
    topics = request.topics

    def is_wanted(topic: str | None) -> bool:
        # A broker does not start on a metadata log without its snapshots, which no table has.
        return topic in topics if topics else topic != CLUSTER_METADATA

    return [spans_kept(piece, is_wanted) for piece in pieces]


def prepare(context: Context) -> Ledger:
    """The directory of the job; raises UsageError if it holds other results, or is in a store."""
    need_local(context.to)
    options = {"compression": context.options.get("compression")}
    return opened(context, Job("restore", spans, options))


def run_job(context: Context) -> JobSummary:
    """Restore every partition."""
    ledger: Ledger = context.prepared or prepare(context)
    summary = JobSummary()
    partitions = _partitions(context, ledger, summary)
    total, n_restored = RestoredCounts(), 0
    for each, answer in _restored(context, partitions):
        if isinstance(answer, str):
            summary.unread.append(f"{each.name}: {answer}")
            continue
        n_restored += 1
        total.add(answer)
        summary.lines += [f"{each.name}: {words}" for words in answer.losses()]
    if (left := len(summary.lines) - MOST_SHOWN) > 0:
        summary.lines[MOST_SHOWN:] = [f"and {grouped(left)} more"]
    summary.sum_up()
    summary.lines += _kept(partitions, total)
    summary.numbers = {"partitions": n_restored, **asdict(total)}
    summary.errors += total.missing_records + total.damaged
    summary.written = [f"{context.to}/{LOG_DIRECTORY}"]
    return summary


def _partitions(context: Context, ledger: Ledger, summary: JobSummary) -> list[ExportedPartition]:
    """The partitions with records, and their files."""

    def found() -> Iterator[tuple[Piece, str, list[Span]]]:
        for piece, result in context.results(ledger, summary):
            yield piece, result["table"], [Span(*row) for row in result["spans"]]

    return exported_partitions(found())


def _restored(
    context: Context, partitions: list[ExportedPartition]
) -> Iterator[tuple[ExportedPartition, RestoredCounts | str]]:
    """What became of each partition, in tasks of about the same number of records."""
    if not partitions:
        return
    spark, named = context.spark, context.options.get("compression")
    codec = None if named is None else CODECS.index(named)
    target = sum(each.n_rows for each in partitions)
    target //= context.request.parallelism * TASKS_PER_CORE
    shares: list[list[ExportedPartition]] = []
    for group in grouped_by_file(partitions):
        if shares and sum(each.n_rows for each in (*shares[-1], *group)) <= target:
            shares[-1] += group
        else:
            shares.append(group)
    do = carried(home_for(spark), partial(_do, context.to, codec))
    pickled = [pickle.dumps(share) for share in shares]
    answers = in_tasks(spark, do, pickled, f"kfmt restore into {context.to}")
    for share, answer in zip(shares, answers, strict=True):
        yield from zip(share, pickle.loads(answer), strict=True)  # noqa: S301 (the tasks' own)


def _do(to: str, codec: int | None, share: bytes) -> bytes:
    forget_rows()
    found: list[RestoredCounts | str] = []
    for each in pickle.loads(share):  # noqa: S301 (the driver's own)
        try:
            found.append(restore_partition(each, to, codec))
        except KfmtError as error:
            found.append(str(error))
    return pickle.dumps(found)


def _kept(partitions: list[ExportedPartition], total: RestoredCounts) -> Iterator[str]:
    """What could be kept, and what not."""
    bare = sum(not each.batches for each in partitions)
    if total.unchanged_batches:
        n = grouped(total.unchanged_batches)
        yield f"{n} of {count(total.batches, 'batch', 'batches')} unchanged"
    if bare:
        yield (
            f"{count(bare, 'partition')} without a table of batches: codecs, leader epochs and "
            "empty batches are lost"
        )
