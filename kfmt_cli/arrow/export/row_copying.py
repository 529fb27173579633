"""Copies the rows of retained inputs from the files of an earlier export to new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kfmt_cli.arrow.export.atomic_files import open_atomic
from kfmt_cli.arrow.export.file_formats import FILE_FORMATS
from kfmt_cli.arrow.export.lake_options import ExportedFile
from kfmt_cli.disk.file_access import open_binary
from kfmt_cli.rows.table_types import has_records

Measured = tuple[int, int]
"""The length of the beginning of a range, in rows or bytes, and its number of rows."""


@dataclass(slots=True)
class RetainedSplit:
    """A split whose rows are retained."""

    new_split_index: int
    """The split's new index in the file group."""
    removed_intervals: Sequence[tuple[int, int]] = ()
    """The offsets of the rows that are not retained, in order."""
    truncated_from: int | None = None
    """The offset from which removed rows are counted."""
    n_truncated_rows: int = 0
    """The number of these rows."""


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
    offset_column = _offset_column(source_file)
    retained_ranges: list[tuple[int, int]] = []
    range_start = 0
    with open_binary(source_path) as source_stream:
        for split_index, range_length, n_rows in source_file.spans:
            retained_split = (
                RetainedSplit(split_index) if split_index < 0 else retained_splits.get(split_index)
            )
            if retained_split is not None and not retained_split.removed_intervals:
                retained_ranges.append((range_start, range_start + range_length))
                copied_file.add_span(retained_split.new_split_index, range_length, n_rows)
            elif retained_split is not None:
                measured_range = range_start, range_start + range_length

                def measure_below(
                    end_offset: int, measured_range: tuple[int, int] = measured_range
                ) -> Measured:
                    return file_format.measure_rows_below(
                        source_stream, measured_range, end_offset, offset_column
                    )

                for (start, first_row), (end, end_row) in _iter_retained_ranges(
                    retained_split, measure_below, (range_length, n_rows)
                ):
                    retained_ranges.append((range_start + start, range_start + end))
                    copied_file.add_span(
                        retained_split.new_split_index, end - start, end_row - first_row
                    )
            range_start += range_length
        if not copied_file.rows:
            return None
        with open_atomic(f"{output_directory}/{file_name}") as output_stream:
            file_format.copy_ranges(source_stream, output_stream, retained_ranges)
            copied_file.bytes = output_stream.tell()
    return copied_file


def count_rows_from(
    source_file: ExportedFile,
    first_offset_by_split: Mapping[int, int],
    source_path: str,
    format_name: str,
) -> int:
    """The number of rows of splits in a file from an offset of each onward; raises InputError,
    OSError. Arguments: see `copy_retained_rows`."""
    measure_rows_below, n_rows_from = FILE_FORMATS[format_name].measure_rows_below, 0
    range_start = 0
    with open_binary(source_path) as source_stream:
        for split_index, range_length, n_rows in source_file.spans:
            if (first_offset := first_offset_by_split.get(split_index)) is not None:
                row_range = range_start, range_start + range_length
                offset_column = _offset_column(source_file)
                n_rows_from += (
                    n_rows
                    - measure_rows_below(source_stream, row_range, first_offset, offset_column)[1]
                )
            range_start += range_length
    return n_rows_from


def _offset_column(file: ExportedFile) -> str:
    return "offset" if has_records(file.table) else "last_offset"


def _iter_retained_ranges(
    retained_split: RetainedSplit,
    measure_below: Callable[[int], Measured],
    range_end: Measured,
) -> Iterator[tuple[Measured, Measured]]:
    """The start and end of the parts of a range that are retained. measure_below: measures the rows
    before the first one at or above an offset."""
    start = 0, 0
    for first_offset, last_offset in retained_split.removed_intervals:
        end = measure_below(first_offset)
        if end[0] > start[0]:
            yield start, end
        start = max(end, measure_below(last_offset + 1))
        if retained_split.truncated_from is not None:
            counted_from = max(first_offset, retained_split.truncated_from)
            n_rows_before = max(end[1], measure_below(counted_from)[1])
            retained_split.n_truncated_rows += max(start[1] - n_rows_before, 0)
    if range_end[0] > start[0]:
        yield start, range_end
