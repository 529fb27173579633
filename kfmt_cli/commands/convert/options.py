"""Options of convert-v0-to-v2."""

from __future__ import annotations

import click

from kfmt_cli.cli.grouped_options import command
from kfmt_cli.cli.options import Common, Size, common, input_path, private_key, stored_path
from kfmt_cli.formats.batch import CODECS


@command(name="convert-v0-to-v2", short_help="Rewrite old message formats as magic 2.")
@private_key
@click.argument("source", metavar="SRC", type=input_path)
@click.argument("destination", metavar="DST", type=stored_path)
@click.option(
    "--compression",
    type=click.Choice(["keep", *CODECS]),
    default="keep",
    show_default=True,
    help="Codec of the new batches. keep: the wrapper's codec, or none for uncompressed messages.",
)
@click.option(
    "--batch-bytes",
    type=Size(),
    default=16384,
    show_default=True,
    help="Group uncompressed messages into batches of about this size.",
)
@click.option("--skip-damaged", is_flag=True, help="Skip damaged batches and continue.")
@common("all", "format", "color", "jobs", "max-decompressed")
def convert_v0_to_v2(
    source: str,
    destination: str,
    compression: str,
    batch_bytes: int,
    skip_damaged: bool,
    common: Common,
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
    from kfmt_cli.commands.convert.command import CONVERTED, Convert
    from kfmt_cli.writing.build.drafts import BatchBounds
    from kfmt_cli.writing.convert.converter import Converter

    codec = None if compression == "keep" else compression
    converter = Converter(codec, BatchBounds(batch_bytes), common.limit, common.jobs)
    run = common.run(CONVERTED, writes=True)
    Convert(run, converter, skip_damaged).convert(source, destination)
