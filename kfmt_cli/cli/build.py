"""build: segments out of JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kfmt_cli.cli.options import (
    Common,
    Size,
    color,
    common,
    force,
    index_interval,
    layout,
    output_format,
)
from kfmt_cli.errors import UsageError
from kfmt_cli.formats.batch import CODECS, TIMESTAMP_TYPES

if TYPE_CHECKING:
    from kfmt_cli.writing.build.options import Options


@click.command(name="build", short_help="Write segments from JSON lines.")
@click.argument("source", metavar="JSONL")
@click.argument("destination", metavar="DST")
@click.option("--batch-records", type=click.IntRange(min=1), help="Records in a batch at most.")
@click.option(
    "--batch-bytes",
    type=Size(),
    help="Bytes of records in a batch, before compression; 16384 without batch lines.",
)
@click.option("--compression", type=click.Choice(CODECS), help="Codec; none unless lines say one.")
@click.option(
    "--magic", type=click.Choice(["0", "1", "2"]), help="Format; 2 unless lines say another."
)
@click.option(
    "--base-offset",
    type=click.IntRange(min=0),
    help="Of the first segment, and of the first record unless its line says it.",
)
@click.option(
    "--timestamp-type",
    type=click.Choice(TIMESTAMP_TYPES),
    help="CreateTime unless lines say LogAppendTime, which is one time for all of a batch.",
)
@click.option("--producer-id", type=click.IntRange(min=0), help="Batches get sequence numbers.")
@click.option("--producer-epoch", type=click.IntRange(0, 32767), help="0 unless lines say another.")
@click.option("--transactional", is_flag=True, help="Batches belong to a transaction.")
@click.option("--segment-bytes", type=Size(), help="Roll at this size; 1 GiB without it.")
@click.option(
    "--segment-ms",
    type=click.IntRange(min=1),
    help="Roll when a batch is so much younger than the segment's first; 7 days.",
)
@click.option("--segment-index-bytes", type=Size(), help="Roll when an index is full; 10 MiB.")
@index_interval("As the topic's.")
@layout
@force
@common(output_format, color)
def build(
    source: str,
    destination: str,
    segment_bytes: int | None,
    segment_ms: int | None,
    segment_index_bytes: int | None,
    index_interval_bytes: int,
    layout: str | None,
    force: bool,
    common: Common,
    **shape: Any,
) -> int:
    """Write segments from JSON lines, as dump --records --json prints them (- is standard input).

    Batch lines, where there are any, say how records are grouped and what the header holds; leave
    a field out and it follows from the records. Without batch lines the options group them. An
    option that is given wins over the lines: --compression, --producer-id and the like change every
    batch, --batch-records and --batch-bytes cut those that are larger. A record needs no more than
    a value: {"value":"hello"}. Records with "control" make control batches; "producer_id" and
    "transactional" may be in records without a batch line, too. Lines that name a file go into
    that segment or KRaft snapshot, whole; without names, or with a --segment-… option, segments are
    rolled as a broker rolls them.

    A line that is wrong (an unknown field, a key twice, offsets that do not increase) ends the
    build with exit code 2 and its number; nothing is written then.

    \b
    Examples:
      kfmt build sample_segments/hand-made.jsonl DST
      kfmt build sample_segments/hand-made.jsonl DST --compression zstd --batch-records 2
    """
    from kfmt_cli.broker.rolling import Rolling
    from kfmt_cli.commands.build import BUILT, Build, build_notes

    if layout is not None:
        if any(part is not None and part is not False for part in shape.values()):
            raise UsageError(f"--layout {layout} has no batches: no option that shapes them")
        build_notes(common.run(writes=True), source, destination, force)
        return 0
    options = _options(**shape)
    default = Rolling()
    rolling = Rolling(
        segment_bytes or default.segment_bytes,
        segment_ms or default.segment_ms,
        segment_index_bytes or default.segment_index_bytes,
        index_interval_bytes,
        by_file=not any((segment_bytes, segment_ms, segment_index_bytes)),
    )
    run = common.run(BUILT, writes=True)
    Build(run, options, rolling).build(source, destination, force)
    return run.host.exit_code


def _options(
    magic: str | None,
    compression: str | None,
    timestamp_type: str | None,
    producer_id: int | None,
    transactional: bool,
    **others: Any,
) -> Options:
    """What shapes batches; raises UsageError for what does not go together."""
    import time

    from kfmt_cli.writing.build.options import Options

    if transactional and producer_id is None:
        raise UsageError("--transactional needs --producer-id")
    if magic == "0" and timestamp_type == "LogAppendTime":
        raise UsageError("magic 0 knows no timestamps")
    if magic in ("0", "1") and (producer_id is not None or compression == "zstd"):
        raise UsageError(f"magic {magic} knows neither producers nor zstd")
    return Options(
        magic=None if magic is None else int(magic),
        compression=compression,
        timestamp_type=None if timestamp_type is None else TIMESTAMP_TYPES.index(timestamp_type),
        producer_id=producer_id,
        transactional=transactional,
        now=int(time.time() * 1000),
        **others,
    )
