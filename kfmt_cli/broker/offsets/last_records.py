"""The offset at which the last records of a partition begin."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from kfmt_cli.broker.offsets.seek import read_blocks_from
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.log.block import slice_block, split_runs, undamaged_data_block
from kfmt_cli.log.derived_columns import read_complete_records
from kfmt_cli.log.selection.selection import Selection


def read_last_records_offset(
    logs: Sequence[InputFile],
    n_records: int,
    selection: Selection,
    decompression_limit: DecompressionLimit,
) -> int:
    """The offset of the first of the last `n_records` selected records, without markers; raises
    InputError.

    logs: a partition's logs in base offset order.
    """
    if selection:
        return _last_selected_records_offset(
            selection.select_logs(logs), n_records, selection, decompression_limit
        )
    first_offset = 0
    for log in reversed(logs):
        for batch_columns in reversed(_read_batch_columns(log)):
            for batch_position, base_offset, n_batch_records in reversed(batch_columns.T.tolist()):
                if 0 <= n_batch_records < n_records:
                    n_records, first_offset = n_records - n_batch_records, base_offset
                    continue
                record_offsets = _read_record_offsets(log, batch_position, decompression_limit)
                if len(record_offsets) >= n_records:
                    return record_offsets[-n_records]
                n_records = n_records - len(record_offsets)
                first_offset = min([base_offset, *record_offsets[:1]])
    return first_offset


def _last_selected_records_offset(
    logs: Sequence[InputFile],
    n_records: int,
    selection: Selection,
    decompression_limit: DecompressionLimit,
) -> int:
    """The same offset, found by reading the records; 0 if none is selected."""
    last_offsets: list[int] = []
    for log in reversed(logs):
        log_offsets: deque[int] = deque(maxlen=n_records - len(last_offsets))
        for block in map(undamaged_data_block, read_blocks_from(log, read_ahead=True)):
            for run, records in selection.iter_candidate_runs(block, decompression_limit):
                log_offsets.extend(
                    records.rows.offset[selection.record_mask(run, records)].tolist()
                )
        last_offsets = sorted([*log_offsets, *last_offsets])
        if len(last_offsets) == n_records:
            break
    return last_offsets[0] if last_offsets else 0


def _read_batch_columns(log: InputFile) -> list[IntArray]:
    """Position, base offset and record count of a log's undamaged batches, block by block; the
    record count of a wrapper, which is not in its header, is -1."""
    block_columns = []
    for block in map(undamaged_data_block, read_blocks_from(log, read_ahead=True)):
        batches = block.batches
        legacy_record_counts = np.where(batches.compression == 0, 1, -1)
        record_counts = np.where(
            batches.is_v2 == 1, batches.records_count.clip(0), legacy_record_counts
        )
        block_columns.append(np.stack([batches.position, batches.base_offset, record_counts]))
    return block_columns


def _read_record_offsets(
    log: InputFile, batch_position: int, decompression_limit: DecompressionLimit
) -> list[int]:
    """The sorted offsets of the records in the batch at a byte."""
    block = next(read_blocks_from(log, batch_position))
    record_offsets: list[int] = []
    for run in split_runs(slice_block(block, 0, 1)):
        records = read_complete_records(run, decompression_limit)
        record_offsets += np.sort(records.rows.offset).tolist()
    return record_offsets
