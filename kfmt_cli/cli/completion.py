"""What a shell offers for names that kfmt knows; they are imported when it asks."""

from __future__ import annotations

import click


def codes(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    """Kinds of findings."""
    from kfmt_cli.checks.registry import every_code

    return [name for name in every_code() if name.startswith(start)]


def pages(context: click.Context, parameter: click.Parameter, start: str) -> list[str]:
    """What `explain` has a page of."""
    from kfmt_cli.render.pages import PAGES

    found = [name for name in PAGES if name.startswith(start)]
    return codes(context, parameter, start) + found


def formats(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    """The names of formats."""
    from kfmt_cli.commands.reference import chapters

    names = (layout.name for chapter in chapters() for layout in chapter.layouts)
    return [name for name in names if name.lower().startswith(start.lower())]


def topics(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    """Internal topics."""
    from kfmt_cli.topics import TOPICS

    return [name for name in TOPICS if name.startswith(start)]
