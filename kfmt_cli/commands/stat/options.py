"""Options of stat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import ByteSizeType, CommonOptions, common_options, paths_argument
from kfmt_cli.cli.selection_options import add_selection_options
from kfmt_cli.core.integers import parse_int
from kfmt_cli.errors import UsageError, unknown_name_error

if TYPE_CHECKING:
    from kfmt_cli.commands.stat.codec_trial import CodecTrial
    from kfmt_cli.log.selection.selection import SelectionOptions


@grouped_command(short_help="Show log sizes, counts, codecs and timestamps.")
@paths_argument
@click.option(
    "--by",
    type=click.Choice(["topic", "partition", "segment"]),
    default="partition",
    show_default=True,
    help="What each row represents.",
)
@click.option(
    "--sort",
    type=click.Choice(["name", "bytes", "records"]),
    default="name",
    show_default=True,
    help="Sort rows by this, largest first.",
)
@click.option(
    "--deep",
    is_flag=True,
    help="Also read records: null and empty keys, tombstones, compression ratio.",
)
@click.option("--histogram", is_flag=True, help="Plot batch sizes: records and bytes per batch.")
@click.option(
    "--plot",
    is_flag=True,
    help="Plot writes over time, codecs and batch sizes.",
)
@click.option(
    "--what-if",
    multiple=True,
    metavar="CODEC[:LEVEL]",
    help="Recompress a sample with another codec and show the savings.",
)
@click.option(
    "--sample",
    type=ByteSizeType(),
    metavar="SIZE",
    help="Sample this many bytes in total, e.g. 64M, bypassing the broker's page cache, and "
    "extrapolate with error margins.",
)
@add_selection_options
@common_options("wide", "format", "color", "jobs", "max-decompressed")
def stat(
    paths: tuple[str, ...],
    by: str,
    sort: str,
    deep: bool,
    histogram: bool,
    plot: bool,
    what_if: tuple[str, ...],
    sample: int | None,
    asked: SelectionOptions,
    common: CommonOptions,
) -> None:
    """Show log statistics: bytes, batches, records, codecs, timestamps and producers.

    Reads batch headers only and does not verify checksums; use verify-crc for that. Without --deep,
    a compressed magic 0 or 1 wrapper counts as one record. With record filters such as --key,
    counts the matching records, and the bytes of the batches that contain them.

    \b
    Examples:
      kfmt stat sample_segments/kafka-3.9.1-broker1
      kfmt stat sample_segments/kafka-3.9.1-broker1/orders-0 --by segment --histogram
      kfmt stat sample_segments/kafka-3.9.1-broker1 --by topic --sample 1M
      kfmt stat sample_segments/kafka-3.9.1-broker1/orders-0 --plot
      kfmt stat sample_segments/kafka-3.9.1-broker1/orders-0 --deep --what-if zstd --what-if gzip:9
    """
    from kfmt_cli.commands.stat.command import StatCommand

    codec_trials = tuple(map(_parse_codec_trial, what_if))
    run = common.start_run()
    if asked and (deep or codec_trials):
        raise UsageError(
            "--deep and --what-if need whole batches and cannot be combined with record filters"
        )
    if sample is not None and (asked or deep or codec_trials or plot):
        raise UsageError(
            "--sample reads batch headers only and cannot be combined with --plot, with record "
            "filters or with options that read records"
        )
    stat_command = StatCommand(
        run,
        (by,),
        deep,
        codec_trials,
        histogram,
        common.jobs,
        common.decompression_limit,
        asked,
        sample,
        sort,
        plot,
    )
    stat_command.show_paths(paths)


def _parse_codec_trial(codec_text: str) -> CodecTrial:
    from kfmt_cli.commands.stat.codec_trial import CodecTrial
    from kfmt_cli.core.codecs.compress import COMPRESSION_LEVELS, COMPRESSORS

    codec_name, separator, level_text = codec_text.partition(":")
    if codec_name not in COMPRESSORS:
        raise unknown_name_error("codec", codec_name, COMPRESSORS)
    if not separator:
        return CodecTrial(codec_name)
    level_range, level = COMPRESSION_LEVELS.get(codec_name), parse_int(level_text)
    if level_range is None or level is None or level not in level_range:
        levels_text = (
            "none" if level_range is None else f"{level_range.start} to {level_range.stop - 1}"
        )
        raise UsageError(f"--what-if {codec_text}: {codec_name} supports levels {levels_text}")
    return CodecTrial(codec_name, level)
