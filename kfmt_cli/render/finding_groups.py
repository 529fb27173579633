"""Findings for people, grouped by kind: meaning, locations, consequences, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kfmt_cli.findings.finding import MAX_LOCATIONS, Finding, FindingCode, Severity
from kfmt_cli.render.finding import (
    STYLE_BY_SEVERITY,
    format_location,
    wrap_labelled_text,
)
from kfmt_cli.render.style import Theme, escape_unprintable, format_count, format_thousands

# With more kinds of findings, a line refers to `kfmt explain` for the effect on a broker.
MAX_EXPLAINED_KINDS = 3
_SEVERITIES_WORST_FIRST = [Severity.ERROR, Severity.WARNING, Severity.NOTE]
MARGIN_COLUMNS = 2


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
    counts_notes: bool = True
    """Show the number of notes if they are not shown."""
    _group_by_code_name: dict[str, _FindingGroup] = field(default_factory=dict)

    def add_finding(self, finding: Finding) -> None:
        """Add a finding to the group of its kind."""
        group = self._find_or_create_group(finding.code)
        if len(group.shown_findings) < self.max_locations:
            group.shown_findings.append(finding)
        group.n_findings += 1
        code_consequences = set(finding.code.consequences)
        group.consequences = [
            consequence for consequence in group.consequences if consequence in code_consequences
        ]

    def add_suppressed_count(self, code: FindingCode, n_suppressed: int) -> None:
        """Count more findings without showing them."""
        self._find_or_create_group(code).n_findings += n_suppressed

    def _find_or_create_group(self, code: FindingCode) -> _FindingGroup:
        group = self._group_by_code_name.get(code.name)
        if group is None:
            group = self._group_by_code_name[code.name] = _FindingGroup(
                code, consequences=code.consequences
            )
        return group

    def drain_lines(self, theme: Theme, width: int | None) -> Iterator[str]:
        """The lines of all groups, the most severe first; clears the groups."""
        sorted_groups = sorted(
            self._group_by_code_name.values(),
            key=lambda group: _SEVERITIES_WORST_FIRST.index(group.code.severity),
        )
        self._group_by_code_name = {}
        note_groups = [group for group in sorted_groups if group.code.severity is Severity.NOTE]
        listed_groups = (
            sorted_groups
            if self.shows_notes
            else sorted_groups[: len(sorted_groups) - len(note_groups)]
        )
        for group in listed_groups:
            yield from _group_lines(
                group, theme, width, shows_consequences=len(listed_groups) <= MAX_EXPLAINED_KINDS
            )
        has_consequences = any(group.consequences for group in listed_groups)
        if len(listed_groups) > MAX_EXPLAINED_KINDS and has_consequences:
            first_code = listed_groups[0].code.name
            explain_text = (
                f"run kfmt explain {first_code} for the effect on a broker and what to do"
            )
            yield theme.paint("dim", explain_text) + "\n"
        if note_groups and self.counts_notes and not self.shows_notes:
            yield from _note_count_lines(note_groups, theme, width)


def _group_lines(
    group: _FindingGroup, theme: Theme, width: int | None, *, shows_consequences: bool
) -> Iterator[str]:
    """The meaning of a kind of finding, its locations and, if `shows_consequences`, its
    consequences."""
    code = group.code
    heading = f"{code.severity.value:<7}  {code.name}{_format_multiplicity(group)}"
    first_line, *continuation_lines = wrap_labelled_text(
        f"{heading}   {code.meaning}", width, margin_columns=0, hanging_indent=9
    )
    yield (
        theme.paint(STYLE_BY_SEVERITY[code.severity], heading)
        + first_line.removeprefix(heading)
        + "\n"
    )
    yield from (f"{line}\n" for line in continuation_lines)
    for finding in group.shown_findings:
        text = f"{format_location(finding)}: {escape_unprintable(finding.message)}"
        yield from (
            f"{line}\n"
            for line in wrap_labelled_text(
                text, width, margin_columns=MARGIN_COLUMNS, hanging_indent=4
            )
        )
    if group.n_findings > len(group.shown_findings):
        count_text = format_count(group.n_findings - len(group.shown_findings), "more place")
        yield f"  … and {count_text}; raise --max-findings to see them\n"
    if shows_consequences:
        for label, text in group.consequences:
            wrapped_lines = wrap_labelled_text(text, width, label, margin_columns=MARGIN_COLUMNS)
            yield from (theme.paint("dim", line) + "\n" for line in wrapped_lines)


def _format_multiplicity(group: _FindingGroup) -> str:
    return f" ×{format_thousands(group.n_findings)}" if group.n_findings > 1 else ""


def _note_count_lines(
    note_groups: list[_FindingGroup], theme: Theme, width: int | None
) -> Iterator[str]:
    """The number of notes of each kind, on one line unless it is wrapped."""
    n_notes = sum(group.n_findings for group in note_groups)
    kinds_text = ", ".join(
        f"{group.code.name}{_format_multiplicity(group)}" for group in note_groups
    )
    notes_text = (
        f"{format_count(n_notes, 'note')}, no action needed ({kinds_text}); list them with --notes"
    )
    yield from (
        theme.paint("dim", line) + "\n"
        for line in wrap_labelled_text(notes_text, width, margin_columns=0)
    )
