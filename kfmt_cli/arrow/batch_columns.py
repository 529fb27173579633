"""Stores the batches of splits as columns in a file, for tasks that compare entire partitions.

A batch takes a few tens of bytes, however large it is. A later task can therefore process all
batches of a partition whose segments were read by many tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kfmt_cli.arrow.intermediate_files import read_intermediate_batches, write_intermediate_file
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.log.block import Block
from kfmt_cli.log.decoding import iter_runs_with_base_offsets
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.offset_order import in_order_mask

BATCH_COLUMNS = (
    *("position", "size", "is_v2", "base_offset", "last_offset", "partition_leader_epoch"),
    *("crc", "crc_valid", "records_count"),
)
_INDEX_BY_COLUMN = {name: i for i, name in enumerate(BATCH_COLUMNS)}
_BATCH_COLUMNS_SCHEMA = pa.schema([(name, pa.int64()) for name in BATCH_COLUMNS])


@dataclass(slots=True)
class _OffsetRangeAccumulator:
    """The offset range of the batches of a split, for its result."""

    offsets: tuple[int, int] | None = None
    """First and last offset; None without batches."""
    has_holes: bool = False
    """Whether compaction has removed records."""

    def add_batches(self, batches: BatchTable) -> None:
        """Extend the range by batches."""
        ordered = batches.select_rows(in_order_mask(batches))
        if not len(ordered):
            return
        first_offset, last_offset = int(ordered.base_offset.min()), int(ordered.last_offset.max())
        previous_offsets = self.offsets or (first_offset, last_offset)
        self.offsets = min(first_offset, previous_offsets[0]), max(last_offset, previous_offsets[1])
        offset_counts = batches.last_offset - batches.base_offset + 1
        self.has_holes |= bool(
            ((batches.is_v2 == 1) & (batches.records_count < offset_counts)).any()
        )


def write_batch_columns(
    request: ReadRequest, splits: Sequence[FileSplit], output_directory: str, file_name: str
) -> list[dict[str, Any]]:
    """Check the batches of splits and write them to a file; see `write_intermediate_file`. A result
    also has the offset range of its split's batches."""
    accumulators: list[_OffsetRangeAccumulator] = []

    def iter_arrow_batches(_: FileSplit, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        accumulators.append(accumulator := _OffsetRangeAccumulator())
        for run in (
            run
            for block in blocks
            for run in iter_runs_with_base_offsets(block, request.decompression_limit)
        ):
            if not len(run.batches):
                continue
            accumulator.add_batches(run.batches)
            columns = [pa.array(run.batches[name]) for name in BATCH_COLUMNS]
            yield pa.RecordBatch.from_arrays(columns, schema=_BATCH_COLUMNS_SCHEMA)

    split_results = write_intermediate_file(
        request, splits, output_directory, file_name, _BATCH_COLUMNS_SCHEMA, iter_arrow_batches
    )
    return [
        {**split_result, **asdict(accumulator)}
        for split_result, accumulator in zip(split_results, accumulators, strict=True)
    ]


def read_batch_columns(path: str, first_batch: int, end_batch: int) -> Iterator[BatchTable]:
    """The batches in a file, in chunks with the columns `BATCH_COLUMNS`; raises InputError.

    first_batch, end_batch: the range of Arrow batches to read, from a result.
    """
    for arrow_batch in read_intermediate_batches(path, first_batch, end_batch):
        column_values = np.array([column.to_numpy() for column in arrow_batch.columns])
        yield BatchTable(_INDEX_BY_COLUMN, column_values)
