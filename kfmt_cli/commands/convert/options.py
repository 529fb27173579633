"""Options of convert-v0-to-v2."""

from __future__ import annotations

import click

from kfmt_cli.formats.batch import CODECS
from kfmt_cli.options.common import InputOptions
from kfmt_cli.options.declaration import argument, command_options, option
from kfmt_cli.options.parameter_types import ByteSizeType, parse_input_path, parse_literal_path

KEEP_CODEC = "keep"


@command_options(
    "convert-v0-to-v2",
    "Rewrite old message formats as magic 2.",
    common=("lists_all", "format_", "table", "color", "jobs", "max_decompressed"),
    writes_files=True,
)
class ConvertOptions(InputOptions):
    """Rewrite magic 0 and 1 logs as magic 2, for brokers that no longer accept the old formats.

    SRC is a log, a partition directory or a log directory; DST must not exist. Offsets (including
    gaps), timestamps and their type, keys and values are preserved. Each compressed wrapper becomes
    one batch; magic 2 batches are copied unchanged; checkpoints and other files are copied; indexes
    are rebuilt. Everything is read back and compared before DST appears.

    \b
    Examples:
      kfmt convert-v0-to-v2 sample_segments/kafka-2.8.2/v0-gzip-0 DST
      kfmt convert-v0-to-v2 sample_segments/kafka-0.8.2.2 DST --compression zstd
    """

    source: str = argument("SRC", type=parse_input_path)
    destination: str = argument("DST", type=parse_literal_path)
    compression: str = option(
        default=KEEP_CODEC,
        type=click.Choice([KEEP_CODEC, *CODECS]),
        help="Codec of the new batches. keep: the wrapper's codec, or none for uncompressed "
        "messages.",
    )
    batch_bytes: int = option(
        default=16384,
        type=ByteSizeType(),
        help="Group uncompressed messages into batches of about this size.",
    )
    skip_damaged: bool = option(default=False, help="Skip damaged batches and continue.")
