"""Joins the findings in the pieces of a log.

The reader of a piece sees nothing of the batches before it. It returns the facts that each check
needs (`Edges`). Here the checks are joined in reading order, as between blocks of one file, and
batches are numbered from the start of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from kfmt_cli.checks.base import Facts, LogCheck, Scope
from kfmt_cli.checks.registry import log_checks
from kfmt_cli.findings.finding import Finding
from kfmt_cli.sharing.read_piece import Edges


def is_torn(edges: Iterable[Edges | None]) -> bool:
    """Whether a piece does not end where the next one begins.

    Then damage extends across the cut, and only reading the file as a whole finds its batches.
    """
    known = [edge for edge in edges if edge is not None]
    return any(one.end != following.begin for one, following in pairwise(known))


class Seam:
    """Joins the pieces of one file, in order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._before: dict[str, LogCheck] = {}
        self.n_batches = 0

    def join(self, edges: Edges) -> Iterator[Finding]:
        """Join the next piece; yields findings where it meets the previous one."""
        for check in _recalled(edges.checks):
            name = type(check).__name__
            known = self._before.setdefault(name, check)
            if known is not check:
                for finding in known.join(check):
                    yield self.numbered(replace(finding, file=self._path))
        self.n_batches += edges.batches

    def numbered(self, finding: Finding) -> Finding:
        """A finding in the next piece, with its batch numbered from the start of the file."""
        if finding.batch is None:
            return finding
        return replace(finding, batch=finding.batch + self.n_batches)


def _recalled(facts: dict[str, Facts]) -> Iterator[LogCheck]:
    for scope in (Scope.HEADERS, Scope.RECORDS):
        for check in log_checks(scope, None):
            known = facts.get(type(check).__name__)
            if known is not None:
                check.facts = known
                yield check
