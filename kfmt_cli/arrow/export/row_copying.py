"""Copies the rows of retained inputs from the files of an earlier export to new ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kfmt_cli.arrow.export.atomic_files import open_atomic
from kfmt_cli.arrow.export.file_formats import FILE_FORMATS
from kfmt_cli.arrow.export.lake_options import ExportedFile
from kfmt_cli.disk.file_access import open_binary
from kfmt_cli.rows.table_types import has_records


@dataclass(frozen=True, slots=True)
class RetainedSplit:
    """A split whose rows are retained."""

    new_split_index: int
    """The split's new index in the file group."""
    end_offset: int | None = None
    """Retain only the rows before the first one at or above this offset; None retains all."""


def copy_retained_rows(
    source_file: ExportedFile,
    retained_splits: Mapping[int, RetainedSplit],
    source_path: str,
    output_directory: str,
    file_name: str,
    format_name: str,
) -> ExportedFile | None:
    """Copy the rows of retained splits of a file to a new file; returns None, and writes nothing,
    if the file has no such rows. Raises InputError, OSError, OutputError.

    source_file: the file. retained_splits: the splits to retain, by their index in the file.
    source_path: the path of the file. output_directory, file_name: directory and name of the new
    file.
    """
    copied_file, file_format = ExportedFile(file_name, source_file.table), FILE_FORMATS[format_name]
    offset_column = "offset" if has_records(source_file.table) else "last_offset"
    retained_ranges: list[tuple[int, int]] = []
    range_start = 0
    with open_binary(source_path) as source_stream:
        for split_index, range_length, n_rows in source_file.spans:
            retained_split = (
                RetainedSplit(split_index) if split_index < 0 else retained_splits.get(split_index)
            )
            if retained_split is not None:
                copied_length_and_rows = range_length, n_rows
                if retained_split.end_offset is not None:
                    copied_length_and_rows = file_format.measure_rows_below(
                        source_stream,
                        (range_start, range_start + range_length),
                        retained_split.end_offset,
                        offset_column,
                    )
                retained_ranges.append((range_start, range_start + copied_length_and_rows[0]))
                copied_file.add_span(retained_split.new_split_index, *copied_length_and_rows)
            range_start += range_length
        if not copied_file.rows:
            return None
        with open_atomic(f"{output_directory}/{file_name}") as output_stream:
            file_format.copy_ranges(source_stream, output_stream, retained_ranges)
            copied_file.bytes = output_stream.tell()
    return copied_file
