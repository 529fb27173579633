"""How a command becomes a run: its streams, its format."""

from __future__ import annotations

from dataclasses import replace

import click

from kfmt_cli.cli.options import TABLE, Common
from kfmt_cli.cli.screen import Screen
from kfmt_cli.commands.run import Run
from kfmt_cli.render.formats import sink_named
from kfmt_cli.render.sinks.sink import Look
from kfmt_cli.rows.result import ResultType


def run_of(
    common: Common,
    type_: ResultType | None = None,
    *,
    look: Look | None = None,
    writes: bool = False,
) -> Run:
    """A run on the process's own streams.

    type_: of the results that it gives. look: how rows are shown, where more than --wide says so.
    writes: it makes files, whoever reads what it prints.
    """
    screen = Screen(common.color, goes_on=writes)
    context = click.get_current_context(silent=True)
    table = None if context is None else context.meta.get(TABLE)
    look = look or Look(wide=common.wide)
    if table is not None:
        look = replace(look, table=table)
    sink = sink_named(common.format_)(screen, look)
    return Run(screen, sink, type_, common.strict, common.max_findings)
