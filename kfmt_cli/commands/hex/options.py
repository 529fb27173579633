"""Options of hex."""

from __future__ import annotations

import click

from kfmt_cli.errors import UsageError
from kfmt_cli.options.common import InputOptions, decoder_topic_option, layout_option
from kfmt_cli.options.declaration import argument, command_options, deprecated, option
from kfmt_cli.options.parameter_types import parse_input_path


@command_options(
    "hex",
    "Show the bytes of a batch next to their fields.",
    common=("format_", "table", "color", "strict", "max_decompressed"),
)
class HexOptions(InputOptions):
    """Show the bytes of a batch, entry or small file next to their fields and meanings.

    Attribute bits, records and varints are broken out, including those inside a compressed block,
    which are numbered from its first decompressed byte. Damage is marked in place. Without options,
    shows the first batch of a log, or the whole of any other file. FILE may be - for standard
    input, or pasted bytes: hex digits after hex:, base64 after base64:, b'…', or the text of xxd,
    hexdump -C or Wireshark. The exit code is that of verify-crc --deep for what is shown.

    \b
    Examples:
      kfmt hex sample_segments/kafka-3.9.1-broker1/orders-0/00000000000000000000.log --offset 1
      kfmt hex sample_segments/kafka-3.9.1-broker1/orders-0/00000000000000000000.index --entry 3
      kfmt hex sample_segments/kafka-3.9.1-broker1/txn-0/00000000000000000736.snapshot
      kfmt hex sample_segments/kafka-2.8.2/v1-lz4-0/00000000000000000000.log --position 0
      kfmt hex hex:00000000000000000000000ea7ec68030000ffffffffffffffff
    """

    file: str = argument("FILE", type=parse_input_path)
    offset: int | None = option(
        default=None, type=int, help="Show the batch that contains this offset."
    )
    position: int | None = option(
        default=None,
        type=click.IntRange(min=0),
        help="Show the batch or entry that contains this byte of the file.",
    )
    entry: int | None = option(
        default=None,
        type=click.IntRange(min=0),
        help="Show the batch or entry with this number, counting from 0.",
    )
    alone: bool = option(
        default=False, help="With --offset: show only the batch header and that record."
    )
    whole: bool = option(default=False, help="Show all bytes of long fields.")
    as_topic: str | None = decoder_topic_option()
    topic: str | None = deprecated("--topic", use="--as-topic", default=None)
    layout: str | None = layout_option()

    def __post_init__(self) -> None:
        if sum(target is not None for target in (self.offset, self.position, self.entry)) > 1:
            raise UsageError("use only one of --offset, --position and --entry")
        if self.alone and self.offset is None:
            raise UsageError("--alone needs --offset")
