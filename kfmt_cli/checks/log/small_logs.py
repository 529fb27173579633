"""Check many small logs as one: their bytes joined, walked, checked and decoded in single calls.

Only healthy files pass. `checks/log/checker.py` checks every other file again, and reports what is
wrong and where.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kfmt_cli.checks.base import LogCheck, Scope
from kfmt_cli.checks.log.checker import LogCheckResult
from kfmt_cli.checks.log.headers import ChecksumCheck, HeaderCheck, find_invalid_headers
from kfmt_cli.checks.log.offset_range import OffsetRange
from kfmt_cli.checks.registry import check_classes
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
_BULK_CHECKS = (ChecksumCheck, HeaderCheck)  # `_invalid_batch_mask` applies their rules


def group_small_logs(files: Iterable[InputFile]) -> Iterator[list[InputFile]]:
    """The files in order, small ones in groups, each other one as a group of its own."""
    return group_small_items(
        files, lambda file: file_size(file) if can_read_in_group(file) else None
    )


def read_checked_logs(files: Sequence[InputFile]) -> SmallLogs:
    """Read small logs, and check their headers and checksums."""
    small_logs = read_small_logs(files)
    small_logs.is_valid[small_logs.file_of_batch[_invalid_batch_mask(small_logs)]] = False
    if _non_bulk_checks(Scope.HEADERS):
        small_logs.mark_invalid(
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
    n_batches = np.bincount(file_of_batch, minlength=len(files)).tolist()
    record_counts = small_logs.batches.records_count
    n_records = np.bincount(file_of_batch, record_counts, len(files)).astype(np.int64).tolist()
    return [
        LogCheckResult(size, n_batches[i], n_records[i], offset_ranges[i])
        if small_logs.is_valid[i]
        else None
        for i, size in enumerate(small_logs.sizes.tolist())
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
    is_invalid = find_invalid_headers(
        batches,
        previous_last_offsets,
        np.where(segment_base_offsets == UNKNOWN_OFFSET, batch_base_offsets, segment_base_offsets),
    )
    is_invalid |= (batches.crc_valid == 0) | (batches.is_v2 == 0)
    return is_invalid


def mark_invalid_records(small_logs: SmallLogs, limit: DecompressionLimit) -> None:
    """Mark the files with findings about their records as invalid."""
    for decompressed_block in decompress_ahead(small_logs.valid_batches(), limit):
        small_logs.mark_invalid(decompressed_block.findings)
        records = read_lazy_records(decompressed_block, limit)
        small_logs.mark_invalid(records.findings)
        small_logs.mark_invalid(_iter_batch_findings(decompressed_block, records, Scope.RECORDS))
    _check_each_file(small_logs, Scope.RECORDS, limit)


def _non_bulk_checks(scope: Scope) -> list[type[LogCheck]]:
    """The checks of a scope that can have findings about small logs, except the ones in
    `_invalid_batch_mask`."""
    check_types: list[type[LogCheck]] = check_classes(scope)
    return [
        check_type
        for check_type in check_types
        if check_type not in _BULK_CHECKS and SMALL_LOG_MAGIC in check_type.magics
    ]


def _iter_batch_findings(
    run: Block, records: RecordColumns | None, scope: Scope
) -> Iterator[Finding]:
    """The findings of checks of single batches, which get all files as one log."""
    for check in _non_bulk_checks(scope):
        if check.is_per_batch():
            yield from check().check_block(run, records)


def _check_each_file(small_logs: SmallLogs, scope: Scope, limit: DecompressionLimit | None) -> None:
    """Mark the files with findings of other checks as invalid. limit: None for header checks."""
    stateful_checks = [check for check in _non_bulk_checks(scope) if not check.is_per_batch()]
    if not stateful_checks:
        return
    for i in np.flatnonzero(small_logs.is_valid).tolist():
        block, base_offset = small_logs.file_block(i), small_logs.files[i].base_offset
        records = None if limit is None else read_lazy_records(block, limit)
        findings = (
            finding
            for check in stateful_checks
            for finding in check(base_offset).check_block(block, records)
        )
        small_logs.is_valid[i] = next(findings, None) is None


def _iter_offset_ranges(small_logs: SmallLogs) -> Iterator[OffsetRange]:
    """The offsets in each file."""
    batches, file_of_batch = small_logs.batches, small_logs.file_of_batch
    base_offsets = batches.base_offset
    last_offsets = batches.last_offset
    counts = batches.records_count
    has_hole = counts < last_offsets - base_offsets + 1
    has_hole[1:] |= (np.diff(file_of_batch) == 0) & (base_offsets[1:] > last_offsets[:-1] + 1)
    file_has_holes = np.bincount(file_of_batch, has_hole, len(small_logs.files)) > 0
    for (first, end), has_holes in zip(
        small_logs.iter_batch_ranges(), file_has_holes.tolist(), strict=True
    ):
        if first == end:
            yield OffsetRange()
        else:
            yield OffsetRange(int(base_offsets[first]), int(last_offsets[end - 1]), has_holes)
