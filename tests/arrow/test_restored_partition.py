"""The files of an exported partition, before a restore."""

from __future__ import annotations

import io
from pathlib import Path
from typing import NoReturn

import pytest

from kfmt_cli.errors import InputError

pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
from pyarrow import csv

from kfmt_cli.arrow.export.exported_rows import (
    PartitionFile,
    PartitionRowRange,
    read_row_ranges,
)
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
    with pytest.raises(InputError, match=f"^a: {partition} is not a partition number$"):
        exported(partition, "a").require_valid_name()
    exported(0, "a").require_valid_name()


def test_partitions_that_share_files_are_together() -> None:
    partitions = [exported(i, *paths) for i, paths in enumerate(("a", "ab", "b", "c", "cd"))]
    grouped = [
        [member.partition for member in group]
        for group in group_partitions_sharing_files(partitions)
    ]
    assert grouped == [[0, 1, 2], [3, 4]]


class RowsReadError(Exception):
    """The rows of a row group were read."""


def write_rows(path: Path, topic: str) -> None:
    """Write a table with offsets 5 and 7 of partition 3."""
    lines = f"topic,partition,offset\n{topic},3,5\n{topic},3,7\n"
    pq.write_table(csv.read_csv(io.BytesIO(lines.encode())), path)


def test_rows_are_read_only_if_the_statistics_have_no_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer omits the bounds of long values, but not the number of nulls."""

    def refuse_to_read(*_: object) -> NoReturn:
        raise RowsReadError

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", refuse_to_read)
    write_rows(tmp_path / "short.parquet", "t")
    row_ranges = [PartitionRowRange("t", 3, 2, 5, 7)]
    assert read_row_ranges(str(tmp_path / "short.parquet")) == ("records", row_ranges)
    write_rows(tmp_path / "long.parquet", "t" * 5000)
    with pytest.raises(RowsReadError):
        read_row_ranges(str(tmp_path / "long.parquet"))
