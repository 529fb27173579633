"""Options of format."""

from __future__ import annotations

from kfmt_cli.options import completion
from kfmt_cli.options.common import CommonOptions
from kfmt_cli.options.declaration import argument, command_options, option


@command_options("format", "Show the fields of a format.", common=("format_", "table", "color"))
class FormatOptions(CommonOptions):
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

    names: tuple[str, ...] = argument(
        "[NAME]...", default=(), nargs=-1, shell_complete=completion.complete_formats
    )
    json_schema: bool = option(
        default=False, help="Print the JSON Schema of the output of every command with --json."
    )
