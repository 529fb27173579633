"""The shape of logs: row types for `stat --plot` and the page of `report`."""

from __future__ import annotations

from kfmt_cli.rows.column import Placed, RowType, json_value, milliseconds, number, text

_TOPIC = text("topic", "The topic; null if the directory is not named after one.", null=True)
_COUNTS = (
    number("batches", "Batches."),
    number("records", "Records."),
    number("bytes", "Bytes of the batches."),
)
_TIMES = (
    milliseconds("min_timestamp", "The smallest timestamp.", null=True),
    milliseconds("max_timestamp", "The largest timestamp.", null=True),
)

TIME_BUCKET = RowType(
    "time_bucket",
    "Writes to a topic in a time range, by each batch's max timestamp.",
    (
        _TOPIC,
        milliseconds("from_timestamp", "Start of the range."),
        milliseconds("to_timestamp", "End of the range (exclusive)."),
        *_COUNTS,
    ),
)
CODEC_USE = RowType(
    "codec_use",
    "Codec usage of a topic.",
    (
        _TOPIC,
        text("codec", "The codec."),
        *_COUNTS,
    ),
)
TIME_ORDER = RowType(
    "time_order",
    "Timestamp order of a partition's batches.",
    (
        text("file", "The partition."),
        number("batches_with_time", "Batches that have a timestamp."),
        number("batches_out_of_order", "Batches older than a previous batch."),
        json_value(
            "gaps",
            "Longest gaps without a batch: start and end in milliseconds, and the offset that ends "
            "them.",
        ),
    ),
    Placed.PARTITION,
)
SEGMENT_STRIP = RowType(
    "segment_strip",
    "A map of a log, divided into cells.",
    (
        text("file", "The log."),
        number("base_offset", "Base offset, from the file name.", null=True),
        number("bytes", "Its bytes."),
        number("batches", "Batches."),
        number("records", "Records."),
        number("last_offset", "The last offset.", null=True),
        *_TIMES,
        number("index_entries", "Entries of its offset index; null without one.", null=True),
        json_value(
            "cells",
            "Its cells with batches, each the position of its first byte, its bytes, batches, "
            "records, control batches, the codec of most of its bytes, its last offset, its "
            "largest timestamp and the entries of the index that lead to it.",
        ),
    ),
    Placed.FILE,
)
PAGE = RowType(
    "report",
    "Metadata of a `kfmt report` page.",
    (
        json_value("paths", "The paths that were given."),
        text("version", "The version of kfmt."),
        number("json_version", "The version of this JSON."),
        milliseconds("made_at", "When the page was created."),
        milliseconds("now", "The time at which its predictions of retention start."),
        number("topics", "Topics."),
        number("partitions", "Partition directories."),
        number("segments", "Logs."),
        number("bytes", "Bytes of the logs."),
        number("records", "Records declared in batch headers."),
        *_TIMES,
        json_value("answers", "Final lines of `kfmt check`."),
        json_value("left_out", "Number of objects per type that are counted but not on the page."),
        json_value("said", "Messages printed while the files were read, line by line."),
    ),
)
SHAPES = (TIME_BUCKET, CODEC_USE, TIME_ORDER, SEGMENT_STRIP, PAGE)
