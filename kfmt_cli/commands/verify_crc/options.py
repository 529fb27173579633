"""Options of verify-crc."""

from __future__ import annotations

from kfmt_cli.options.common import PathsOptions, layout_option
from kfmt_cli.options.declaration import command_options, option


@command_options(
    "verify-crc",
    "Check the structure and checksum of every batch.",
    common=(
        *("lists_all", "shows_notes", "wide", "format_", "table", "color"),
        *("strict", "given_findings", "jobs", "max_decompressed"),
    ),
    shows_findings=True,
)
class VerifyCrcOptions(PathsOptions):
    """Check the structure and checksum of every batch.

    Uses CRC-32C for magic 2, and CRC-32 for magic 0 and 1, both outer and inner. Continues past
    damage. Shows the stored and computed checksum of each bad batch, one line per file, and a
    summary.

    \b
    Examples:
      kfmt verify-crc sample_segments/kafka-2.8.2
      kfmt verify-crc sample_segments/kafka-3.9.1-broker1/orders-0 --deep
      kfmt verify-crc damaged_segments --format json
    """

    deep: bool = option(
        default=False,
        help="Also decompress and decode every record, and compare counts, offsets and timestamps.",
    )
    layout: str | None = layout_option()
