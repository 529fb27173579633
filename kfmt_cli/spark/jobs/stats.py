"""stats: sizes, batch fill, codecs and skew by topic, partition and producer.

Tasks count the batches of each split from their headers; the driver adds up the counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from operator import add, or_
from typing import Any

import numpy as np

from kfmt_cli.arrow.split_blocks import read_split_blocks
from kfmt_cli.arrow.split_checks import encode_findings, to_microseconds
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.execution.file_split import FileSplit, name_file_in_errors
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.log.block import Block
from kfmt_cli.log.summary.statistics import first_offset_or_none
from kfmt_cli.rows.documents import STATS_ROW_BY_TABLE
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.spark.job import JobDefinition, SplitResult
from kfmt_cli.spark.job_directory import JobDirectory
from kfmt_cli.spark.jobs.context import JobContext, JobSummary, open_report_directory

NO_PRODUCER_ID = -1
"""The producer id for batches without one."""


@dataclass(slots=True)
class BatchTotals:
    """Totals of some batches."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    compressed: int = 0
    """Batches with a codec."""
    codecs: int = 0
    """A bit per codec."""
    first_known_offset: int | None = None
    last_offset: int | None = None
    first_time: int | None = None
    last_time: int | None = None
    last_epoch: int | None = None
    first_wrapper_offset: int | None = None
    """The smallest last offset of wrappers of magic 0 and 1, whose headers state no first one."""

    @property
    def first_offset(self) -> int | None:
        """The first offset; None if it is unknown."""
        return first_offset_or_none(self.first_known_offset, self.first_wrapper_offset)

    def add_totals(self, other: BatchTotals) -> None:
        """Add other totals."""
        for name, merge_function in _MERGE_FUNCTION_BY_TOTAL.items():
            own_value, other_value = getattr(self, name), getattr(other, name)
            if other_value is not None:
                setattr(
                    self,
                    name,
                    other_value if own_value is None else merge_function(own_value, other_value),
                )


_MERGE_FUNCTION_BY_TOTAL: dict[str, Callable[[int, int], int]] = {
    **dict.fromkeys(("batches", "records", "bytes", "compressed"), add),
    "codecs": or_,
    **dict.fromkeys(("first_known_offset", "first_wrapper_offset", "first_time"), min),
    **dict.fromkeys(("last_offset", "last_time", "last_epoch"), max),
}


def _count_batches(blocks: Iterable[Block]) -> tuple[BatchTotals, dict[int, BatchTotals]]:
    """The totals of a split: overall, and by producer without control batches."""
    overall_totals, totals_by_producer = BatchTotals(), defaultdict[int, BatchTotals](BatchTotals)
    for batches in (block.batches for block in blocks if len(block.batches)):
        overall_totals.add_totals(_compute_batch_totals(batches, np.ones(len(batches), np.bool_)))
        has_producer = (batches.is_v2 == 1) & (batches.producer_id >= 0)
        producer_ids = np.where(has_producer, batches.producer_id, NO_PRODUCER_ID)
        is_data_batch = (batches.is_v2 == 0) | (batches.control == 0)
        for producer_id in np.unique(producer_ids[is_data_batch]).tolist():
            totals_by_producer[producer_id].add_totals(
                _compute_batch_totals(batches, is_data_batch & (producer_ids == producer_id))
            )
    return overall_totals, totals_by_producer


def _compute_batch_totals(batches: BatchTable, is_selected: BoolArray) -> BatchTotals:
    is_v2 = batches.is_v2[is_selected] == 1
    has_base_offset = batches.has_base_offset == 1
    # A message of magic 0 or 1 counts as one record; a wrapper's header does not count its records.
    record_counts = np.where(is_v2, batches.records_count[is_selected], 1)
    codecs = batches.compression[is_selected]
    max_timestamps = batches.max_timestamp[is_selected]
    max_timestamps = max_timestamps[
        (batches.has_timestamp[is_selected] == 1) & (max_timestamps != -1)
    ]
    producer_epochs = batches.producer_epoch[is_selected][is_v2]
    producer_epochs = producer_epochs[producer_epochs >= 0]
    return BatchTotals(
        int(is_selected.sum()),
        int(record_counts.sum()),
        int(batches.size[is_selected].sum()),
        int((codecs != 0).sum()),
        int(np.bitwise_or.reduce(1 << codecs.clip(0, len(CODECS) - 1))) if len(codecs) else 0,
        _smallest(batches.base_offset[is_selected & has_base_offset]),
        int(batches.last_offset[is_selected].max()),
        _smallest(max_timestamps),
        int(max_timestamps.max()) if len(max_timestamps) else None,
        int(producer_epochs.max()) if len(producer_epochs) else None,
        _smallest(batches.last_offset[is_selected & ~has_base_offset]),
    )


def _smallest(values: IntArray) -> int | None:
    return int(values.min()) if len(values) else None


def count_split_batches(
    request: ReadRequest, splits: Sequence[FileSplit], output_directory: str
) -> list[SplitResult]:
    """Count the batches of splits; small logs are read together."""
    del output_directory
    results: list[SplitResult] = []
    for split, reader, blocks in read_split_blocks(request, splits):
        with name_file_in_errors(split):
            overall_totals, totals_by_producer = _count_batches(blocks)
        producer_rows = [
            [producer_id, *astuple(totals)] for producer_id, totals in totals_by_producer.items()
        ]
        check_result = encode_findings(reader.findings, reader.boundary)
        results.append(
            {"whole": astuple(overall_totals), "producers": producer_rows, **check_result}
        )
    return results


def prepare(context: JobContext) -> JobDirectory:
    """The directory of the job; raises UsageError if it has other results."""
    return open_report_directory(context, JobDefinition("stats", count_split_batches, {}))


def run_job(context: JobContext) -> JobSummary:
    """Write the reports."""
    job_directory: JobDirectory = context.preparation or prepare(context)
    totals_by_partition: dict[tuple[str | None, int | None], BatchTotals] = defaultdict(BatchTotals)
    totals_by_producer: dict[tuple[str | None, int], BatchTotals] = defaultdict(BatchTotals)
    summary = JobSummary()
    for split, result in context.process_inputs(job_directory, summary):
        topic, partition = split.topic_partition
        topic = topic and format_display_name(topic)
        split_totals = BatchTotals(*result.whole)
        if split_totals.batches:
            totals_by_partition[topic, partition].add_totals(split_totals)
        for producer_id, *total_values in result.producers:
            totals_by_producer[topic, producer_id].add_totals(BatchTotals(*total_values))
    topic_rows = _topic_rows(totals_by_partition)
    table_rows = (
        topic_rows,
        _partition_rows(totals_by_partition),
        _producer_rows(totals_by_producer),
    )
    for (table_name, row_type), rows in zip(STATS_ROW_BY_TABLE.items(), table_rows, strict=True):
        with context.open_table_file(table_name, row_type) as table_file:
            table_file.add_rows(rows)
        summary.counts[table_name] = table_file.n_rows
        summary.output_paths.append(table_file.path)
    summary.lines = [_format_topic_line(row) for row in topic_rows]
    summary.count_findings()
    if summary.n_errors:
        summary.counts["errors"] = summary.n_errors
    return summary


def _common_columns(totals: BatchTotals) -> dict[str, Any]:
    """The totals in the rows of topics, partitions and producers."""
    counts = {name: getattr(totals, name) for name in ("batches", "records", "bytes")}
    times = {name: to_microseconds(getattr(totals, name)) for name in ("first_time", "last_time")}
    return {**counts, **times}


def _partition_rows(
    totals_by_partition: dict[tuple[str | None, int | None], BatchTotals],
) -> Iterator[dict[str, Any]]:
    for (topic, partition), totals in sorted(
        totals_by_partition.items(), key=lambda item: _row_sort_key(*item[0])
    ):
        offsets = {name: getattr(totals, name) for name in ("first_offset", "last_offset")}
        yield {"topic": topic, "partition": partition, **offsets, **_common_columns(totals)}


def _row_sort_key(topic: str | None, partition_or_producer: int | None) -> tuple[str, int]:
    return topic or "", -1 if partition_or_producer is None else partition_or_producer


def _topic_rows(
    totals_by_partition: dict[tuple[str | None, int | None], BatchTotals],
) -> list[dict[str, Any]]:
    totals_by_topic: dict[str | None, list[BatchTotals]] = defaultdict(list)
    for (topic, _), totals in totals_by_partition.items():
        totals_by_topic[topic].append(totals)
    rows = []
    for topic, partition_totals in totals_by_topic.items():
        topic_totals = BatchTotals()
        for totals in partition_totals:
            topic_totals.add_totals(totals)
        max_partition_bytes = max(totals.bytes for totals in partition_totals)
        codecs = sorted(name for i, name in enumerate(CODECS) if topic_totals.codecs >> i & 1)
        rows.append(
            {
                "topic": topic,
                "partitions": len(partition_totals),
                "records_per_batch": _round_ratio(topic_totals.records, topic_totals.batches, 1),
                "bytes_per_record": _round_ratio(topic_totals.bytes, topic_totals.records, 1),
                "codecs": ",".join(codecs),
                "skew": _round_ratio(
                    max_partition_bytes * len(partition_totals), topic_totals.bytes, 2
                ),
                **_common_columns(topic_totals),
            }
        )
    return sorted(rows, key=lambda row: (-row["bytes"], row["topic"] or ""))


def _producer_rows(
    totals_by_producer: dict[tuple[str | None, int], BatchTotals],
) -> list[dict[str, Any]]:
    rows = [
        {
            "topic": topic,
            "producer_id": None if producer_id == NO_PRODUCER_ID else producer_id,
            "records_per_batch": _round_ratio(totals.records, totals.batches, 1),
            "bytes_per_batch": _round_ratio(totals.bytes, totals.batches, 1),
            "compressed": _round_ratio(totals.compressed, totals.batches, 3),
            "last_epoch": totals.last_epoch,
            **_common_columns(totals),
        }
        for (topic, producer_id), totals in totals_by_producer.items()
    ]
    return sorted(
        rows, key=lambda row: (-row["bytes"], *_row_sort_key(row["topic"], row["producer_id"]))
    )


def _round_ratio(numerator: int, denominator: int, digits: int) -> float | None:
    return round(numerator / denominator, digits) if denominator else None


def _format_topic_line(row: dict[str, object]) -> str:
    topic = row["topic"] or "(no partition directory)"
    return (
        f"{topic:<28} {row['partitions']:>4} partitions {row['records']:>12} records "
        f"{row['bytes']:>14} bytes  {row['records_per_batch']:>8} per batch  skew {row['skew']}  "
        f"{row['codecs']}"
    )
