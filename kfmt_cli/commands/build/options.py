"""Options of build."""

from __future__ import annotations

from typing import Any

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import (
    ByteSizeType,
    CommonOptions,
    common_options,
    force_option,
    index_interval_option,
    layout_option,
    parse_literal_path,
    validate_topic_name,
)
from kfmt_cli.errors import UsageError
from kfmt_cli.formats.batch import CODECS, TIMESTAMP_TYPES


@grouped_command(name="build", short_help="Write segments from JSON Lines or Parquet.")
@click.argument("source", metavar="SOURCE")
@click.argument("destination", metavar="DST", type=parse_literal_path)
@click.option("--batch-records", type=click.IntRange(min=1), help="Maximum records per batch.")
@click.option(
    "--batch-bytes",
    type=ByteSizeType(),
    help="Maximum bytes of records per batch, before compression. [default: 16384 without batch "
    "lines]",
)
@click.option(
    "--compression",
    type=click.Choice(CODECS),
    help="Compression codec. [default: as in the lines, else none]",
)
@click.option(
    "--magic",
    type=click.Choice(["0", "1", "2"]),
    help="Message format version. [default: as in the lines, else 2]",
)
@click.option(
    "--base-offset",
    type=click.IntRange(min=0),
    help="Base offset of the first segment, and of the first record unless its line sets one.",
)
@click.option(
    "--timestamp-type",
    type=click.Choice(TIMESTAMP_TYPES),
    help="Timestamp type. LogAppendTime uses one timestamp for the whole batch. [default: as in "
    "the lines, else CreateTime]",
)
@click.option(
    "--producer-id", type=click.IntRange(min=0), help="Producer id; batches get sequence numbers."
)
@click.option(
    "--producer-epoch",
    type=click.IntRange(0, 32767),
    help="Producer epoch. [default: as in the lines, else 0]",
)
@click.option("--transactional", is_flag=True, help="Mark batches as transactional.")
@click.option("--segment-bytes", type=ByteSizeType(), help="Roll at this size. [default: 1 GiB]")
@click.option(
    "--segment-ms",
    type=click.IntRange(min=1),
    help="Roll when a batch is this much newer than the segment's first. [default: 7 days]",
)
@click.option(
    "--segment-index-bytes",
    type=ByteSizeType(),
    help="Roll when an index reaches this size. [default: 10 MiB]",
)
@index_interval_option("The topic's index.interval.bytes.")
@click.option(
    "--topic",
    metavar="TOPIC",
    callback=validate_topic_name,
    help="Write the lines, all of one topic, under another topic's name: TOPIC-PARTITION in DST.",
)
@layout_option
@force_option
@common_options("format", "color")
def build(
    source: str,
    destination: str,
    segment_bytes: int | None,
    segment_ms: int | None,
    segment_index_bytes: int | None,
    index_interval_bytes: int,
    topic: str | None,
    layout: str | None,
    force: bool,
    common: CommonOptions,
    **batch_options: Any,
) -> None:
    """Write segments from JSON Lines in the format of dump --records --json (- is standard input),
    or from an export: its directory, or one Parquet file of records.

    Batch lines, if present, define how records are grouped and what the batch header contains;
    omitted fields are derived from the records. Without batch lines, the options group records.
    Options override lines: --compression, --producer-id and similar options change every batch,
    while --batch-records and --batch-bytes split larger ones. A record needs only a value:
    {"value":"hello"}. Records with "control" become control batches. "producer_id" and
    "transactional" are also allowed on records without a batch line. Lines that name a file go into
    that segment or KRaft snapshot as a whole; without names, or with a --segment-… option, segments
    roll as on a broker.

    Exported batches get their headers and codecs again if the export has a table of batches.
    Without it, codecs, leader epochs and empty batches are lost.

    An invalid line (unknown field, duplicate key, offsets that do not increase) stops the build
    with exit code 2 and the line number; nothing is written.

    \b
    Examples:
      kfmt build sample_segments/hand-made.jsonl DST
      kfmt build sample_segments/hand-made.jsonl DST --compression zstd --batch-records 2
    """
    from kfmt_cli.commands.build.command import (
        BUILD_RESULT_TYPE,
        BuildCommand,
        build_notes,
        parse_build_options,
    )
    from kfmt_cli.writers.rolling_writer import RollSettings

    if layout is not None:
        if topic is not None or any(value not in (None, False) for value in batch_options.values()):
            raise UsageError(f"--layout {layout} has no batches, so batch options do not apply")
        build_notes(common.start_run(writes_files=True), source, destination, force)
        return
    options = parse_build_options(**batch_options)
    default_settings = RollSettings()
    roll_settings = RollSettings(
        segment_bytes or default_settings.segment_bytes,
        segment_ms or default_settings.segment_ms,
        segment_index_bytes or default_settings.segment_index_bytes,
        index_interval_bytes,
        keeps_named_segments=not any((segment_bytes, segment_ms, segment_index_bytes)),
    )
    run = common.start_run(BUILD_RESULT_TYPE, writes_files=True)
    BuildCommand(run, options, roll_settings, topic).build(source, destination, force)
