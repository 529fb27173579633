"""The batches of a block, their records and the entries of files next to a log, as tables with
named columns."""

from __future__ import annotations

from itertools import islice

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import Table, TableColumn


class BatchTable(Table):
    """Batches of any magic, one per row.

    `rows/types/batch.py` describes the columns shown. Fields that the magic lacks are 0 here and
    null in the output.
    """

    __slots__ = ()

    start = TableColumn()
    """First byte in the block."""
    end = TableColumn()
    """The byte after its last byte in the block."""
    number = TableColumn()
    """The number of the batch in the file."""
    file_number = TableColumn()
    """The number of its file, if there are several."""
    position = TableColumn()
    size = TableColumn()
    magic = TableColumn()
    has_base_offset = TableColumn()
    base_offset = TableColumn()
    last_offset = TableColumn()
    batch_length = TableColumn()
    is_v2 = TableColumn()
    partition_leader_epoch = TableColumn()
    crc = TableColumn()
    crc_valid = TableColumn()
    crc_computed = TableColumn()
    attributes = TableColumn()
    compression = TableColumn()
    timestamp_type = TableColumn()
    transactional = TableColumn()
    control = TableColumn()
    delete_horizon = TableColumn()
    last_offset_delta = TableColumn()
    base_timestamp = TableColumn()
    has_timestamp = TableColumn()
    max_timestamp = TableColumn()
    producer_id = TableColumn()
    producer_epoch = TableColumn()
    base_sequence = TableColumn()
    last_sequence = TableColumn()
    records_count = TableColumn()
    unreadable = TableColumn()
    """1 if its records could not be decompressed, which a finding reports."""
    records_position = TableColumn()
    """The byte of the file where its records would begin if they were not compressed."""
    record_timestamp = TableColumn()
    """The timestamp that its records' deltas are relative to."""
    has_delta = TableColumn()
    """1 if its records' deltas are added to `record_timestamp`."""
    is_plain = TableColumn()
    """1 if outputs need not complete any of its fields."""
    has_sequence = TableColumn()
    """1 if its records have sequence numbers."""
    control_type = TableColumn()
    """The type of its control record, -1 if it has none."""

    @property
    def record_counts(self) -> IntArray:
        """Number of records in each batch, from its header. A message of magic 0 or 1 counts as
        one; the number inside a wrapper is in the wrapper only."""
        counts: IntArray = np.where(self.is_v2 == 1, np.maximum(self.records_count, 0), 1)
        return counts

    @property
    def first_timestamps(self) -> IntArray:
        """The timestamp of each batch's first record, from its header; in magic 1, the message's
        own. With LogAppendTime, all records have the batch's timestamp."""
        base_timestamps = self.base_timestamp
        first_timestamp_mask = (
            (self.is_v2 == 1) & (base_timestamps >= 0) & (self.timestamp_type != 1)
        )
        timestamps: IntArray = np.where(first_timestamp_mask, base_timestamps, self.max_timestamp)
        return timestamps


class RecordTable(Table):
    """Records of any magic, one per row: the stored fields of magic 2, the batch values that every
    reader needs, and, from `batch_position` onward, values that only outputs need.

    `rows/types/record.py` describes the columns shown.
    """

    __slots__ = ()

    at = TableColumn()
    length = TableColumn()
    attributes = TableColumn()
    timestamp_delta = TableColumn()
    offset_delta = TableColumn()
    key = TableColumn()
    key_size = TableColumn()
    value = TableColumn()
    value_size = TableColumn()
    headers = TableColumn()
    headers_first = TableColumn()
    offset = TableColumn()
    has_timestamp = TableColumn()
    timestamp = TableColumn()
    batch_position = TableColumn()
    has_position = TableColumn()
    position = TableColumn()
    timestamp_type = TableColumn()
    is_v2 = TableColumn()
    sequence = TableColumn()
    control = TableColumn()
    control_type = TableColumn()
    control_version = TableColumn()
    has_marker = TableColumn()
    coordinator_epoch = TableColumn()
    has_control_data = TableColumn()
    control_data = TableColumn()
    control_data_size = TableColumn()
    file_number = TableColumn()


class EntryTable(Table):
    """The entries of an index or a producer snapshot; each kind of file has some of the columns."""

    __slots__ = ()

    position = TableColumn()
    """The entry's byte in its file."""
    relative_offset = TableColumn()
    offset = TableColumn()
    log_position = TableColumn()
    timestamp = TableColumn()
    version = TableColumn()
    producer_id = TableColumn()
    first_offset = TableColumn()
    last_offset = TableColumn()
    last_stable_offset = TableColumn()
    current_txn_first_offset = TableColumn()


BATCH_COLUMNS = BatchTable.declared_columns
BATCH_COLUMN_INDEX = {name: column for column, name in enumerate(BATCH_COLUMNS)}
RECORD_COLUMNS = RecordTable.declared_columns
RECORD_COLUMN_INDEX = {name: column for column, name in enumerate(RECORD_COLUMNS)}
READ_COLUMN_INDEX = dict(islice(RECORD_COLUMN_INDEX.items(), RECORD_COLUMN_INDEX["batch_position"]))
"""The columns that readers fill; only outputs need the others."""
