"""Findings for people, grouped by kind: meaning, locations, consequences, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kfmt_cli.findings.finding import MAX_LOCATIONS, Finding, FindingCode, Severity
from kfmt_cli.render.finding import (
    STYLE_BY_SEVERITY,
    finding_consequences,
    format_location,
    wrap_labelled,
)
from kfmt_cli.render.style import Theme, escape_terminal, format_count, format_grouped

# With more kinds of findings, a line refers to `kfmt explain` for the effect on a broker.
MAX_EXPLAINED_KINDS = 3
_SEVERITY_ORDER = [Severity.ERROR, Severity.WARNING, Severity.NOTE]
MARGIN = 2


@dataclass(slots=True)
class _FindingGroup:
    """The findings of one kind."""

    code: FindingCode
    shown_findings: list[Finding] = field(default_factory=list)
    n_findings: int = 0
    """The number of all findings of the kind, shown or not."""
    consequences: list[tuple[str, str]] = field(default_factory=list)
    """The consequences shared by all of them, as pairs of label and text: what a broker does, and
    what to do."""


@dataclass(slots=True)
class FindingGroups:
    """Findings grouped by kind as they arrive. Memory is bounded by the number of kinds."""

    max_locations: int = MAX_LOCATIONS
    """Number of locations shown per kind."""
    shows_notes: bool = False
    """Show notes like other findings instead of only counting them."""
    _groups: dict[str, _FindingGroup] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Add a finding to the group of its kind."""
        group = self._group(finding.code)
        if len(group.shown_findings) < self.max_locations:
            group.shown_findings.append(finding)
        group.n_findings += 1
        pairs = set(finding_consequences(finding.code))
        group.consequences = [pair for pair in group.consequences if pair in pairs]

    def add_suppressed(self, code: FindingCode, n_suppressed: int) -> None:
        """Count more findings without showing them."""
        self._group(code).n_findings += n_suppressed

    def _group(self, code: FindingCode) -> _FindingGroup:
        group = self._groups.get(code.name)
        if group is None:
            group = self._groups[code.name] = _FindingGroup(
                code, consequences=list(finding_consequences(code))
            )
        return group

    def drain_lines(self, theme: Theme, width: int | None) -> Iterator[str]:
        """The lines of all groups, the most severe first; clears the groups."""
        groups = sorted(
            self._groups.values(), key=lambda group: _SEVERITY_ORDER.index(group.code.severity)
        )
        self._groups = {}
        note_groups = [group for group in groups if group.code.severity is Severity.NOTE]
        listed_groups = groups if self.shows_notes else groups[: len(groups) - len(note_groups)]
        for group in listed_groups:
            yield from _group_lines(
                group, theme, width, explains=len(listed_groups) <= MAX_EXPLAINED_KINDS
            )
        if len(listed_groups) > MAX_EXPLAINED_KINDS:
            first_code = listed_groups[0].code.name
            text = f"run kfmt explain {first_code} for the effect on a broker and what to do"
            yield theme.paint("dim", text) + "\n"
        if note_groups and not self.shows_notes:
            yield from _note_count_lines(note_groups, theme, width)


def _group_lines(
    group: _FindingGroup, theme: Theme, width: int | None, *, explains: bool
) -> Iterator[str]:
    """The meaning of a kind of finding, its locations and, if `explains`, its consequences."""
    code = group.code
    heading = f"{code.severity.value:<7}  {code.name}{_format_times(group)}"
    first, *continuation = wrap_labelled(
        f"{heading}   {code.meaning}", width, margin=0, hanging_indent=9
    )
    yield (
        theme.paint(STYLE_BY_SEVERITY[code.severity], heading) + first.removeprefix(heading) + "\n"
    )
    yield from (f"{line}\n" for line in continuation)
    for finding in group.shown_findings:
        text = f"{format_location(finding)}: {escape_terminal(finding.message)}"
        yield from (
            f"{line}\n" for line in wrap_labelled(text, width, margin=MARGIN, hanging_indent=4)
        )
    if group.n_findings > len(group.shown_findings):
        count_text = format_count(group.n_findings - len(group.shown_findings), "more place")
        yield f"  … and {count_text}; raise --max-findings to see them\n"
    if explains:
        for label, text in group.consequences:
            wrapped_lines = wrap_labelled(text, width, label, margin=MARGIN)
            yield from (theme.paint("dim", line) + "\n" for line in wrapped_lines)


def _format_times(group: _FindingGroup) -> str:
    return f" ×{format_grouped(group.n_findings)}" if group.n_findings > 1 else ""


def _note_count_lines(
    note_groups: list[_FindingGroup], theme: Theme, width: int | None
) -> Iterator[str]:
    """The number of notes of each kind, on one line unless it is wrapped."""
    n_notes = sum(group.n_findings for group in note_groups)
    kinds_text = ", ".join(f"{group.code.name}{_format_times(group)}" for group in note_groups)
    text = (
        f"{format_count(n_notes, 'note')}, no action needed ({kinds_text}); list them with --notes"
    )
    yield from (theme.paint("dim", line) + "\n" for line in wrap_labelled(text, width, margin=0))
