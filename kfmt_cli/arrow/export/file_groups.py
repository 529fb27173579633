"""Exports file groups: splits whose rows share output files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from urllib.parse import quote

from kfmt_cli.arrow.columns.tables import SplitReadResult
from kfmt_cli.arrow.export.file_formats import FILE_FORMATS
from kfmt_cli.arrow.export.lake_options import ExportedFile, LakeOptions, TableFilesWriter
from kfmt_cli.arrow.input_files import mount_split_files
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.execution.split_reader import SplitBoundary
from kfmt_cli.findings.finding import Finding


@dataclass(slots=True)
class FileGroupExport:
    """The result of exporting a file group."""

    exported_files: list[ExportedFile] = field(default_factory=list)
    results_by_table: dict[str, list[SplitReadResult]] = field(default_factory=dict)
    """The result for each split, by table."""

    def iter_split_exports(self) -> Iterator[SplitExport]:
        """The result for each split, over all tables."""
        for split_results in zip(*self.results_by_table.values(), strict=True):
            n_rows_by_table = {
                table: split_result.n_rows
                for table, split_result in zip(self.results_by_table, split_results, strict=True)
            }
            result_with_most_findings = max(split_results, key=lambda result: len(result.findings))
            offset_bounds = split_results[0].first_offset, split_results[0].last_offset
            yield SplitExport(
                n_rows_by_table,
                offset_bounds,
                result_with_most_findings.findings,
                split_results[-1].boundary,
                max(split_result.latest_epoch for split_result in split_results),
            )


@dataclass(slots=True)
class SplitExport:
    """The result of exporting a split."""

    n_rows_by_table: dict[str, int]
    offset_bounds: tuple[int | None, int | None]
    """First and last offset of the rows."""
    findings: list[Finding]
    boundary: SplitBoundary | None
    latest_epoch: int = -1
    """The latest leader epoch of the rows; -1 if it is unknown."""


def export_file_group(
    request: ReadRequest,
    splits: Sequence[FileSplit],
    output_directory: str,
    lake_options: LakeOptions,
    name_salt: str = "",
) -> FileGroupExport:
    """Write the tables of a file group under a directory; raises OutputError, SplitError.

    name_salt: a text that makes the file names differ from those of other exports of these splits.
    """
    group_export = FileGroupExport()
    base_name = _group_base_name(splits, name_salt)
    file_format = FILE_FORMATS[lake_options.format_name]
    for table in lake_options.tables_of_group(splits):
        split_results = group_export.results_by_table[table] = [SplitReadResult() for _ in splits]
        table_files_writer = TableFilesWriter(
            output_directory, table, lake_options, base_name, file_format.file_suffix
        )
        with mount_split_files(request, splits), table_files_writer as table_files:
            file_format.write_splits(table_files, request, splits, split_results)
        group_export.exported_files += table_files.finished_files
    return group_export


def _group_base_name(splits: Sequence[FileSplit], name_salt: str) -> str:
    """The file name of a group without its suffix: the start of the first split, and a hash of all.

    It does not begin with _ or ., as Spark, Hive and Trino treat such files as hidden.
    """
    first_split = splits[0]
    topic, partition = first_split.topic_partition
    quoted_topic = "" if topic is None else quote(os.fsencode(topic)[:60], safe="").lstrip("_.")
    partition_prefix = "" if topic is None else f"{quoted_topic}-{partition}-"
    name_hash = blake2b(name_salt.encode(), digest_size=6)
    for split in splits:
        split_identity = (split.path, split.start, split.end, split.file_size, split.modified_ns)
        name_hash.update(repr(split_identity).encode(errors="backslashreplace"))
    position_text = f"{first_split.base_offset_or_zero:020}-{first_split.start:012}"
    return f"{partition_prefix}{position_text}-{name_hash.hexdigest()}"
