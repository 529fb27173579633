"""Shell completion for names that kfmt knows."""

from __future__ import annotations

import click


def codes(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    """Codes of findings."""
    from kfmt_cli.checks.registry import every_code

    return [name for name in every_code() if name.startswith(start)]


def pages(context: click.Context, parameter: click.Parameter, start: str) -> list[str]:
    """Names of pages of `explain`."""
    from kfmt_cli.commands.explain.pages import PAGES

    found = [name for name in PAGES if name.startswith(start)]
    return codes(context, parameter, start) + found


def formats(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    """Names of formats."""
    from kfmt_cli.commands.format.command import chapters

    names = (layout.name for chapter in chapters() for layout in chapter.layouts)
    return [name for name in names if name.lower().startswith(start.lower())]


def topics(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    """Names of internal topics."""
    from kfmt_cli.topics import TOPICS

    return [name for name in TOPICS if name.startswith(start)]
