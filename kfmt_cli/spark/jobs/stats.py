"""stats: sizes, batch fill, codecs and skew by topic, partition and producer.

Tasks count the batches of each piece from their headers; the driver adds up the counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from operator import add, or_
from typing import Any

import numpy as np

from kfmt_cli.arrow.checking import micros, results_of
from kfmt_cli.arrow.piece_blocks import blocks_of
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.core.urls import name_text
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.log.block import Block
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.types.counted_batches import COUNTED
from kfmt_cli.sharing.piece import Piece, telling
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.job import Job, Result
from kfmt_cli.spark.jobs.context import Context, JobSummary, opened
from kfmt_cli.spark.ledger import Ledger

NONE = -1
"""The producer id for batches without one."""


@dataclass(slots=True)
class Counted:
    """Totals of some batches."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    compressed: int = 0
    """Batches with a codec."""
    codecs: int = 0
    """A bit per codec."""
    first_offset: int | None = None
    last_offset: int | None = None
    first_time: int | None = None
    last_time: int | None = None
    last_epoch: int | None = None

    def add(self, other: Counted) -> None:
        """Add other totals."""
        for name, merge in _MERGED.items():
            mine, its = getattr(self, name), getattr(other, name)
            if its is not None:
                setattr(self, name, its if mine is None else merge(mine, its))


_MERGED: dict[str, Callable[[int, int], int]] = {
    **dict.fromkeys(("batches", "records", "bytes", "compressed"), add),
    "codecs": or_,
    **dict.fromkeys(("first_offset", "first_time"), min),
    **dict.fromkeys(("last_offset", "last_time", "last_epoch"), max),
}


def _count(blocks: Iterable[Block]) -> tuple[Counted, dict[int, Counted]]:
    """The totals of a piece: overall, and by producer without control batches."""
    whole, producers = Counted(), defaultdict[int, Counted](Counted)
    for batches in (block.batches for block in blocks if len(block.batches)):
        whole.add(_counted(batches, np.ones(len(batches), np.bool_)))
        known = (batches.is_v2 == 1) & (batches.producer_id >= 0)
        ids = np.where(known, batches.producer_id, NONE)
        data = (batches.is_v2 == 0) | (batches.control == 0)
        for producer in np.unique(ids[data]).tolist():
            producers[producer].add(_counted(batches, data & (ids == producer)))
    return whole, producers


def _counted(batches: BatchTable, mask: BoolArray) -> Counted:
    of_v2 = batches.is_v2[mask] == 1
    # A message of magic 0 or 1 counts as one record; a wrapper's header does not count its records.
    records = np.where(of_v2, batches.records_count[mask], 1)
    codecs = batches.compression[mask]
    times = batches.max_timestamp[mask]
    times = times[(batches.has_timestamp[mask] == 1) & (times != -1)]
    epochs = batches.producer_epoch[mask][of_v2]
    epochs = epochs[epochs >= 0]
    return Counted(
        int(mask.sum()),
        int(records.sum()),
        int(batches.size[mask].sum()),
        int((codecs != 0).sum()),
        int(np.bitwise_or.reduce(1 << codecs.clip(0, len(CODECS) - 1))) if len(codecs) else 0,
        int(batches.base_offset[mask].min()),
        int(batches.last_offset[mask].max()),
        int(times.min()) if len(times) else None,
        int(times.max()) if len(times) else None,
        int(epochs.max()) if len(epochs) else None,
    )


def count_pieces(request: Request, pieces: Sequence[Piece], to: str) -> list[Result]:
    """Count the batches of pieces; small logs are read together."""
    del to
    results: list[Result] = []
    for piece, reader, blocks in blocks_of(request, pieces):
        with telling(piece):
            whole, by_producer = _count(blocks)
        producers = [[number, *astuple(found)] for number, found in by_producer.items()]
        kept = results_of(reader.findings, reader.edges)
        results.append({"whole": astuple(whole), "producers": producers, **kept})
    return results


def prepare(context: Context) -> Ledger:
    """The directory of the job; raises UsageError if it holds other results."""
    return opened(context, Job("stats", count_pieces, {}))


def run_job(context: Context) -> JobSummary:
    """Write the reports."""
    ledger: Ledger = context.prepared or prepare(context)
    partitions: dict[tuple[str | None, int | None], Counted] = defaultdict(Counted)
    producers: dict[tuple[str | None, int], Counted] = defaultdict(Counted)
    summary = JobSummary()
    for piece, result in context.results(ledger, summary):
        topic, partition = piece.place
        topic = topic and name_text(topic)
        whole = Counted(*result.whole)
        if whole.batches:
            partitions[topic, partition].add(whole)
        for producer, *found in result.producers:
            producers[topic, producer].add(Counted(*found))
    topics = _topics(partitions)
    tables = topics, _partitions(partitions), _producers(producers)
    for (name, type_), rows in zip(COUNTED.items(), tables, strict=True):
        with context.table_file(name, type_) as table:
            table.add(rows)
        summary.numbers[name] = table.rows
        summary.written.append(table.path)
    summary.lines = [_line(row) for row in topics]
    summary.sum_up()
    if summary.errors:
        summary.numbers["errors"] = summary.errors
    return summary


def _totals(found: Counted) -> dict[str, Any]:
    """The totals in the rows of topics, partitions and producers."""
    numbers = {name: getattr(found, name) for name in ("batches", "records", "bytes")}
    times = {name: micros(getattr(found, name)) for name in ("first_time", "last_time")}
    return {**numbers, **times}


def _partitions(found: dict[tuple[str | None, int | None], Counted]) -> Iterator[dict[str, Any]]:
    for (topic, partition), counted in sorted(found.items(), key=lambda of: _order(*of[0])):
        offsets = {name: getattr(counted, name) for name in ("first_offset", "last_offset")}
        yield {"topic": topic, "partition": partition, **offsets, **_totals(counted)}


def _order(topic: str | None, number: int | None) -> tuple[str, int]:
    return topic or "", -1 if number is None else number


def _topics(found: dict[tuple[str | None, int | None], Counted]) -> list[dict[str, Any]]:
    by_topic: dict[str | None, list[Counted]] = defaultdict(list)
    for (topic, _), counted in found.items():
        by_topic[topic].append(counted)
    rows = []
    for topic, parts in by_topic.items():
        whole = Counted()
        for part in parts:
            whole.add(part)
        largest = max(part.bytes for part in parts)
        codecs = sorted(name for i, name in enumerate(CODECS) if whole.codecs >> i & 1)
        rows.append(
            {
                "topic": topic,
                "partitions": len(parts),
                "records_per_batch": _ratio(whole.records, whole.batches, 1),
                "bytes_per_record": _ratio(whole.bytes, whole.records, 1),
                "codecs": ",".join(codecs),
                "skew": _ratio(largest * len(parts), whole.bytes, 2),
                **_totals(whole),
            }
        )
    return sorted(rows, key=lambda row: (-row["bytes"], row["topic"] or ""))


def _producers(found: dict[tuple[str | None, int], Counted]) -> list[dict[str, Any]]:
    rows = [
        {
            "topic": topic,
            "producer_id": None if producer == NONE else producer,
            "records_per_batch": _ratio(counted.records, counted.batches, 1),
            "bytes_per_batch": _ratio(counted.bytes, counted.batches, 1),
            "compressed": _ratio(counted.compressed, counted.batches, 3),
            "last_epoch": counted.last_epoch,
            **_totals(counted),
        }
        for (topic, producer), counted in found.items()
    ]
    return sorted(rows, key=lambda row: (-row["bytes"], *_order(row["topic"], row["producer_id"])))


def _ratio(a: int, b: int, digits: int) -> float | None:
    return round(a / b, digits) if b else None


def _line(row: dict[str, object]) -> str:
    topic = row["topic"] or "(no partition directory)"
    return (
        f"{topic:<28} {row['partitions']:>4} partitions {row['records']:>12} records "
        f"{row['bytes']:>14} bytes  {row['records_per_batch']:>8} per batch  skew {row['skew']}  "
        f"{row['codecs']}"
    )
