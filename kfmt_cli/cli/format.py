"""format: the reference of the formats."""

from __future__ import annotations

import click

from kfmt_cli.cli import completion
from kfmt_cli.cli.options import Common, color, common, output_format


@click.command(name="format", short_help="Show the fields of a format.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completion.formats)
@common(output_format, color)
def format_command(
    names: tuple[str, ...],
    common: Common,
) -> int:
    """Show the fields of a format: position, type, meaning and bits.

    NAME is a format, a file name or suffix, or an internal topic. Without NAME, lists all formats.
    kfmt reads and writes using these same tables.

    \b
    Examples:
      kfmt format
      kfmt format RecordBatch
      kfmt format .snapshot
      kfmt format OffsetCommitValue --json
    """
    from kfmt_cli.commands.reference import show_formats

    run = common.run()
    show_formats(run, names)
    return run.host.exit_code
