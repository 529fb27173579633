"""Findings about files that a broker is writing: only those that a second look repeats.

Real damage stays in place. Apparent damage, because a broker wrote one of two files between the two
reads, is gone at the second look, or at another place.
"""

from __future__ import annotations

from collections.abc import Iterable

from kfmt_cli.disk.directory_listing import DirectoryListing, list_directory
from kfmt_cli.errors import InputError
from kfmt_cli.findings.codes import CHANGED_WHILE_READ
from kfmt_cli.findings.finding import Finding, Severity
from kfmt_cli.rows.file_result import FileResult

FindingPlace = tuple[str, str, int | None, int | None]


def finding_place(finding: Finding) -> FindingPlace:
    """The file, code, byte and offset of a finding, which stay the same when it is found again."""
    return finding.file, finding.code.name, finding.position, finding.offset


def places_in_doubt(findings: Iterable[Finding]) -> set[FindingPlace]:
    """The places of the findings that are not notes."""
    return {
        finding_place(finding) for finding in findings if finding.code.severity is not Severity.NOTE
    }


def select_repeated(
    findings: Iterable[Finding], earlier_places: set[FindingPlace]
) -> list[Finding]:
    """The findings of a second look that are notes, or that the first look had as well."""
    return [
        finding
        for finding in findings
        if finding.code.severity is Severity.NOTE or finding_place(finding) in earlier_places
    ]


def change_note(name: str) -> Finding:
    """The note about a file or directory whose findings were not repeated. name: its name for
    display."""
    message = "written while kfmt read it: an apparent contradiction between two files is gone"
    return Finding(name, CHANGED_WHILE_READ, None, message)


def repeated_results(first: list[FileResult], second: list[FileResult]) -> list[FileResult]:
    """The results of a second look, with the findings that the first look had as well; notes for
    the other findings of the first."""
    first_places = places_in_doubt(finding for result in first for finding in result.findings)
    results = []
    for result in second:
        repeated_result = FileResult(
            *(result.type, result.file, result.kind, result.counts), counted_as=result.counted_as
        )
        repeated_result.findings.max_per_code = result.findings.max_per_code
        repeated_result.add_findings(select_repeated(result.findings, first_places))
        repeated_codes = {finding.code.name for finding in repeated_result.findings}
        for code, n_suppressed in result.findings.iter_suppressed_counts():
            if code.name in repeated_codes:
                repeated_result.count_findings(code, n_suppressed)
                repeated_result.findings.count_suppressed(code, n_suppressed)
        if len(repeated_result.findings) or not result.counted_as:
            results.append(repeated_result)
    gone_places = first_places - places_in_doubt(
        finding for result in second for finding in result.findings
    )
    for result in results:
        if any(file == result.file for file, *_ in gone_places):
            result.add_findings([change_note(result.file)])
    return results


def select_about_existing(listing: DirectoryListing, findings: list[Finding]) -> list[Finding]:
    """The findings about several files of a directory, with notes in place of those about files
    that were deleted since it was listed."""
    if not findings or not listing.has_changed:
        return findings
    try:
        current = list_directory(listing.path)
    except InputError:  # the directory is gone
        return [change_note(listing.name)]
    names = {*current.files, *current.directories, listing.path.rpartition("/")[2]}
    kept = [finding for finding in findings if finding.file.rpartition("/")[2] in names]
    return kept if len(kept) == len(findings) else [*kept, change_note(listing.name)]
