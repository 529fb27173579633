"""Options of browse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import (
    CommonOptions,
    common_options,
    optional_paths_argument,
    topic_option,
)
from kfmt_cli.cli.payload_options import add_payload_format_options
from kfmt_cli.errors import UsageError

if TYPE_CHECKING:
    from kfmt_cli.topics.payloads import PayloadDeclarations


@grouped_command(short_help="Browse a disk in the terminal.")
@optional_paths_argument
@click.option(
    "--theme",
    type=click.Choice(["dark", "light"]),
    default="dark",
    show_default=True,
    help="Initial colour theme; d toggles it.",
)
@topic_option
@add_payload_format_options
@common_options("max-decompressed")
def browse(
    paths: tuple[str, ...],
    theme: str,
    topic: str | None,
    payloads: PayloadDeclarations,
    common: CommonOptions,
) -> int:
    """Browse a disk interactively: topics, partitions, segments, batches, records, fields, bytes.

    Without PATH, browses the current directory.

    Keys are listed at the bottom; press ? for help. The line after $ is the equivalent command, for
    use in scripts. Damage is marked in the tree: n jumps to it, e explains it. Keys 1 to 9 switch
    views: sizes, damage, lag, transactions, producers, lookup, start, retention, order. Nothing is
    ever written. Without a terminal, prints the first screen. Needs pip install
    'kfmt-cli[browse]'.

    \b
    Examples:
      kfmt browse sample_segments/kafka-3.9.1-broker1
      kfmt browse sample_segments/kafka-3.9.1-broker1/txn-0/00000000000000000000.log
    """
    try:
        import textual  # noqa: F401
    except ImportError:
        raise UsageError("kfmt browse needs Textual: pip install 'kfmt-cli[browse]'") from None
    from kfmt_cli.browse.launch import open_session, run_session

    session = open_session(
        paths or (".",), topic, payloads, _decoding_options(), common.decompression_limit
    )
    return run_session(session, theme)


def _decoding_options() -> tuple[str, ...]:
    """The options for decoding keys and values, as the user gave them."""
    context = click.get_current_context()
    parameter_names = ("key_format", "key_schema", "value_format", "value_schema", "schemas")
    option_values = (
        (f"--{parameter_name.replace('_', '-')}", context.params.get(parameter_name))
        for parameter_name in parameter_names
    )
    return tuple(
        str(argument)
        for option, value in option_values
        if value is not None
        for argument in (option, value)
    )
