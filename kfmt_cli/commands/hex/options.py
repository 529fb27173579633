"""Options of hex."""

from __future__ import annotations

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import (
    CommonOptions,
    common_options,
    layout_option,
    parse_input_path,
    private_key_option,
    topic_option,
)
from kfmt_cli.errors import UsageError


@grouped_command(name="hex", short_help="Show the bytes of a batch next to their fields.")
@private_key_option
@click.argument("file", type=parse_input_path)
@click.option("--offset", type=int, help="Show the batch that contains this offset.")
@click.option(
    "--position",
    type=click.IntRange(min=0),
    help="Show the batch or entry that contains this byte of the file.",
)
@click.option(
    "--entry",
    type=click.IntRange(min=0),
    help="Show the batch or entry with this number, counting from 0.",
)
@click.option(
    "--alone", is_flag=True, help="With --offset: show only the batch header and that record."
)
@click.option("--whole", is_flag=True, help="Show all bytes of long fields.")
@topic_option
@layout_option
@common_options("format", "color", "strict", "max-decompressed")
def hex_command(
    file: str,
    offset: int | None,
    position: int | None,
    entry: int | None,
    alone: bool,
    whole: bool,
    topic: str | None,
    layout: str | None,
    common: CommonOptions,
) -> None:
    """Show the bytes of a batch, entry or small file next to their fields and meanings.

    Attribute bits, records and varints are broken out, including those inside a compressed block,
    which are numbered from its first decompressed byte. Damage is marked in place. Without options,
    shows the first batch of a log, or the whole of any other file. FILE may be - for standard
    input, or hex: followed by the hex digits of a batch.

    \b
    Examples:
      kfmt hex sample_segments/kafka-3.9.1-broker1/orders-0/00000000000000000000.log --offset 1
      kfmt hex sample_segments/kafka-3.9.1-broker1/orders-0/00000000000000000000.index --entry 3
      kfmt hex sample_segments/kafka-3.9.1-broker1/txn-0/00000000000000000736.snapshot
      kfmt hex sample_segments/kafka-2.8.2/v1-lz4-0/00000000000000000000.log --position 0
    """
    from kfmt_cli.commands.hex.command import HexCommand

    if sum(target is not None for target in (offset, position, entry)) > 1:
        raise UsageError("use only one of --offset, --position and --entry")
    if alone and offset is None:
        raise UsageError("--alone needs --offset")
    target = offset, position, entry, alone
    HexCommand(
        common.start_run(), *target, common.decompression_limit, whole, topic, layout
    ).show_path(file)
