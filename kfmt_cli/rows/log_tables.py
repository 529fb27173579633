"""The batches of a block and their records, as tables whose columns are named."""

from __future__ import annotations

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import Table, TableColumn, columns_of


class BatchTable(Table):
    """Batches of any magic, a row each.

    What is shown of a batch is described in `rows/batch.py`. A field that the magic lacks stays 0,
    and is null where it is shown.
    """

    __slots__ = ()

    start = TableColumn()
    """First byte in the block."""
    end = TableColumn()
    """The byte after it in the block."""
    number = TableColumn()
    """Which of the batches of the file it is."""
    file_number = TableColumn()
    """Which of several files it is in."""
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
    """1 where its records could not be decompressed, which has been said."""
    records_position = TableColumn()
    """The byte of the file where its records begin, were they not compressed."""
    record_timestamp = TableColumn()
    """What the timestamps of its records start from."""
    has_delta = TableColumn()
    """1 where the deltas of records are added to that."""
    is_plain = TableColumn()
    """1 where nothing of it has to be completed for outputs."""
    has_sequence = TableColumn()
    """1 where its records have sequence numbers."""
    control_type = TableColumn()
    """The type of its control record, -1 where there is none."""

    @property
    def counted_records(self) -> IntArray:
        """How many records each batch has, by its header. A message of magic 0 or 1 is a batch of
        its own; what a wrapper holds only it knows."""
        counts: IntArray = np.where(self.is_v2 == 1, self.records_count.clip(0), 1)
        return counts

    @property
    def first_times(self) -> IntArray:
        """The timestamp of each batch's first record, by its header; its own in magic 1."""
        base = self.base_timestamp
        times: IntArray = np.where((self.is_v2 == 1) & (base >= 0), base, self.max_timestamp)
        return times


class RecordTable(Table):
    """Records of any magic, a row each: the stored fields of magic 2, and what follows from them.

    What is shown of a record has its meaning in `rows/record.py`.
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
    batch_position = TableColumn()
    has_position = TableColumn()
    position = TableColumn()
    offset = TableColumn()
    has_timestamp = TableColumn()
    timestamp = TableColumn()
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


BATCH_COLUMNS = columns_of(BatchTable)
BATCH_NAMES = {name: column for column, name in enumerate(BATCH_COLUMNS)}
RECORD_COLUMNS = columns_of(RecordTable)
RECORD_NAMES = {name: column for column, name in enumerate(RECORD_COLUMNS)}
