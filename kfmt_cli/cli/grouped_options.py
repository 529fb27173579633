"""A command whose help lists its options in titled groups, those that few need last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

# The groups after a command's own options, by the names of their parameters.
GROUPS: dict[str, Sequence[str]] = {
    "Selection": (
        *("from_offset", "to_offset", "from_time", "to_time", "key", "value", "header"),
        *("producer_id", "last", "isolation"),
    ),
    "Keys and values": (
        *("decode", "schemas", "key_format", "key_schema", "value_format", "value_schema"),
    ),
    "Output": (
        *("format_", "table", "wide", "color", "strict", "given_findings"),
        *("lists_all", "all_files", "shows_notes"),
    ),
    "Rarely needed": (
        *("jobs", "layout", "index_interval_bytes", "throttle", "now", "max_split_bytes"),
        *("max_decompressed", "rsm_private_key", "traceback", "patience", "conf"),
    ),
}
_TITLES = {name: title for title, names in GROUPS.items() for name in names}


FEW = 12  # options that need no groups


class GroupedCommand(click.Command):
    """Its options in groups, if it has more than a few."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, a section for each group."""
        rows: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Options", *GROUPS)}
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if row is not None:
                rows[_TITLES.get(param.name or "", "Options")].append(row)
        if sum(map(len, rows.values())) <= FEW:
            super().format_options(ctx, formatter)
            return
        for title, its in rows.items():
            if its:
                with formatter.section(title):
                    formatter.write_dl(its)


command: Callable[..., Callable[[Callable[..., Any]], click.Command]] = partial(
    click.command, cls=GroupedCommand
)
