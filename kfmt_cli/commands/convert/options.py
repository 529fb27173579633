"""Options of convert-v0-to-v2."""

from __future__ import annotations

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import (
    ByteSizeType,
    CommonOptions,
    common_options,
    parse_input_path,
    parse_literal_path,
    private_key_option,
)
from kfmt_cli.formats.batch import CODECS


@grouped_command(name="convert-v0-to-v2", short_help="Rewrite old message formats as magic 2.")
@private_key_option
@click.argument("source", metavar="SRC", type=parse_input_path)
@click.argument("destination", metavar="DST", type=parse_literal_path)
@click.option(
    "--compression",
    type=click.Choice(["keep", *CODECS]),
    default="keep",
    show_default=True,
    help="Codec of the new batches. keep: the wrapper's codec, or none for uncompressed messages.",
)
@click.option(
    "--batch-bytes",
    type=ByteSizeType(),
    default=16384,
    show_default=True,
    help="Group uncompressed messages into batches of about this size.",
)
@click.option("--skip-damaged", is_flag=True, help="Skip damaged batches and continue.")
@common_options("all", "format", "color", "jobs", "max-decompressed")
def convert_v0_to_v2(
    source: str,
    destination: str,
    compression: str,
    batch_bytes: int,
    skip_damaged: bool,
    common: CommonOptions,
) -> None:
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
    from kfmt_cli.commands.convert.command import CONVERT_RESULT, ConvertCommand
    from kfmt_cli.writers.build.batch_drafts import BatchBounds
    from kfmt_cli.writers.convert.converter import Converter

    codec = None if compression == "keep" else compression
    converter = Converter(codec, BatchBounds(batch_bytes), common.decompression_limit, common.jobs)
    run = common.start_run(CONVERT_RESULT, writes_files=True)
    ConvertCommand(run, converter, skip_damaged).convert(source, destination)
