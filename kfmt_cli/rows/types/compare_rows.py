"""The rows of `pipeline compare`."""

from __future__ import annotations

import enum

from kfmt_cli.rows.column import Column, ColumnKind, RowType, number_column, text_column


class RangeStatus(enum.Enum):
    """How two copies of a partition compare in a range of offsets."""

    IDENTICAL = "identical"
    EXPLAINED = "explained"
    MISSING = "missing"
    DIFFERS = "differs"


COMPARED_RANGE_ROW = RowType(
    "compared_range",
    "A range of offsets with the same relation between two copies of a partition, A and B.",
    (
        Column("topic", ColumnKind.TEXT, "Topic of A, or of B if A has no such partition."),
        Column("partition", doc="Partition.", n_bits=32),
        Column(
            "status",
            ColumnKind.TEXT,
            "identical; explained, by compaction or retention; missing, on one side; differs.",
        ),
        text_column("relation", "identical, compacted, diverged, damaged, only in A, only in B."),
        number_column("first_offset", "The first offset."),
        number_column("last_offset", "The last offset."),
        number_column("a_batches", "Batches of A; null for a table without batches."),
        number_column("b_batches", "Batches of B; null for a table without batches."),
        text_column("why", "The reason, or what differs; null for identical ranges."),
        text_column("a", "Directory or table of A; null if A has no such partition."),
        text_column("b", "Directory or table of B; null if B has no such partition."),
    ),
)
