"""Options of browse."""

from __future__ import annotations

import click

from kfmt_cli.options.common import OptionalPathsOptions, decoder_topic_option
from kfmt_cli.options.declaration import command_options, deprecated, option
from kfmt_cli.options.payload_options import PayloadOptions


@command_options("browse", "Browse a disk in the terminal.", common=("max_decompressed",))
class BrowseOptions(PayloadOptions, OptionalPathsOptions):
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

    theme: str = option(
        default="dark",
        type=click.Choice(["dark", "light"]),
        help="Initial colour theme; d toggles it.",
    )
    as_topic: str | None = decoder_topic_option()
    topic: str | None = deprecated("--topic", use="--as-topic", default=None)

    @property
    def decoding_arguments(self) -> tuple[str, ...]:
        """The options for decoding keys and values, as the user gave them."""
        names = ("key_format", "key_schema", "value_format", "value_schema", "schemas")
        option_values = ((name, getattr(self, name)) for name in names)
        return tuple(
            argument
            for name, value in option_values
            if value is not None
            for argument in (f"--{name.replace('_', '-')}", str(value))
        )
