"""The files of an exported partition, before a restore."""

from __future__ import annotations

import pytest

from kfmt_cli.errors import InputError

pytest.importorskip("pyarrow")

from kfmt_cli.arrow.export.exported_rows import PartitionFile, PartitionRowRange
from kfmt_cli.arrow.restore.restored_partition import (
    ExportedPartition,
    group_partitions_sharing_files,
)


def exported(partition: int | None, *paths: str) -> ExportedPartition:
    """A partition with one row in each of some files."""
    row_range = PartitionRowRange("t", partition, 1, 0, 0)
    return ExportedPartition(
        "t", partition, [PartitionFile(path, 1, 1, row_range) for path in paths]
    )


@pytest.mark.parametrize("partition", [None, -1])
def test_a_partition_needs_a_number(partition: int | None) -> None:
    with pytest.raises(InputError, match=f"^a: {partition} is not the number of a partition$"):
        exported(partition, "a").require_valid_name()
    exported(0, "a").require_valid_name()


def test_partitions_that_share_files_are_together() -> None:
    partitions = [exported(i, *paths) for i, paths in enumerate(("a", "ab", "b", "c", "cd"))]
    grouped = [
        [member.partition for member in group]
        for group in group_partitions_sharing_files(partitions)
    ]
    assert grouped == [[0, 1, 2], [3, 4]]
