"""Merges the check results of a log's splits.

The reader of a split does not see the batches before it. It returns the facts that each check needs
(`SplitBoundary`). Here the checks are merged in reading order, as between blocks of one file, and
batches are numbered from the start of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from kfmt_cli.checks.base import BoundaryState, LogCheck, Scope
from kfmt_cli.checks.registry import create_log_checks
from kfmt_cli.execution.split_reader import SplitBoundary
from kfmt_cli.findings.finding import Finding


def needs_whole_read(boundaries: Iterable[SplitBoundary | None]) -> bool:
    """Whether a split does not end where the next one begins.

    Then damage extends across the boundary: only reading the file as a whole finds its batches.
    """
    boundaries_with_batches = [boundary for boundary in boundaries if boundary is not None]
    return any(left.end != right.begin for left, right in pairwise(boundaries_with_batches))


class SplitMerger:
    """Merges the check results of one file's splits, in order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._check_by_key: dict[str, LogCheck] = {}
        self.n_batches = 0

    def merge_boundary(self, boundary: SplitBoundary) -> Iterator[Finding]:
        """Add the next split; yields the findings at its boundary with the previous one."""
        for check in _restore_checks(boundary.checks):
            previous_check = self._check_by_key.setdefault(check.facts_key, check)
            if previous_check is not check:
                for finding in previous_check.merge_later_range(check):
                    yield self.with_file_batch_index(replace(finding, file=self._path))
        self.n_batches += boundary.batches

    def with_file_batch_index(self, finding: Finding) -> Finding:
        """A finding in the next split, with its batch numbered from the start of the file."""
        if finding.batch is None:
            return finding
        return replace(finding, batch=finding.batch + self.n_batches)


def _restore_checks(facts_by_key: dict[str, BoundaryState]) -> Iterator[LogCheck]:
    for scope in (Scope.HEADERS, Scope.RECORDS):
        for check in create_log_checks(scope, None):
            check_facts = facts_by_key.get(check.facts_key)
            if check_facts is not None:
                check.facts = check_facts
                yield check
