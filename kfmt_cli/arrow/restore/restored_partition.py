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
from kfmt_cli.writers.output import Staging, stage_output
from kfmt_cli.writers.rolling_writer import RollSettings

LOG_DIRECTORY_NAME = "log_dir"


@dataclass(slots=True)
class ExportedPartition:
    """A partition and the exported files with its records and batches."""

    topic: str | None
    partition: int | None
    records: list[PartitionFile] = field(default_factory=list)
    batches: list[PartitionFile] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.topic}-{self.partition}"

    @property
    def n_records(self) -> int:
        """The number of records."""
        return sum(file.row_range.n_rows for file in self.records)

    def iter_rows(self, table: str) -> Iterator[pa.RecordBatch]:
        """The rows of a table in offset order; raises InputError."""
        is_records_table = table == RECORDS_TABLE.name
        record_columns: tuple[str, ...] = BATCHED_RECORD_COLUMNS if self.batches else RECORD_COLUMNS
        columns, files = (
            (record_columns, self.records) if is_records_table else (BATCH_COLUMNS, self.batches)
        )
        for file in sorted(files, key=lambda file: (file.row_range.first_offset, file.path)):
            yield from read_partition_rows(file.path, (self.topic, self.partition), columns, table)

    def check_name(self) -> None:
        """Raise InputError if topic and partition cannot name a directory."""
        error = find_topic_name_error(self.topic or "")
        if error is None and (self.partition is None or self.partition < 0):
            error = f"{self.partition} is not the number of a partition"
        if error is not None:
            raise InputError(f"{self.records[0].path}: {error}")

    def digest(self, codec: int | None) -> str:
        """A digest of the files that the segments are written from, and of the codec.

        The digest is stored, so the digested text must not change: it has the class names of
        1.0.0rc1.
        """
        tables = (
            f"[{', '.join(map(_digest_text, files))}]" for files in (self.records, self.batches)
        )
        text = f"({codec!r}, {', '.join(tables)})"
        return blake2b(text.encode(errors="backslashreplace"), digest_size=12).hexdigest()


def _digest_text(file: PartitionFile) -> str:
    rows = file.row_range
    return (
        f"FileOfPartition(path={file.path!r}, size={file.size!r}, modified={file.modified!r}, "
        f"span=Span(topic={rows.topic!r}, partition={rows.partition!r}, rows={rows.n_rows!r}, "
        f"first={rows.first_offset!r}, last={rows.last_offset!r}))"
    )


def group_by_partition(
    listed_files: Iterable[tuple[FileSplit, str, Iterable[PartitionRowRange]]],
) -> list[ExportedPartition]:
    """The partitions with records. listed_files: files, each with its table and row ranges."""
    partition_by_key: dict[tuple[Any, Any], ExportedPartition] = {}
    for split, table, row_ranges in listed_files:
        for row_range in row_ranges:
            topic_partition = row_range.topic, row_range.partition
            partition = partition_by_key.setdefault(
                topic_partition, ExportedPartition(*topic_partition)
            )
            files = partition.records if table == RECORDS_TABLE.name else partition.batches
            files.append(PartitionFile(split.path, split.size, split.modified, row_range))
    exported_partitions = [exported for exported in partition_by_key.values() if exported.records]
    return sorted(
        exported_partitions, key=lambda exported: (exported.topic or "", exported.partition or 0)
    )


def find_table_files(path: str) -> list[FileSplit] | None:
    """The files of the tables of records and batches at a path; None if it has no table of
    records. Raises InputError."""
    records = find_exported_files(path)
    if not records:
        return None
    record_paths = {file.path for file in records}  # the path may be the table itself
    batches = find_exported_files(path, BATCHES_TABLE.name) or ()
    return [*records, *(file for file in batches if file.path not in record_paths)]


def restore_partition(
    partition: ExportedPartition, output_directory: str, codec: int | None
) -> RestoredCounts:
    """Write the segments of a partition, all or none. Segments that an earlier run has written from
    the same files are kept. Raises InputError, OutputError, UsageError."""
    partition.check_name()
    partition_directory = Path(output_directory) / LOG_DIRECTORY_NAME / partition.name
    marker_path = f"{output_directory}/_kfmt/restored/{partition.name}.json"
    digest = partition.digest(codec)
    marker: dict[str, Any] = read_json_file(marker_path) or {}
    if partition_directory.exists() and marker.get("of") == digest and "counts" in marker:
        return RestoredCounts(**marker["counts"])
    if partition_directory.exists():
        if not marker:
            raise UsageError(f"{partition_directory}: already exists, and kfmt has not restored it")
        rmtree(partition_directory)
    write_json_file(marker_path, {"of": digest})
    roll_settings = RollSettings()
    with stage_output(str(partition_directory)) as staging:
        restorer = restore_segments(partition, staging, "", roll_settings, codec)
        for segments in restorer.writer.logs.values():
            for _ in write_derived_files(staging, "", segments, roll_settings.index_interval_bytes):
                pass
    write_json_file(marker_path, {"of": digest, "counts": asdict(restorer.counts)})
    return restorer.counts


def restore_segments(
    partition: ExportedPartition,
    staging: Staging,
    directory: str,
    roll_settings: RollSettings,
    codec: int | None,
) -> PartitionRestorer:
    """Write the segments of a partition under a directory of a staging; raises InputError,
    OutputError. codec: see `PartitionRestorer`."""
    batches = partition.iter_rows(BATCHES_TABLE.name) if partition.batches else None
    restorer = PartitionRestorer(partition.name, staging, directory, roll_settings, batches, codec)
    restorer.restore(partition.iter_rows(RECORDS_TABLE.name))
    return restorer


def group_sharing_files(
    partitions: Sequence[ExportedPartition],
) -> Iterator[list[ExportedPartition]]:
    """The partitions in order, consecutive ones grouped if their records share files."""
    group: list[ExportedPartition] = []
    for partition in partitions:
        previous_files = {file.path for file in group[-1].records} if group else set()
        if group and not previous_files & {file.path for file in partition.records}:
            yield group
            group = []
        group.append(partition)
    if group:
        yield group
