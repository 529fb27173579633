"""Restores partitions from the files of an export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa

from kfmt_cli.arrow.export.atomic_files import read_json_file, write_json_file
from kfmt_cli.arrow.export.exported_rows import (
    PartitionFile,
    PartitionRowRange,
    find_exported_files,
    read_partition_rows,
)
from kfmt_cli.arrow.restore.partition_restorer import (
    BATCH_COLUMNS,
    BATCHED_RECORD_COLUMNS,
    RECORD_COLUMNS,
    PartitionRestorer,
    RestoredCounts,
)
from kfmt_cli.disk.file_names import find_topic_name_error
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.rows.table_types import BATCHES_TABLE, RECORDS_TABLE
from kfmt_cli.writers.derived_files import write_derived_files
from kfmt_cli.writers.output import StagingDirectory, open_staging_directory
from kfmt_cli.writers.rolling_writer import RollSettings

LOG_DIRECTORY_NAME = "log_dir"


@dataclass(slots=True)
class ExportedPartition:
    """A partition and the exported files with its records and batches."""

    topic: str | None
    partition: int | None
    record_files: list[PartitionFile] = field(default_factory=list)
    batch_files: list[PartitionFile] = field(default_factory=list)

    @property
    def directory_name(self) -> str:
        """The name of its directory."""
        return f"{self.topic}-{self.partition}"

    @property
    def n_records(self) -> int:
        """The number of records."""
        return sum(file.row_range.n_rows for file in self.record_files)

    def iter_rows(self, table_name: str) -> Iterator[pa.RecordBatch]:
        """The rows of a table in offset order; raises InputError."""
        is_records_table = table_name == RECORDS_TABLE.name
        record_columns: tuple[str, ...] = (
            BATCHED_RECORD_COLUMNS if self.batch_files else RECORD_COLUMNS
        )
        column_names, files = (
            (record_columns, self.record_files)
            if is_records_table
            else (BATCH_COLUMNS, self.batch_files)
        )
        for file in sorted(files, key=lambda file: (file.row_range.first_offset, file.path)):
            yield from read_partition_rows(
                file.path, (self.topic, self.partition), column_names, table_name
            )

    def require_valid_name(self) -> None:
        """Raise InputError if topic and partition cannot name a directory."""
        name_error = find_topic_name_error(self.topic or "")
        if name_error is None and (self.partition is None or self.partition < 0):
            name_error = f"{self.partition} is not a partition number"
        if name_error is not None:
            raise InputError(f"{self.record_files[0].path}: {name_error}")

    def source_digest(self, codec_number: int | None) -> str:
        """A digest of the files that the segments are written from, and of the codec.

        The digest is stored, so the digested text must not change: it has the class names of
        1.0.0rc1.
        """
        file_list_texts = (
            f"[{', '.join(map(_digest_text, files))}]"
            for files in (self.record_files, self.batch_files)
        )
        digested_text = f"({codec_number!r}, {', '.join(file_list_texts)})"
        return blake2b(digested_text.encode(errors="backslashreplace"), digest_size=12).hexdigest()


def _digest_text(partition_file: PartitionFile) -> str:
    row_range = partition_file.row_range
    return (
        f"FileOfPartition(path={partition_file.path!r}, size={partition_file.file_bytes!r}, "
        f"modified={partition_file.modified_ns!r}, "
        f"span=Span(topic={row_range.topic!r}, partition={row_range.partition!r}, "
        f"rows={row_range.n_rows!r}, "
        f"first={row_range.first_offset!r}, last={row_range.last_offset!r}))"
    )


def group_files_by_partition(
    listed_files: Iterable[tuple[FileSplit, str, Iterable[PartitionRowRange]]],
) -> list[ExportedPartition]:
    """The partitions with records. listed_files: files, each with its table and row ranges."""
    partition_by_key: dict[tuple[Any, Any], ExportedPartition] = {}
    for split, table_name, row_ranges in listed_files:
        for row_range in row_ranges:
            topic_partition = row_range.topic, row_range.partition
            partition = partition_by_key.setdefault(
                topic_partition, ExportedPartition(*topic_partition)
            )
            partition_files = (
                partition.record_files
                if table_name == RECORDS_TABLE.name
                else partition.batch_files
            )
            partition_files.append(
                PartitionFile(split.path, split.file_size, split.modified_ns, row_range)
            )
    exported_partitions = [
        exported_partition
        for exported_partition in partition_by_key.values()
        if exported_partition.record_files
    ]
    return sorted(
        exported_partitions, key=lambda exported: (exported.topic or "", exported.partition or 0)
    )


def find_table_files(path: str) -> list[FileSplit] | None:
    """The files of the tables of records and batches at a path; None if it has no table of
    records. Raises InputError."""
    record_files = find_exported_files(path)
    if not record_files:
        return None
    record_paths = {file.path for file in record_files}  # the path may be the table itself
    batch_files = find_exported_files(path, BATCHES_TABLE.name) or ()
    return [*record_files, *(file for file in batch_files if file.path not in record_paths)]


def restore_partition(
    partition: ExportedPartition, output_directory: str, codec_number: int | None
) -> RestoredCounts:
    """Write the segments of a partition, all or none. Segments that an earlier run has written from
    the same files are kept. Raises InputError, OutputError, UsageError."""
    partition.require_valid_name()
    partition_directory = Path(output_directory) / LOG_DIRECTORY_NAME / partition.directory_name
    marker_path = f"{output_directory}/_kfmt/restored/{partition.directory_name}.json"
    source_digest = partition.source_digest(codec_number)
    stored_marker: dict[str, Any] = read_json_file(marker_path) or {}
    if (
        partition_directory.exists()
        and stored_marker.get("of") == source_digest
        and "counts" in stored_marker
    ):
        return RestoredCounts(**stored_marker["counts"])
    if partition_directory.exists():
        if not stored_marker:
            raise UsageError(f"{partition_directory}: already exists, and kfmt has not restored it")
        rmtree(partition_directory)
    write_json_file(marker_path, {"of": source_digest})
    roll_settings = RollSettings()
    inputs = [partition.record_files[0].path]
    with open_staging_directory(str(partition_directory), inputs=inputs) as staging:
        restorer = restore_segments(partition, staging, "", roll_settings, codec_number)
        for segments in restorer.rolling_writer.segments_by_directory.values():
            for _ in write_derived_files(staging, "", segments, roll_settings.index_interval_bytes):
                pass
    write_json_file(marker_path, {"of": source_digest, "counts": asdict(restorer.restored_counts)})
    return restorer.restored_counts


def restore_segments(
    partition: ExportedPartition,
    staging: StagingDirectory,
    directory: str,
    roll_settings: RollSettings,
    codec_number: int | None,
) -> PartitionRestorer:
    """Write the segments of a partition under a staging directory; raises InputError, OutputError.
    codec_number: see `PartitionRestorer`."""
    batch_rows = partition.iter_rows(BATCHES_TABLE.name) if partition.batch_files else None
    restorer = PartitionRestorer(
        partition.directory_name, staging, directory, roll_settings, batch_rows, codec_number
    )
    restorer.restore_records(partition.iter_rows(RECORDS_TABLE.name))
    return restorer


def group_partitions_sharing_files(
    partitions: Sequence[ExportedPartition],
) -> Iterator[list[ExportedPartition]]:
    """The partitions in order, consecutive ones grouped if their records share files."""
    partition_group: list[ExportedPartition] = []
    for partition in partitions:
        previous_paths = (
            {file.path for file in partition_group[-1].record_files} if partition_group else set()
        )
        if partition_group and not previous_paths & {file.path for file in partition.record_files}:
            yield partition_group
            partition_group = []
        partition_group.append(partition)
    if partition_group:
        yield partition_group
