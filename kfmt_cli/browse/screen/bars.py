"""The texts of the lines around the panes."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text

from kfmt_cli.browse.views import VIEWS
from kfmt_cli.findings.finding import Finding
from kfmt_cli.render.style import escape_unprintable, format_thousands


def tabs_text(active_key: str, *, is_wide: bool) -> Text:
    """The tabs of the views. active_key: the key of the view on the screen, 0 for the browser."""
    text = Text(no_wrap=True, end="")
    for view_key, view_label in (("0", "Browse"), *((view.key, view.label) for view in VIEWS)):
        tab_style = Style(
            reverse=view_key == active_key, meta={"@click": f"app.view('{view_key}')"}
        )
        text.append(f"{view_key}{' ' if is_wide else ''}{view_label}", style=tab_style)
        text.append("  " if is_wide else " ")
    return text


def finding_text(finding: Finding, finding_index: int, n_findings: int, n_suppressed: int) -> str:
    """A finding, its number, and how many are not shown."""
    position = finding.position
    position_text = "" if position is None else f" byte {format_thousands(position)}"
    description = f"{finding.code.name}{position_text}: {escape_unprintable(finding.message)}"
    suppressed_note = f", {format_thousands(n_suppressed)} more not shown" if n_suppressed else ""
    return f"{finding_index + 1} of {n_findings}{suppressed_note} (e explains)  {description}"
