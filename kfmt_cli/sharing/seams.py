"""What was found in the pieces of a log, put together.

Whoever reads a piece sees nothing of the batches before it. It hands over what each check must know
of the piece (`Edges`), and here the checks are joined in reading order, as they are where blocks of
one file meet; and batches are counted from the front of the file.
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

    Damage then reaches across the cut, and only reading the file as a whole tells what is a batch.
    """
    known = [edge for edge in edges if edge is not None]
    return any(one.end != following.begin for one, following in pairwise(known))


class Seam:
    """Joins the pieces of one file in their order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._before: dict[str, LogCheck] = {}
        self.n_batches = 0

    def join(self, edges: Edges) -> Iterator[Finding]:
        """The next piece; what is wrong where it meets the one before."""
        for check in _recalled(edges.checks):
            name = type(check).__name__
            known = self._before.setdefault(name, check)
            if known is not check:
                for finding in known.join(check):
                    yield self.numbered(replace(finding, file=self._path))
        self.n_batches += edges.batches

    def numbered(self, finding: Finding) -> Finding:
        """A finding of the next piece, its batch counted from the front of the file."""
        if finding.batch is None:
            return finding
        return replace(finding, batch=finding.batch + self.n_batches)


def _recalled(facts: dict[str, Facts]) -> Iterator[LogCheck]:
    for scope in (Scope.HEADERS, Scope.RECORDS):
        for check in log_checks(scope, None):
            known = facts.get(type(check).__name__)
            if known is not None:
                check.recall(known)
                yield check
