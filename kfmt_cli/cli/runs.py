"""How a command becomes a run: its streams, its format."""

from __future__ import annotations

from dataclasses import replace

import click

from kfmt_cli.cli.options import TABLE
from kfmt_cli.cli.screen import Screen
from kfmt_cli.commands.run import Run
from kfmt_cli.findings.finding import MOST_FINDINGS
from kfmt_cli.render.formats import sink_named
from kfmt_cli.render.sinks.sink import Look
from kfmt_cli.rows.result import ResultType


def run_of(
    color: str,
    format_: str,
    type_: ResultType | None = None,
    *,
    strict: bool = False,
    max_findings: int = MOST_FINDINGS,
    look: Look | None = None,
    writes: bool = False,
) -> Run:
    """A run on the process's own streams.

    type_: of the results that it gives. writes: it makes files, whoever reads what it prints.
    """
    screen = Screen(color, goes_on=writes)
    context = click.get_current_context(silent=True)
    table = None if context is None else context.meta.get(TABLE)
    if table is not None:
        look = replace(look or Look(), table=table)
    return Run(screen, sink_named(format_)(screen, look), type_, strict, max_findings)
