"""The pages of `explain` as text: findings and mechanisms, as pages and as lists."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from kfmt_cli.commands.explain.pages.page import ListedPage, Part
from kfmt_cli.findings.finding import Code, Severity
from kfmt_cli.render.finding import STYLES, consequences, wrapped
from kfmt_cli.render.style import Theme

MEANING = {
    Severity.ERROR: "bytes are lost, or a broker or its consumers fail on it; exit code 1",
    Severity.WARNING: "a broker tolerates it, but you should know; exit code 1 with --strict",
    Severity.NOTE: "for information, no action needed",
}


def code_line(code: Code, theme: Theme, width: int | None) -> list[str]:
    """A line in the list of codes."""
    room = max((width or 1 << 20) - 12 - max(34, len(code.name)), 20)
    words = textwrap.shorten(code.meaning, room, placeholder=" …")
    severity = theme.paint(STYLES[code.severity], f"{code.severity.value:<7}")
    return [f" {severity}  {code.name:<34} {words}\n"]


def code_page(code: Code, theme: Theme, width: int | None) -> list[str]:
    """The explanation of a kind of finding."""
    severity = theme.paint(STYLES[code.severity], code.severity.value)
    lines = [f"{theme.paint('bold', code.name)}   {severity}: {MEANING[code.severity]}\n"]
    for label, words in (("meaning", code.meaning), *consequences(code)):
        lines += [f"{line}\n" for line in wrapped(words, width, label, margin=2)]
    return lines


def topic_line(page: ListedPage, width: int | None) -> list[str]:
    """A line in the list of mechanisms."""
    words = f"{page.name:<43} {page.title}"
    return [f"{line}\n" for line in wrapped(words, width, margin=1, hanging=45)]


def topic_page(
    page: ListedPage, parts: Iterable[Part], theme: Theme, width: int | None
) -> list[str]:
    """A mechanism's page: wrapped sentences, and drawings printed verbatim."""
    lines = [f"{theme.paint('bold', page.title)}\n"]
    for part in parts:
        lines.append("\n")
        if isinstance(part, str):
            lines += [f"{line}\n" for line in wrapped(part, width or 80, margin=0)]
        else:
            lines += [f"  {line}\n" for line in part]
    return lines
