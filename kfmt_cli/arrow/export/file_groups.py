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

    files: list[ExportedFile] = field(default_factory=list)
    results_by_table: dict[str, list[SplitReadResult]] = field(default_factory=dict)
    """The result for each split, by table."""

    def split_exports(self) -> Iterator[SplitExport]:
        """The result for each split, over all tables."""
        for results in zip(*self.results_by_table.values(), strict=True):
            n_rows_by_table = {
                table: result.n_rows
                for table, result in zip(self.results_by_table, results, strict=True)
            }
            result_with_most_findings = max(results, key=lambda result: len(result.findings))
            offsets = results[0].first_offset, results[0].last_offset
            yield SplitExport(
                n_rows_by_table, offsets, result_with_most_findings.findings, results[-1].boundary
            )


@dataclass(slots=True)
class SplitExport:
    """The result of exporting a split."""

    n_rows_by_table: dict[str, int]
    offsets: tuple[int | None, int | None]
    """First and last offset of the rows."""
    findings: list[Finding]
    boundary: SplitBoundary | None


def export_file_group(
    request: ReadRequest,
    splits: Sequence[FileSplit],
    output_directory: str,
    options: LakeOptions,
    name_salt: str = "",
) -> FileGroupExport:
    """Write the tables of a file group under a directory; raises OutputError, SplitError.

    name_salt: a text that makes the file names differ from those of other exports of these splits.
    """
    result = FileGroupExport()
    base_name = _base_name(splits, name_salt)
    file_format = FILE_FORMATS[options.format]
    for table in options.tables_for(splits):
        results = result.results_by_table[table] = [SplitReadResult() for _ in splits]
        writer = TableFilesWriter(output_directory, table, options, base_name, file_format.suffix)
        with mount_split_files(request, splits), writer as files:
            file_format.write_splits(files, request, splits, results)
        result.files += files.finished_files
    return result


def _base_name(splits: Sequence[FileSplit], name_salt: str) -> str:
    """The file name of a group without its suffix: the start of the first split, and a hash of all.

    It does not begin with _ or ., as Spark, Hive and Trino treat such files as hidden.
    """
    first_split = splits[0]
    topic, partition = first_split.topic_partition
    quoted_topic = "" if topic is None else quote(os.fsencode(topic)[:60], safe="").lstrip("_.")
    partition_prefix = "" if topic is None else f"{quoted_topic}-{partition}-"
    name_hash = blake2b(name_salt.encode(), digest_size=6)
    for split in splits:
        identity = (split.path, split.start, split.end, split.size, split.modified)
        name_hash.update(repr(identity).encode(errors="backslashreplace"))
    return (
        f"{partition_prefix}{first_split.base:020}-{first_split.start:012}-{name_hash.hexdigest()}"
    )
