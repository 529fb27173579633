"""Shell completion for names that kfmt knows."""

from __future__ import annotations

import click


def complete_codes(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Codes of findings."""
    from kfmt_cli.findings.codes import finding_code_by_name

    return [name for name in finding_code_by_name() if name.startswith(incomplete)]


def complete_pages(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Names of pages of `explain`."""
    from kfmt_cli.commands.explain.pages import EXPLAIN_PAGES

    page_names = [name for name in EXPLAIN_PAGES if name.startswith(incomplete)]
    return complete_codes(context, parameter, incomplete) + page_names


def complete_formats(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Names of formats."""
    from kfmt_cli.commands.format.command import iter_format_chapters

    names = (layout.name for chapter in iter_format_chapters() for layout in chapter.layouts)
    return [name for name in names if name.lower().startswith(incomplete.lower())]


def complete_topics(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Names of internal topics."""
    from kfmt_cli.topics import DECODED_TOPICS

    return [name for name in DECODED_TOPICS if name.startswith(incomplete)]
