"""The files of an exported partition, before anything is restored of them."""

from __future__ import annotations

import pytest

from kfmt_cli.errors import InputError

pytest.importorskip("pyarrow")

from kfmt_cli.arrow.export.exported_rows import PartitionFile, PartitionRowRange
from kfmt_cli.arrow.restore.restored_partition import ExportedPartition, group_sharing_files


def exported(number: int | None, *paths: str) -> ExportedPartition:
    """A partition with one row in each of some files."""
    span = PartitionRowRange("t", number, 1, 0, 0)
    return ExportedPartition("t", number, [PartitionFile(path, 1, 1, span) for path in paths])


@pytest.mark.parametrize("number", [None, -1])
def test_a_partition_needs_a_number(number: int | None) -> None:
    with pytest.raises(InputError, match=f"^a: {number} is not the number of a partition$"):
        exported(number, "a").check_name()
    exported(0, "a").check_name()


def test_partitions_that_share_files_are_together() -> None:
    every = [exported(i, *paths) for i, paths in enumerate(("a", "ab", "b", "c", "cd"))]
    grouped = [[each.partition for each in group] for group in group_sharing_files(every)]
    assert grouped == [[0, 1, 2], [3, 4]]
