"""Options of verify-crc."""

from __future__ import annotations

from kfmt_cli.options.common import (
    FINDING_OPTIONS,
    TopicFilterOptions,
    format_option,
    layout_option,
)
from kfmt_cli.options.declaration import command_options, option
from kfmt_cli.render.output_formats import FINDING_FORMATS, OUTPUT_FORMATS


@command_options(
    "verify-crc",
    "Check the structure and checksum of every batch.",
    common=("table", *FINDING_OPTIONS),
    shows_findings=True,
)
class VerifyCrcOptions(TopicFilterOptions):
    """Check the structure and checksum of every batch.

    Uses CRC-32C for magic 2, and CRC-32 for magic 0 and 1, both outer and inner. Continues past
    damage. Shows the stored and computed checksum of each bad batch, one line per file, and a
    summary. PATH may be - for standard input, or pasted bytes as for hex.

    \b
    Examples:
      kfmt verify-crc sample_segments/kafka-2.8.2
      kfmt verify-crc sample_segments/kafka-3.9.1-broker1/orders-0 --deep
      kfmt verify-crc damaged_segments --format json
    """

    format_: str = format_option([*OUTPUT_FORMATS, *FINDING_FORMATS])
    deep: bool = option(
        default=False,
        help="Also decompress and decode every record, and compare counts, offsets and timestamps.",
    )
    layout: str | None = layout_option()
