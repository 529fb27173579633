"""A command whose help lists its options in titled groups, rarely needed ones last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

# The groups after a command's own options, by parameter name. Those of `Selection` are in the order
# of `_SELECTION_OPTIONS`.
OPTION_GROUPS: dict[str, Sequence[str]] = {
    "Selection": (
        *("from_offset", "to_offset", "from_time", "to_time", "key", "value", "header"),
        *("producer_id", "last", "isolation"),
    ),
    "Keys and values": (
        *("decode", "schemas", "key_format", "key_schema", "value_format", "value_schema"),
    ),
    "Output": (
        *("all_files", "lists_all", "shows_notes", "wide", "format_", "table", "color"),
        *("strict", "given_findings"),
    ),
    "Rarely needed": (
        *("throttle", "layout", "index_interval_bytes", "now", "conf", "traceback", "patience"),
        *("max_split_bytes", "jobs", "rsm_private_key", "max_decompressed"),
    ),
}
_TITLE_BY_OPTION = {name: title for title, names in OPTION_GROUPS.items() for name in names}
_ORDER_BY_OPTION = {name: position for position, name in enumerate(_TITLE_BY_OPTION)}
MAX_UNTITLED_OPTIONS = 12  # options that need no titles


class GroupedCommand(click.Command):
    """A command that lists its own options first, then those of the groups in their order; with
    titles if there are more than `MAX_UNTITLED_OPTIONS`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params.sort(key=lambda param: _ORDER_BY_OPTION.get(param.name or "", -1))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, a section for each group."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        if len(options) <= MAX_UNTITLED_OPTIONS:
            super().format_options(ctx, formatter)
            return
        sections: dict[str, list[tuple[str, str]]] = {
            title: [] for title in ("Options", *OPTION_GROUPS)
        }
        for option in options:
            if (help_record := option.get_help_record(ctx)) is not None:
                sections[_TITLE_BY_OPTION.get(option.name or "", "Options")].append(help_record)
        for title, help_records in sections.items():
            if help_records:
                with formatter.section(title):
                    formatter.write_dl(help_records)


grouped_command: Callable[..., Callable[[Callable[..., Any]], click.Command]] = partial(
    click.command, cls=GroupedCommand
)
