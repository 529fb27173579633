"""stat: what logs hold, in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.options import (
    Common,
    Size,
    color,
    common,
    jobs,
    max_decompressed,
    output_format,
    paths,
    wide,
)
from kfmt_cli.cli.selection_options import selection
from kfmt_cli.errors import UsageError

if TYPE_CHECKING:
    from kfmt_cli.commands.codec_trial import Codec
    from kfmt_cli.log.select import Asked


@click.command(short_help="Show sizes, counts, codecs and times of logs.")
@paths
@click.option(
    "--by",
    type=click.Choice(["topic", "partition", "segment"]),
    default="partition",
    show_default=True,
    help="What a row is.",
)
@click.option(
    "--sort",
    type=click.Choice(["name", "bytes", "records"]),
    default="name",
    show_default=True,
    help="What rows are sorted by; the largest first.",
)
@click.option(
    "--deep",
    is_flag=True,
    help="Also read the records: null and empty keys, tombstones, how much compression saves.",
)
@click.option("--histogram", is_flag=True, help="Draw how records and bytes are spread on batches.")
@click.option(
    "--plot",
    is_flag=True,
    help="Draw how much was written when, in which codecs, and how batches are spread.",
)
@click.option(
    "--what-if",
    multiple=True,
    metavar="CODEC[:LEVEL]",
    help="Compress a sample with another codec, and say what it would save.",
)
@click.option(
    "--sample",
    type=Size(),
    metavar="SIZE",
    help="Read slices of that size in all, such as 64M, past the broker's page cache; the numbers "
    "of all follow from them, with their error.",
)
@selection
@common(wide, output_format, color, jobs, max_decompressed)
def stat(
    paths: tuple[str, ...],
    by: str,
    sort: str,
    deep: bool,
    histogram: bool,
    plot: bool,
    what_if: tuple[str, ...],
    sample: int | None,
    asked: Asked,
    common: Common,
) -> int:
    """Show what logs hold, in numbers: bytes, batches, records, codecs, times, producers.

    From the headers of batches alone, whose checksums are not looked at: verify-crc does. Wrappers
    of magic 0 and 1 count as one record without --deep. With --key and the like, what is counted is
    the records that are wanted, and the bytes of the batches that hold them.

    \b
    Examples:
      kfmt stat sample_segments/kafka-3.9.1-broker1
      kfmt stat sample_segments/kafka-3.9.1-broker1/orders-0 --by segment --histogram
      kfmt stat sample_segments/kafka-3.9.1-broker1 --by topic --sample 1M
      kfmt stat sample_segments/kafka-3.9.1-broker1/orders-0 --plot
      kfmt stat sample_segments/kafka-3.9.1-broker1/orders-0 --deep --what-if zstd --what-if gzip:9
    """
    from kfmt_cli.commands.stat import Stat

    codecs = tuple(map(_codec, what_if))
    run = common.run()
    if asked and (deep or codecs):
        raise UsageError("--deep and --what-if look at whole batches: not with a selection")
    if sample is not None and (asked or deep or codecs or plot):
        raise UsageError(
            "--sample is for the headers of batches: not with what looks into them, nor with --plot"
        )
    task = Stat(
        run, (by,), deep, codecs, histogram, common.jobs, common.limit, asked, sample, sort, plot
    )
    task.paths(paths)
    return run.host.exit_code


def _codec(text: str) -> Codec:
    from kfmt_cli.commands.codec_trial import Codec
    from kfmt_cli.core.codecs.compress import COMPRESSORS, LEVELS

    name, colon, level = text.partition(":")
    if name not in COMPRESSORS:
        raise UsageError(f"no codec is named {name!r}; there are {', '.join(COMPRESSORS)}")
    if not colon:
        return Codec(name)
    known = LEVELS.get(name)
    if known is None or not level.lstrip("-").isdigit() or int(level) not in known:
        levels = "none" if known is None else f"{known.start} to {known.stop - 1}"
        raise UsageError(f"--what-if {text}: levels of {name}: {levels}")
    return Codec(name, int(level))
