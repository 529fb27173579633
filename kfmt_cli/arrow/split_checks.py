"""Summarizes and checks splits, and encodes the results as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kfmt_cli.arrow.columns.arrays import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from kfmt_cli.arrow.input_files import create_split_reader, group_small_splits, input_file
from kfmt_cli.checks.log.checker import LogRangeCheck
from kfmt_cli.checks.log.small_logs import mark_invalid_records, read_checked_logs
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.execution.file_split import FileSplit, name_file_in_errors
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.execution.split_reader import SplitBoundary, collect_facts
from kfmt_cli.findings.codes import finding_code_by_name
from kfmt_cli.findings.finding import Finding, Severity, sort_findings
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.log.block import Block, is_legacy, split_runs
from kfmt_cli.log.decoding import read_lazy_records, read_records
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.rows.table_types import SEGMENTS_TABLE
from kfmt_cli.rows.types.finding_row import finding_row as row_of
from kfmt_cli.rows.types.segment_row import (
    EMPTY_SUMMARY,
    SegmentSummary,
    merge_summaries,
    names_of_set_bits,
    summarize_batches,
    summarize_files,
)

MAX_STORED_FINDINGS = 10_000  # findings per split that are stored individually
MAGICS = ("0", "1", "2")


def segment_row(split: FileSplit, summary: SegmentSummary) -> dict[str, object]:
    """A row of the table `segments` for the file of a split."""
    topic, partition = split.topic_partition
    row: dict[str, object] = {
        **summary,
        "file": format_display_name(split.path),
        "topic": topic and format_display_name(topic),
        "partition": partition,
        "base_offset": split.base_offset,
        "bytes": split.file_size,
        "min_timestamp": to_microseconds(summary["min_timestamp"]),
        "max_timestamp": to_microseconds(summary["max_timestamp"]),
        "magics": names_of_set_bits(summary["magics"], MAGICS),
        "codecs": names_of_set_bits(summary["codecs"], CODECS),
    }
    return {leaf.name: row[leaf.name] for leaf in SEGMENTS_TABLE.leaves}


def to_microseconds(milliseconds: int | None) -> int | None:
    """A time in microseconds, Arrow's unit; None outside the years 1 to 9999."""
    if milliseconds is None or not MIN_TIMESTAMP_MS <= milliseconds <= MAX_TIMESTAMP_MS:
        return None
    return milliseconds * 1000


def finding_row(split: FileSplit, finding: Finding) -> dict[str, object]:
    """A row of the table `findings`."""
    topic, partition = split.topic_partition
    row = {**row_of(finding), "topic": topic, "partition": partition}
    for name in ("expected", "found"):
        row[name] = None if row[name] is None else str(row[name])
    return {
        name: format_display_name(value) if isinstance(value, str) else value
        for name, value in row.items()
    }


@dataclass(slots=True)
class SplitCheckResult:
    """A split's summary and findings, and the boundary that checks of its neighbours need."""

    summary: SegmentSummary
    """See `rows/types/segment_row.py`."""
    findings: list[Finding]
    boundary: SplitBoundary | None


def check_split(request: ReadRequest, split: FileSplit) -> SplitCheckResult:
    """Check a split; with `request.deep`, also decode every record."""
    reader, summary = create_split_reader(request, split), dict(EMPTY_SUMMARY)
    if request.decodes_records:
        base_offset = split.base_offset
        log_check = LogRangeCheck(
            deep=True, limit=request.decompression_limit, base_offset=base_offset
        )
        for run, records in reader.iter_record_runs(split, read_lazy_records):
            summary = merge_summaries(summary, _summarize_run(run, records))
            for _, finding in log_check.check_records(run, records):
                reader.add_finding(finding)
        if reader.boundary is not None:
            reader.boundary.checks |= collect_facts(log_check.checks)
    else:
        for block in reader.iter_blocks(split):
            # Only decompression shows the number, offsets and checksums of messages in wrappers.
            for run in split_runs(block):
                messages = (
                    read_records(run, request.decompression_limit) if is_legacy(run) else None
                )
                for finding in messages.findings if messages else ():
                    reader.add_finding(finding)
                summary = merge_summaries(summary, _summarize_run(run, messages))
    findings = sort_findings(reader.findings)
    summary |= count_severities(Counter(finding.code.name for finding in findings))
    return SplitCheckResult(summary, findings, reader.boundary)


def _summarize_run(run: Block, records: RecordColumns | None) -> SegmentSummary:
    """The numbers of a run. records: its records, which must be given for magic 0 and 1."""
    summary = summarize_batches(run.batches)
    if records is not None and is_legacy(run):
        summary["records"] = len(records)
        summary["first_offset"] = int(records.rows.offset[0]) if records.row_counts[0] else None
    return summary


def check_splits(request: ReadRequest, splits: Sequence[FileSplit]) -> Iterator[SplitCheckResult]:
    """Check splits in order; small local logs are checked together."""
    for split_group in group_small_splits(splits):
        group_results = _check_small_logs(request, split_group) if len(split_group) > 1 else [None]
        for split, group_result in zip(split_group, group_results, strict=True):
            check_result = group_result
            if check_result is None:
                with name_file_in_errors(split):
                    check_result = check_split(request, split)
            yield check_result


def _check_small_logs(
    request: ReadRequest, splits: Sequence[FileSplit]
) -> list[SplitCheckResult | None]:
    """Check a group of small logs; None for each log that must be checked individually."""
    small_logs = read_checked_logs([input_file(split) for split in splits])
    if request.decodes_records:
        mark_invalid_records(small_logs, request.decompression_limit)
    same_size_mask = small_logs.sizes == np.array([split.file_size for split in splits])
    valid_flags = (small_logs.is_valid & same_size_mask).tolist()
    split_summaries = summarize_files(small_logs.batches, small_logs.file_of_batch, len(splits))
    return [
        SplitCheckResult(split_summary, [], None) if is_valid else None
        for split_summary, is_valid in zip(split_summaries, valid_flags, strict=True)
    ]


def encode_findings(findings: list[Finding], boundary: SplitBoundary | None) -> dict[str, Any]:
    """Up to `MAX_STORED_FINDINGS` findings, the count of each finding code and the boundary."""
    return {
        "findings": [_encode_finding(finding) for finding in findings[:MAX_STORED_FINDINGS]],
        "codes": Counter(finding.code.name for finding in findings),
        "edges": asdict(boundary) if boundary else None,
    }


def _encode_finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code.name,
        "file": finding.file,
        "position": finding.position,
        "words": finding.detail,
        "offset": finding.offset,
        "expected": finding.expected,
        "found": finding.found,
        "batch": finding.batch,
    }


def decode_finding(stored_finding: dict[str, Any]) -> Finding:
    """Restore a stored finding."""
    return Finding(
        stored_finding["file"],
        finding_code_by_name()[stored_finding["code"]],
        stored_finding["position"],
        stored_finding["words"],
        offset=stored_finding["offset"],
        expected=stored_finding["expected"],
        found=stored_finding["found"],
        batch=stored_finding["batch"],
    )


def decode_boundary(stored_result: dict[str, Any]) -> SplitBoundary | None:
    """The boundary in a result; None if no batch begins in the split."""
    return SplitBoundary(**stored_result["edges"]) if stored_result.get("edges") else None


def count_severities(count_by_code: dict[str, int]) -> SegmentSummary:
    """The counts of errors, warnings and notes, from counts by code."""
    code_by_name = finding_code_by_name()
    count_by_severity: SegmentSummary = {f"{severity.value}s": 0 for severity in Severity}
    for code_name, n_findings in count_by_code.items():
        severity_key = f"{code_by_name[code_name].severity.value}s"
        count_by_severity[severity_key] = (count_by_severity[severity_key] or 0) + n_findings
    return count_by_severity
