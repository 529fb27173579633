"""Findings as text for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.findings.finding import Code, Finding, Severity
from kfmt_cli.render.style import Theme, fitted, grouped, safe

LABEL = 17  # columns of the label before a consequence
STYLES = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.NOTE: "dim"}


def finding_line(finding: Finding, theme: Theme, width: int | None = None) -> str:
    """A finding for people: what, where, why, what a broker does about it, and what to do."""
    severity = finding.code.severity
    head = theme.paint(STYLES[severity], f"{severity.value:<7}  {finding.code.name}")
    lines = [f"{head}   {place_words(finding)}"]
    lines += wrapped(safe(finding.message), width)
    for label, words in consequences(finding.code):
        lines += [theme.paint("dim", line) for line in wrapped(words, width, label)]
    return "\n".join(lines) + "\n"


def place_words(finding: Finding) -> str:
    """The file, and the byte if known."""
    byte = "" if finding.position is None else f" byte {grouped(finding.position)}"
    return f"{safe(finding.file)}{byte}"


def consequences(code: Code) -> Iterator[tuple[str, str]]:
    """What a broker does about a finding, and what to do, each with its label.

    A next start that does the same after a crash and a clean shutdown is shown once.
    """
    same = code.after_crash == code.after_clean_shutdown
    if code.after_crash is not None:
        yield ("next start" if same else "after a crash"), code.after_crash
    if code.after_clean_shutdown is not None and not same:
        yield "clean shutdown", code.after_clean_shutdown
    if code.advice is not None:
        yield "what to do", code.advice


def wrapped(
    words: str, width: int | None, label: str = "", margin: int = 9, hanging: int | None = None
) -> list[str]:
    """Wrap words after a margin and a label; later lines are indented past the label. Words are
    never broken, as one may be a path, nor are numbers.

    hanging: margin of later lines, if different.
    """
    indent = " " * margin
    first = f"{indent}{label:<{LABEL}}" if label else indent
    least = None if width is None else max(width, 50)
    return fitted(first + words, least, len(first) if hanging is None else hanging).split("\n")


def left_out_line(code: Code, number: int) -> str:
    """Message for people: how many findings of a kind are not shown."""
    return f"         … and {grouped(number)} more {code.name}; raise --max-findings to see them\n"
