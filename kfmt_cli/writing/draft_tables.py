"""Tables of batches to write, with named columns."""

from __future__ import annotations

from kfmt_cli.core.native.table import Table, TableColumn


class DraftTable(Table):
    """Header fields of batches of any magic that do not follow from their records."""

    __slots__ = ()

    magic = TableColumn()
    base_offset = TableColumn()
    partition_leader_epoch = TableColumn()
    attributes = TableColumn()
    last_offset_delta = TableColumn()
    base_timestamp = TableColumn()
    max_timestamp = TableColumn()
    producer_id = TableColumn()
    producer_epoch = TableColumn()
    base_sequence = TableColumn()


class PlanTable(DraftTable):
    """Drafts of growing batches, with values from their lines."""

    __slots__ = ()

    number = TableColumn()
    max_given = TableColumn()
    declared = TableColumn()
