"""Options of build."""

from __future__ import annotations

import click

from kfmt_cli.errors import UsageError, unknown_name_error
from kfmt_cli.formats.batch import CODECS, TIMESTAMP_TYPES
from kfmt_cli.options.common import (
    CommonOptions,
    force_option,
    index_interval_option,
    layout_option,
    require_topic_name,
)
from kfmt_cli.options.declaration import argument, command_options, deprecated, option
from kfmt_cli.options.parameter_types import ByteSizeType, parse_literal_path


@command_options(
    "build",
    "Write segments from JSON Lines or Parquet.",
    common=("format_", "table", "color"),
    writes_files=True,
)
class BuildOptions(CommonOptions):
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

    Exported batches keep their headers and codecs if the export has a table of batches. Without it,
    codecs, leader epochs and empty batches are lost.

    An invalid line (unknown field, duplicate key, offsets that do not increase) stops the build
    with exit code 2 and the line number; nothing is written.

    \b
    Examples:
      kfmt build sample_segments/hand-made.jsonl DST
      kfmt build sample_segments/hand-made.jsonl DST --compression zstd --batch-records 2
    """

    source: str = argument("SOURCE")
    destination: str = argument("DST", type=parse_literal_path)
    batch_records: int | None = option(
        default=None, type=click.IntRange(min=1), help="Maximum records per batch."
    )
    batch_bytes: int | None = option(
        default=None,
        type=ByteSizeType(),
        help="Maximum bytes of records per batch, before compression. [default: 16384 without "
        "batch lines]",
    )
    compression: str | None = option(
        default=None,
        type=click.Choice(CODECS),
        help="Compression codec. [default: as in the lines, else none]",
    )
    magic: str | None = option(
        default=None,
        type=click.Choice(["0", "1", "2"]),
        help="Message format version. [default: as in the lines, else 2]",
    )
    base_offset: int | None = option(
        default=None,
        type=click.IntRange(min=0),
        help="Base offset of the first segment, and of the first record unless its line sets one.",
    )
    timestamp_type: str | None = option(
        default=None,
        type=click.Choice(TIMESTAMP_TYPES),
        help="Timestamp type. LogAppendTime uses one timestamp for the whole batch. [default: as "
        "in the lines, else CreateTime]",
    )
    producer_id: int | None = option(
        default=None,
        type=click.IntRange(min=0),
        help="Producer id; batches get sequence numbers.",
    )
    producer_epoch: int | None = option(
        default=None,
        type=click.IntRange(0, 32767),
        help="Producer epoch. [default: as in the lines, else 0]",
    )
    transactional: bool = option(default=False, help="Mark batches as transactional.")
    segment_bytes: int | None = option(
        default=None, type=ByteSizeType(), help="Roll at this size. [default: 1 GiB]"
    )
    segment_ms: int | None = option(
        default=None,
        type=click.IntRange(min=1),
        help="Roll when a batch is this much newer than the segment's first. [default: 7 days]",
    )
    segment_index_bytes: int | None = option(
        default=None,
        type=ByteSizeType(),
        help="Roll when an index reaches this size. [default: 10 MiB]",
    )
    index_interval_bytes: int = index_interval_option("The topic's index.interval.bytes.")
    as_topic: str | None = option(
        "--as",
        default=None,
        metavar="TOPIC",
        help="Write the lines, all of one topic, under another topic's name: TOPIC-PARTITION in "
        "DST.",
    )
    topic: str | None = deprecated("--topic", use="--as", default=None)
    layout: str | None = layout_option()
    force: bool = force_option()

    @property
    def target_topic(self) -> str | None:
        """The topic to write; None for the topic in the lines."""
        return self.as_topic or self.topic

    def __post_init__(self) -> None:
        require_topic_name("--topic", self.topic)
        require_topic_name("--as", self.as_topic)
        batch_values = (getattr(self, name) for name in BATCH_OPTION_NAMES)
        if self.layout is not None and (
            self.target_topic is not None
            or any(value not in (None, False) for value in batch_values)
        ):
            raise UsageError(
                f"--layout {self.layout} has no batches, so batch options do not apply"
            )
        for option_noun, option_value, known_values in (
            ("codec", self.compression, CODECS),
            ("timestamp type", self.timestamp_type, TIMESTAMP_TYPES),
        ):
            if option_value is not None and option_value not in known_values:
                raise unknown_name_error(option_noun, option_value, known_values)
        if self.transactional and self.producer_id is None:
            raise UsageError("--transactional needs --producer-id")
        if self.magic == "0" and self.timestamp_type == "LogAppendTime":
            raise UsageError("magic 0 has no timestamps")
        if self.magic in ("0", "1") and (
            self.producer_id is not None or self.compression == "zstd"
        ):
            raise UsageError(f"magic {self.magic} supports neither producers nor zstd")


# The options that determine batches.
BATCH_OPTION_NAMES = (
    *("batch_records", "batch_bytes", "compression", "magic", "base_offset", "timestamp_type"),
    *("producer_id", "producer_epoch", "transactional"),
)
