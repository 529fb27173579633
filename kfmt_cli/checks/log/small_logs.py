"""Check many small logs as one: their bytes joined, walked, checked and decoded in single calls.

Only healthy files pass. `checks/log/checker.py` checks every other file again, and reports what is
wrong and where.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kfmt_cli.checks.base import LogCheck, Scope
from kfmt_cli.checks.log.checker import LogCheckResult
from kfmt_cli.checks.log.headers import ChecksumCheck, HeaderCheck, invalid_header_mask
from kfmt_cli.checks.log.offset_range import OffsetRange
from kfmt_cli.checks.registry import load_check_classes
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.parallel import group_small_items
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block
from kfmt_cli.log.decoding import read_lazy_records
from kfmt_cli.log.decompression import decompress_ahead
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.log.small_logs import SmallLogs, can_read_in_group, read_small_logs

UNKNOWN_OFFSET = -1
SMALL_LOG_MAGIC = 2  # all batches of files that pass have this magic
_BULK_CHECK_CLASSES = (ChecksumCheck, HeaderCheck)  # `_invalid_batch_mask` applies their rules


def group_small_logs(files: Iterable[InputFile]) -> Iterator[list[InputFile]]:
    """The files in order, small ones in groups, each other one as a group of its own."""
    return group_small_items(
        files, lambda file: file_size(file) if can_read_in_group(file) else None
    )


def read_checked_logs(files: Sequence[InputFile]) -> SmallLogs:
    """Read small logs, and check their headers and checksums."""
    small_logs = read_small_logs(files)
    small_logs.is_valid[small_logs.file_of_batch[_invalid_batch_mask(small_logs)]] = False
    if _non_bulk_check_classes(Scope.HEADERS):
        small_logs.mark_files_invalid(
            _iter_batch_findings(
                Block("", small_logs.data, 0, small_logs.batches), None, Scope.HEADERS
            )
        )
        _check_each_file(small_logs, Scope.HEADERS, None)
    return small_logs


def check_small_logs(
    small_logs: SmallLogs, deep: bool, limit: DecompressionLimit
) -> list[LogCheckResult | None]:
    """The result for each file in `small_logs`, None for one that must be checked by itself."""
    file_of_batch, files = small_logs.file_of_batch, small_logs.files
    if deep:
        mark_invalid_records(small_logs, limit)
    offset_ranges = list(_iter_offset_ranges(small_logs))
    batch_counts = np.bincount(file_of_batch, minlength=len(files)).tolist()
    batch_record_counts = small_logs.batches.records_count
    file_record_counts = (
        np.bincount(file_of_batch, batch_record_counts, len(files)).astype(np.int64).tolist()
    )
    return [
        LogCheckResult(log_size, batch_counts[i], file_record_counts[i], offset_ranges[i])
        if small_logs.is_valid[i]
        else None
        for i, log_size in enumerate(small_logs.sizes.tolist())
    ]


def _invalid_batch_mask(small_logs: SmallLogs) -> BoolArray:
    """Which batches do not have magic 2, or have an invalid header or checksum."""
    batches, file_of_batch = small_logs.batches, small_logs.file_of_batch
    batch_base_offsets, batch_last_offsets = batches.base_offset, batches.last_offset
    previous_last_offsets = np.where(
        np.diff(file_of_batch, prepend=-1) != 0,
        batch_base_offsets - 1,
        np.roll(batch_last_offsets, 1),
    )
    file_base_offsets = (
        UNKNOWN_OFFSET if file.base_offset is None else file.base_offset
        for file in small_logs.files
    )
    segment_base_offsets = np.fromiter(file_base_offsets, np.int64, len(small_logs.files))[
        file_of_batch
    ]
    # A file without an offset in its name may contain any.
    is_invalid = invalid_header_mask(
        batches,
        previous_last_offsets,
        np.where(segment_base_offsets == UNKNOWN_OFFSET, batch_base_offsets, segment_base_offsets),
    )
    is_invalid |= (batches.crc_valid == 0) | (batches.is_v2 == 0)
    return is_invalid


def mark_invalid_records(small_logs: SmallLogs, limit: DecompressionLimit) -> None:
    """Mark the files with findings about their records as invalid."""
    for decompressed_block in decompress_ahead(small_logs.valid_block(), limit):
        small_logs.mark_files_invalid(decompressed_block.findings)
        records = read_lazy_records(decompressed_block, limit)
        small_logs.mark_files_invalid(records.findings)
        small_logs.mark_files_invalid(
            _iter_batch_findings(decompressed_block, records, Scope.RECORDS)
        )
    _check_each_file(small_logs, Scope.RECORDS, limit)


def _non_bulk_check_classes(scope: Scope) -> list[type[LogCheck]]:
    """The checks of a scope that can have findings about small logs, except the ones in
    `_invalid_batch_mask`."""
    scope_classes: list[type[LogCheck]] = load_check_classes(scope)
    return [
        check_class
        for check_class in scope_classes
        if check_class not in _BULK_CHECK_CLASSES and SMALL_LOG_MAGIC in check_class.magics
    ]


def _iter_batch_findings(
    run: Block, records: RecordColumns | None, scope: Scope
) -> Iterator[Finding]:
    """The findings of checks of single batches, which get all files as one log."""
    for check_class in _non_bulk_check_classes(scope):
        if check_class.is_per_batch():
            yield from check_class().check_block(run, records)


def _check_each_file(small_logs: SmallLogs, scope: Scope, limit: DecompressionLimit | None) -> None:
    """Mark the files with findings of other checks as invalid. limit: None for header checks."""
    stateful_check_classes = [
        check_class
        for check_class in _non_bulk_check_classes(scope)
        if not check_class.is_per_batch()
    ]
    if not stateful_check_classes:
        return
    for file_index in np.flatnonzero(small_logs.is_valid).tolist():
        block, base_offset = (
            small_logs.file_block(file_index),
            small_logs.files[file_index].base_offset,
        )
        records = None if limit is None else read_lazy_records(block, limit)
        findings = (
            finding
            for check_class in stateful_check_classes
            for finding in check_class(base_offset).check_block(block, records)
        )
        small_logs.is_valid[file_index] = next(findings, None) is None


def _iter_offset_ranges(small_logs: SmallLogs) -> Iterator[OffsetRange]:
    """The offsets in each file."""
    batches, file_of_batch = small_logs.batches, small_logs.file_of_batch
    base_offsets = batches.base_offset
    last_offsets = batches.last_offset
    record_counts = batches.records_count
    has_hole = record_counts < last_offsets - base_offsets + 1
    has_hole[1:] |= (np.diff(file_of_batch) == 0) & (base_offsets[1:] > last_offsets[:-1] + 1)
    file_has_holes = np.bincount(file_of_batch, has_hole, len(small_logs.files)) > 0
    for (first_batch, end_batch), has_holes in zip(
        small_logs.iter_batch_ranges(), file_has_holes.tolist(), strict=True
    ):
        if first_batch == end_batch:
            yield OffsetRange()
        else:
            yield OffsetRange(
                int(base_offsets[first_batch]), int(last_offsets[end_batch - 1]), has_holes
            )
