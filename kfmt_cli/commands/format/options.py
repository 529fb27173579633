"""Options of format."""

from __future__ import annotations

import click

from kfmt_cli.cli import completion
from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import CommonOptions, common_options


@grouped_command(name="format", short_help="Show the fields of a format.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completion.complete_formats)
@click.option(
    "--json-schema",
    is_flag=True,
    help="Print the JSON Schema of the output of every command with --json.",
)
@common_options("format", "color")
def format_command(
    names: tuple[str, ...],
    json_schema: bool,
    common: CommonOptions,
) -> None:
    """Show the fields of a format: position, type, meaning and bits.

    NAME is a format, a file name or suffix, or a topic of Kafka such as __consumer_offsets. Without
    NAME, lists all formats. kfmt reads and writes using these same tables.

    \b
    Examples:
      kfmt format
      kfmt format RecordBatch
      kfmt format .snapshot
      kfmt format OffsetCommitValue --json
      kfmt format --json-schema
    """
    from kfmt_cli.commands.format.command import show_formats

    if json_schema:
        from kfmt_cli.commands.format.json_schema import format_json_schema

        click.echo(format_json_schema(), nl=False)
        return
    run = common.start_run()
    show_formats(run, names)
