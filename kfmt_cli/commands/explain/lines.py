"""The pages of `explain` as text: findings and mechanisms, as pages and as lists."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from kfmt_cli.commands.explain.pages.page import PageSection, PageSpec
from kfmt_cli.findings.finding import FindingCode, Severity
from kfmt_cli.render.finding import STYLE_BY_SEVERITY, wrap_labelled_text
from kfmt_cli.render.style import Theme

MEANING_BY_SEVERITY = {
    Severity.ERROR: "bytes are lost, or a broker or its consumers fail on it; exit code 1",
    Severity.WARNING: "a broker tolerates it, but you should know; exit code 1 with --strict",
    Severity.NOTE: "for information, no action needed",
}


def format_code_line(code: FindingCode, theme: Theme, width: int | None) -> list[str]:
    """A line in the list of codes."""
    meaning_width = max((width or 1 << 20) - 12 - max(34, len(code.name)), 20)
    meaning = textwrap.shorten(code.meaning, meaning_width, placeholder=" …")
    severity = theme.paint(STYLE_BY_SEVERITY[code.severity], f"{code.severity.value:<7}")
    return [f" {severity}  {code.name:<34} {meaning}\n"]


def format_code_page(code: FindingCode, theme: Theme, width: int | None) -> list[str]:
    """The explanation of a kind of finding."""
    severity = theme.paint(STYLE_BY_SEVERITY[code.severity], code.severity.value)
    lines = [
        f"{theme.paint('bold', code.name)}   {severity}: {MEANING_BY_SEVERITY[code.severity]}\n"
    ]
    for label, labelled_text in (("meaning", code.meaning), *code.consequences):
        lines += [
            f"{line}\n"
            for line in wrap_labelled_text(labelled_text, width, label, margin_columns=2)
        ]
    return lines


def format_mechanism_line(page: PageSpec, width: int | None) -> list[str]:
    """A line in the list of mechanisms."""
    name_and_title = f"{page.name:<43} {page.title}"
    return [
        f"{line}\n"
        for line in wrap_labelled_text(name_and_title, width, margin_columns=1, hanging_indent=45)
    ]


def format_mechanism_page(
    page: PageSpec, sections: Iterable[PageSection], theme: Theme, width: int | None
) -> list[str]:
    """A mechanism's page: wrapped sentences, and drawings printed verbatim."""
    lines = [f"{theme.paint('bold', page.title)}\n"]
    for section in sections:
        lines.append("\n")
        if isinstance(section, str):
            lines += [
                f"{line}\n" for line in wrap_labelled_text(section, width or 80, margin_columns=0)
            ]
        else:
            lines += [f"  {line}\n" for line in section]
    return lines
