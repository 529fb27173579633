"""The shape of logs: row types for `stat --plot` and the page of `report`."""

from __future__ import annotations

from kfmt_cli.rows.column import (
    LocationSource,
    RowType,
    json_column,
    milliseconds_column,
    number_column,
    text_column,
)

_TOPIC = text_column(
    "topic", "The topic; null if the directory is not named after one.", can_be_null=True
)
_COUNTS = (
    number_column("batches", "Batches."),
    number_column("records", "Records."),
    number_column("bytes", "Bytes of the batches."),
)
_TIMES = (
    milliseconds_column("min_timestamp", "The smallest timestamp.", can_be_null=True),
    milliseconds_column("max_timestamp", "The largest timestamp.", can_be_null=True),
)

TIME_BUCKET_ROW = RowType(
    "time_bucket",
    "Writes to a topic in a time range, by each batch's max timestamp.",
    (
        _TOPIC,
        milliseconds_column("from_timestamp", "Start of the range."),
        milliseconds_column("to_timestamp", "End of the range (exclusive)."),
        *_COUNTS,
    ),
)
CODEC_USE_ROW = RowType(
    "codec_use",
    "Codec usage of a topic.",
    (
        _TOPIC,
        text_column("codec", "The codec."),
        *_COUNTS,
    ),
)
TIME_ORDER_ROW = RowType(
    "time_order",
    "Timestamp order of a partition's batches.",
    (
        text_column("file", "The partition."),
        number_column("batches_with_time", "Batches that have a timestamp."),
        number_column("batches_out_of_order", "Batches older than a previous batch."),
        json_column(
            "gaps",
            "Longest gaps without a batch: start and end in milliseconds, and the offset that ends "
            "them.",
        ),
    ),
    LocationSource.PARTITION,
)
SEGMENT_MAP_ROW = RowType(
    "segment_strip",
    "A map of a log, divided into cells.",
    (
        text_column("file", "The log."),
        number_column("base_offset", "Base offset, from the file name.", can_be_null=True),
        number_column("bytes", "Its bytes."),
        number_column("batches", "Batches."),
        number_column("records", "Records."),
        number_column("last_offset", "The last offset.", can_be_null=True),
        *_TIMES,
        number_column(
            "index_entries", "Entries of its offset index; null without one.", can_be_null=True
        ),
        json_column(
            "cells",
            "Its cells with batches, each the position of its first byte, its bytes, batches, "
            "records, control batches, the codec of most of its bytes, its last offset, its "
            "largest timestamp and the entries of the index that lead to it.",
        ),
    ),
    LocationSource.FILE,
)
REPORT_ROW = RowType(
    "report",
    "Metadata of a `kfmt report` page.",
    (
        json_column("paths", "The paths that were given."),
        text_column("version", "The version of kfmt."),
        number_column("json_version", "The version of this JSON."),
        milliseconds_column("made_at", "When the page was created."),
        milliseconds_column("now", "The time at which its predictions of retention start."),
        number_column("topics", "Topics."),
        number_column("partitions", "Partition directories."),
        number_column("segments", "Logs."),
        number_column("bytes", "Bytes of the logs."),
        number_column("records", "Records declared in batch headers."),
        *_TIMES,
        json_column("answers", "Final lines of `kfmt check`."),
        json_column("left_out", "Number of objects per type that are counted but not on the page."),
        json_column("said", "Messages printed while the files were read, line by line."),
    ),
)
SHAPE_ROWS = (TIME_BUCKET_ROW, CODEC_USE_ROW, TIME_ORDER_ROW, SEGMENT_MAP_ROW, REPORT_ROW)
