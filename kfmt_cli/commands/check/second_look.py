"""check: a second look at partitions that a broker wrote while they were checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from kfmt_cli.broker.log_reading.log_end import read_log_end_offset
from kfmt_cli.broker.start.checkpoints import is_log_directory
from kfmt_cli.checks.history.history_check import LogOffsetIntervals
from kfmt_cli.checks.second_look import (
    FindingPlace,
    change_note,
    places_in_doubt,
    select_repeated,
)
from kfmt_cli.commands.check.directory_result import DirectoryCheckResult
from kfmt_cli.disk.directory_listing import DirectoryListing, list_directory
from kfmt_cli.disk.file_access import is_directory
from kfmt_cli.disk.file_names import parse_topic_partition
from kfmt_cli.errors import InputError
from kfmt_cli.findings.codes import CODES_BY_SUBJECT, DIRECTORY_NOT_A_PARTITION
from kfmt_cli.findings.finding import Finding, FindingCollector

# A broker appends to logs and replaces them, and changes none of their bytes; the names of its
# directories are those of topics.
_LASTING_CODE_NAMES = frozenset(
    code.name for code in (*CODES_BY_SUBJECT["Logs"], DIRECTORY_NOT_A_PARTITION)
)
ResultByName = dict[str, DirectoryCheckResult]
IntervalsByPartition = dict[tuple[str | None, int | None], LogOffsetIntervals]


def look_again(
    result_by_name: ResultByName,
    listings: list[DirectoryListing],
    check_again: Callable[[list[str]], ResultByName],
) -> list[DirectoryListing]:
    """Check again the partitions that changed and have findings about more than one log, and keep
    the findings that both looks found; returns the current listings. check_again: checks the
    directories at some paths, and returns the results by name."""
    doubted_listings = [
        listing
        for listing in listings
        if _is_doubtful(result_by_name[listing.name])
        and not is_log_directory(listing)
        and listing.has_changed
    ]
    if not doubted_listings:
        return listings
    doubted_listings[-1].seen_at.wait_until_settled()
    second_by_name = check_again(
        [listing.path for listing in doubted_listings if is_directory(listing.path)]
    )
    for listing in doubted_listings:
        first = result_by_name[listing.name]
        second = second_by_name.get(listing.name) or replace(
            first, findings=FindingCollector(), all_findings=[]
        )
        result_by_name[listing.name] = _repeated_result(first, second)
    current_listings = (result_by_name[listing.name].listing or listing for listing in listings)
    return list(current_listings)


def _is_doubtful(result: DirectoryCheckResult) -> bool:
    """Whether a result has findings that a broker's writing may have caused."""
    return bool(places_in_doubt(filter(_may_change, result.findings)))


def _may_change(finding: Finding) -> bool:
    return finding.code.name not in _LASTING_CODE_NAMES


def _repeated_result(
    first: DirectoryCheckResult, second: DirectoryCheckResult
) -> DirectoryCheckResult:
    """The second result, without findings that the first does not have."""
    places = places_in_doubt(filter(_may_change, [*first.all_findings, *first.findings]))
    findings = _merge_findings(first.findings, second.findings, places)
    if places - places_in_doubt(findings):
        findings.append(change_note(first.display_path))
    collector = FindingCollector(first.findings.max_per_code)
    result = replace(
        second,
        errors=0,
        warnings=0,
        notes=0,
        findings=collector,
        all_findings=_merge_findings(first.all_findings, second.all_findings, places),
    )
    for finding in findings:
        result.count_findings(finding.code)
    collector.add_findings(findings)
    code_names = {finding.code.name for finding in findings}
    for source, is_lasting in ((first, True), (second, False)):
        for code, n_suppressed in source.findings.iter_suppressed_counts():
            if code.name in code_names and is_lasting == (code.name in _LASTING_CODE_NAMES):
                result.count_findings(code, n_suppressed)
                collector.count_suppressed(code, n_suppressed)
    return result


def _merge_findings(
    first: Iterable[Finding], second: Iterable[Finding], places: set[FindingPlace]
) -> list[Finding]:
    """The lasting findings of the first look, and the others that were repeated."""
    lasting_findings = [finding for finding in first if not _may_change(finding)]
    return lasting_findings + select_repeated(filter(_may_change, second), places)


def update_changed_intervals(
    intervals_by_partition: IntervalsByPartition,
    log_directory: DirectoryListing,
    partitions: list[DirectoryListing],
) -> bool:
    """Update the offsets of partitions that a broker wrote or created in the meantime; returns
    whether there are any. partitions: those that were listed in the log directory."""
    has_updates = False
    listed_paths = {partition.path for partition in partitions}
    changed_paths = [partition.path for partition in partitions if partition.has_changed]
    with suppress(InputError):
        changed_paths += (
            f"{log_directory.path.rstrip('/')}/{name}"
            for name in list_directory(log_directory.path).partition_names
            if f"{log_directory.path.rstrip('/')}/{name}" not in listed_paths
        )
    for path in changed_paths:
        with suppress(InputError):
            end_offset = read_log_end_offset(list_directory(path))
            topic_partition = parse_topic_partition(path.rpartition("/")[2])
            intervals_by_partition[topic_partition] = (
                {} if end_offset is None else {0: (0, end_offset)}
            )
            has_updates = True
    return has_updates
