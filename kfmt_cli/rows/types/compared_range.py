"""The rows of `pipeline compare`."""

from __future__ import annotations

import enum

from kfmt_cli.rows.column import Column, ColumnKind, RowType, number, text


class RangeStatus(enum.Enum):
    """How two copies of a partition compare in a range of offsets."""

    IDENTICAL = "identical"
    EXPLAINED = "explained"
    MISSING = "missing"
    DIFFERS = "differs"


COMPARED_RANGE = RowType(
    "compared_range",
    "A range of offsets with the same relation between two copies of a partition, A and B.",
    (
        Column("topic", ColumnKind.TEXT, "Topic of A, or of B if A has no such partition."),
        Column("partition", doc="Partition.", bits=32),
        Column(
            "status",
            ColumnKind.TEXT,
            "identical; explained, by compaction or retention; missing, on one side; differs.",
        ),
        text("relation", "identical, compacted, diverged, damaged, only in A, only in B."),
        number("first_offset", "The first offset."),
        number("last_offset", "The last offset."),
        number("a_batches", "Batches of A; null for a table without batches."),
        number("b_batches", "Batches of B; null for a table without batches."),
        text("why", "The reason, or what differs; null for identical ranges."),
        text("a", "Directory or table of A; null if A has no such partition."),
        text("b", "Directory or table of B; null if B has no such partition."),
    ),
)
