"""Findings as text for people and as JSON."""

from __future__ import annotations

from kfmt_cli.findings.finding import Finding, FindingCode, Severity
from kfmt_cli.render.style import Theme, escape_unprintable, format_thousands, wrap_long_lines

LABEL_WIDTH = 17  # columns of the label before a consequence
STYLE_BY_SEVERITY = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.NOTE: "dim"}


def format_finding(finding: Finding, theme: Theme, width: int | None = None) -> str:
    """A finding as text for people: code, location, message, what a broker does about it, and what
    to do."""
    severity = finding.code.severity
    heading = theme.paint(STYLE_BY_SEVERITY[severity], f"{severity.value:<7}  {finding.code.name}")
    lines = [f"{heading}   {format_location(finding)}"]
    lines += wrap_labelled_text(escape_unprintable(finding.message), width)
    for label, text in finding.code.consequences:
        lines += [theme.paint("dim", line) for line in wrap_labelled_text(text, width, label)]
    return "\n".join(lines) + "\n"


def format_location(finding: Finding) -> str:
    """The file of a finding, and the byte if known."""
    position_text = (
        "" if finding.position is None else f" byte {format_thousands(finding.position)}"
    )
    return f"{escape_unprintable(finding.file)}{position_text}"


def wrap_labelled_text(
    text: str,
    width: int | None,
    label: str = "",
    margin_columns: int = 9,
    hanging_indent: int | None = None,
) -> list[str]:
    """Wrap text after a margin and a label; later lines are indented past the label. Words are
    never broken, as one may be a path, nor are numbers.

    hanging_indent: indent of later lines in columns; None to indent them past the label.
    """
    indent = " " * margin_columns
    first_prefix = f"{indent}{label:<{LABEL_WIDTH}}" if label else indent
    min_width = None if width is None else max(width, 50)
    return wrap_long_lines(
        first_prefix + text,
        min_width,
        len(first_prefix) if hanging_indent is None else hanging_indent,
    ).split("\n")


def format_suppressed(code: FindingCode, n_suppressed: int) -> str:
    """The line that reports how many findings of a kind are not shown."""
    return (
        f"         … and {format_thousands(n_suppressed)} more {code.name}; raise "
        "--max-findings to see them\n"
    )
