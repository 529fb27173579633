"""Shell completion for names that kfmt knows."""

from __future__ import annotations

import click

from kfmt_cli.core.lazy import import_object


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
    explain_pages = import_object("kfmt_cli.commands.explain.pages:EXPLAIN_PAGES")
    page_names = [name for name in explain_pages if name.startswith(incomplete)]
    return complete_codes(context, parameter, incomplete) + page_names


def complete_formats(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Names of formats."""
    iter_chapters = import_object("kfmt_cli.commands.format.command:iter_format_chapters")
    names = (layout.name for chapter in iter_chapters() for layout in chapter.layouts)
    return [name for name in names if name.lower().startswith(incomplete.lower())]


def complete_topics(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Names of internal topics."""
    from kfmt_cli.topics import DECODED_TOPICS

    return [name for name in DECODED_TOPICS if name.startswith(incomplete)]
