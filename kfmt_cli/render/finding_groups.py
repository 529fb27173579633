"""Findings for people, grouped by kind: meaning, places, consequences, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kfmt_cli.findings.finding import MOST_PLACES, Code, Finding, Severity
from kfmt_cli.render.finding import STYLES, consequences, place_words, wrapped
from kfmt_cli.render.style import Theme, count, grouped, safe

MOST_EXPLAINED = 3  # kinds; if there are more, refer to `kfmt explain` for the effect on a broker
_ORDER = [Severity.ERROR, Severity.WARNING, Severity.NOTE]
MARGIN = 2


@dataclass(slots=True)
class _Group:
    """The findings of one kind."""

    code: Code
    held: list[Finding] = field(default_factory=list)
    """The findings to show."""
    number: int = 0
    """The number of all findings."""
    said: list[tuple[str, str]] = field(default_factory=list)
    """Consequences shared by all of them: what a broker does, and what to do, each with its
    label."""


@dataclass(slots=True)
class FindingGroups:
    """Findings grouped by kind as they arrive. Memory is bounded by the number of kinds."""

    most: int = MOST_PLACES
    """Number of places shown per kind."""
    shows_notes: bool = False
    """Show notes like other findings instead of only counting them."""
    _groups: dict[str, _Group] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        group = self._group(finding.code)
        if len(group.held) < self.most:
            group.held.append(finding)
        group.number += 1
        said = set(consequences(finding.code))
        group.said = [pair for pair in group.said if pair in said]

    def left_out(self, code: Code, number: int) -> None:
        """Count more findings without showing them."""
        self._group(code).number += number

    def _group(self, code: Code) -> _Group:
        group = self._groups.get(code.name)
        if group is None:
            group = self._groups[code.name] = _Group(code, said=list(consequences(code)))
        return group

    def lines(self, theme: Theme, width: int | None) -> Iterator[str]:
        """All of them, the worst kinds first; then clears the groups."""
        groups = sorted(self._groups.values(), key=lambda group: _ORDER.index(group.code.severity))
        self._groups = {}
        notes = [group for group in groups if group.code.severity is Severity.NOTE]
        shown = groups if self.shows_notes else groups[: len(groups) - len(notes)]
        for group in shown:
            yield from _lines(group, theme, width, explained=len(shown) <= MOST_EXPLAINED)
        if len(shown) > MOST_EXPLAINED:
            first = shown[0].code.name
            words = f"run kfmt explain {first} for the effect on a broker and what to do"
            yield theme.paint("dim", words) + "\n"
        if notes and not self.shows_notes:
            yield from _counted(notes, theme, width)


def _lines(group: _Group, theme: Theme, width: int | None, *, explained: bool) -> Iterator[str]:
    """The meaning of a kind of finding, and its places."""
    code = group.code
    head = f"{code.severity.value:<7}  {code.name}{_times(group)}"
    first, *more = wrapped(f"{head}   {code.meaning}", width, margin=0, hanging=9)
    yield theme.paint(STYLES[code.severity], head) + first.removeprefix(head) + "\n"
    yield from (f"{line}\n" for line in more)
    for finding in group.held:
        words = f"{place_words(finding)}: {safe(finding.message)}"
        yield from (f"{line}\n" for line in wrapped(words, width, margin=MARGIN, hanging=4))
    if group.number > len(group.held):
        places = count(group.number - len(group.held), "more place")
        yield f"  … and {places}; raise --max-findings to see them\n"
    if explained:
        for label, words in group.said:
            said = wrapped(words, width, label, margin=MARGIN)
            yield from (theme.paint("dim", line) + "\n" for line in said)


def _times(group: _Group) -> str:
    return f" ×{grouped(group.number)}" if group.number > 1 else ""


def _counted(notes: list[_Group], theme: Theme, width: int | None) -> Iterator[str]:
    """Notes counted on one line."""
    number = sum(group.number for group in notes)
    kinds = ", ".join(f"{group.code.name}{_times(group)}" for group in notes)
    words = f"{count(number, 'note')}, no action needed ({kinds}); list them with --notes"
    yield from (theme.paint("dim", line) + "\n" for line in wrapped(words, width, margin=0))
