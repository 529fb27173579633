"""The shape of logs: what is drawn of them by `stat --plot` and on the page of `report`."""

from __future__ import annotations

from kfmt_cli.rows.column import (
    Placed,
    RowType,
    json_value,
    milliseconds,
    number,
    text,
)

TIME_BUCKET = RowType(
    "time_bucket",
    "What was written to a topic in a stretch of time, by the largest timestamp of each batch.",
    (
        text("topic", "The topic; null where the directory is not named after one.", null=True),
        milliseconds("from_timestamp", "Where the stretch begins."),
        milliseconds("to_timestamp", "Where the next one begins."),
        number("batches", "Batches."),
        number("records", "Records."),
        number("bytes", "Bytes of the batches."),
    ),
)
CODEC_USE = RowType(
    "codec_use",
    "What a topic has of a codec.",
    (
        text("topic", "The topic; null where the directory is not named after one.", null=True),
        text("codec", "The codec."),
        number("batches", "Batches."),
        number("records", "Records."),
        number("bytes", "Bytes of the batches."),
    ),
)
TIME_ORDER = RowType(
    "time_order",
    "How the timestamps of a partition's batches follow one another.",
    (
        text("file", "The partition."),
        number("batches_with_time", "Batches that have a timestamp."),
        number("batches_out_of_order", "Batches whose timestamp is below an earlier one."),
        json_value(
            "gaps",
            "The longest times without a batch: begin and end in milliseconds, and the offset that "
            "ends them.",
        ),
    ),
    Placed.PARTITION,
)
SEGMENT_STRIP = RowType(
    "segment_strip",
    "A log from its first byte to its last, in cells.",
    (
        text("file", "The log."),
        number("base_offset", "Its first offset, by its name.", null=True),
        number("bytes", "Its bytes."),
        number("batches", "Batches."),
        number("records", "Records."),
        number("last_offset", "The last offset.", null=True),
        milliseconds("min_timestamp", "The smallest timestamp.", null=True),
        milliseconds("max_timestamp", "The largest timestamp.", null=True),
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
    "What a page of `kfmt report` is about.",
    (
        json_value("paths", "The paths that were given."),
        text("version", "The version of kfmt."),
        milliseconds("made_at", "When the page was made."),
        number("topics", "Topics."),
        number("partitions", "Directories of partitions."),
        number("segments", "Logs."),
        number("bytes", "Bytes of the logs."),
        number("records", "Records, as the headers of batches count them."),
        milliseconds("min_timestamp", "The smallest timestamp.", null=True),
        milliseconds("max_timestamp", "The largest timestamp.", null=True),
        json_value("answers", "What `kfmt check` says at its end, line by line."),
        json_value("left_out", "Of each type: how many objects are counted and not on the page."),
        json_value("said", "What was said while the files were read, line by line."),
    ),
)
SHAPES = (TIME_BUCKET, CODEC_USE, TIME_ORDER, SEGMENT_STRIP, PAGE)
