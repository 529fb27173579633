"""Findings as text for people and as JSON."""

from __future__ import annotations

from kfmt_cli.core.finding import Finding
from kfmt_cli.render.json_text import json_text
from kfmt_cli.render.style import Theme, grouped, safe


def finding_line(finding: Finding, theme: Theme, width: int | None = None) -> str:
    """A finding for people: what, where, why, and what a broker does about it."""
    severity = finding.code.severity.value
    style = {"error": "bad", "warning": "warn"}.get(severity, "dim")
    place = safe(finding.file)
    if finding.position is not None:
        place += f" byte {grouped(finding.position)}"
    head = theme.paint(style, f"{severity:<7}  {finding.code.name}")
    lines = [f"{head}   {place}"]
    lines += _wrapped(safe(finding.message), width)
    lines += [theme.paint("dim", line) for line in _wrapped(finding.code.advice, width)]
    return "\n".join(lines) + "\n"


def _wrapped(words: str, width: int | None) -> list[str]:
    indent = " " * 9
    if width is None:
        return [indent + words]
    import textwrap

    return textwrap.wrap(words, max(width, 30), initial_indent=indent, subsequent_indent=indent)


def finding_json(finding: Finding) -> str:
    """A finding as a line of JSON."""
    return json_text(finding.row()) + "\n"
