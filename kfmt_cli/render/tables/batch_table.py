"""The table of batches, one line per batch."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from kfmt_cli.core.table import Table, TableColumn
from kfmt_cli.formats.control import CONTROL_TYPES
from kfmt_cli.render.tables.columns import StreamedColumn, number_width, write_when_equal_or_dash
from kfmt_cli.render.template import TemplateBuilder
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.types.batch import BATCH_ROW

TIME_WIDTH = 23
CRC_WIDTH = 10
BATCH_FLAGS = (
    ("transactional", "T", "transactional"),
    ("control", "C", "control"),
    ("timestamp_type", "L", "LogAppendTime"),
    ("delete_horizon", "H", "delete horizon"),
)
CODEC_NAMES = BATCH_ROW["compression"].choices
TIMESTAMP_TYPE_NAMES = BATCH_ROW["timestamp_type"].choices
FLAGS_LEGEND = "flags: " + "  ".join(f"{letter} {meaning}" for _, letter, meaning in BATCH_FLAGS)


class DisplayedBatches(BatchTable):
    """Batches with the columns that only this table needs."""

    __slots__ = ()

    single = TableColumn()
    single_sequence = TableColumn()
    has_producer = TableColumn()
    has_time = TableColumn()


def prepare_batches(table: Table) -> DisplayedBatches:
    """The batches with the additional columns of this table."""
    extended_table = table.with_columns(
        [name for name in DisplayedBatches.declared_columns if name not in table.index_by_name]
    )
    batches = DisplayedBatches(extended_table.index_by_name, extended_table.data)
    base_offsets, last_offsets = batches.base_offset, batches.last_offset
    batches.single = np.where(batches.has_base_offset == 1, base_offsets == last_offsets, 2)
    batches.single_sequence = np.where(
        batches.base_sequence == -1, 2, batches.base_sequence == batches.last_sequence
    )
    batches.single_sequence = np.where(batches.is_v2 == 1, batches.single_sequence, 2)
    batches.has_producer = (batches.producer_id != -1) & (batches.is_v2 == 1)
    batches.has_time = (batches.has_timestamp == 1) & (batches.max_timestamp != -1)
    return batches


def _offsets_width(batches: DisplayedBatches) -> int:
    """Width of the first and last offset with a dash between them, or of the offset alone if each
    batch has one."""
    last_offset_width = number_width(batches.last_offset)
    return (
        last_offset_width
        if (batches.single == 1).all()
        else number_width(batches.base_offset) + 1 + last_offset_width
    )


def _write_offsets(builder: TemplateBuilder) -> None:
    with builder.when_equal("single", 0):
        builder.write_number("base_offset")
        builder.write_literal("–")
    with builder.when_equal("single", 2):
        builder.write_literal("…")
    builder.write_number("last_offset")


def _write_record_count(builder: TemplateBuilder) -> None:
    with builder.when_equal("is_v2", 1):
        builder.write_grouped_number("records_count")
    with builder.when_equal("is_v2", 0):
        with builder.when_equal("compression", 0):
            builder.write_literal("1")
        with builder.unless_equal("compression", 0):
            builder.write_literal("–")


def _write_codec(builder: TemplateBuilder) -> None:
    with builder.unless_equal("compression", 0):
        builder.write_literal(builder.theme.flag, 0)
    builder.write_choice("compression", list(CODEC_NAMES), ("", ""))
    with builder.unless_equal("compression", 0):
        builder.write_literal(builder.theme.reset, 0)


def _write_flags(builder: TemplateBuilder) -> None:
    builder.write_literal(builder.theme.flag, 0)
    for flag_column, letter, _ in BATCH_FLAGS:
        with builder.when_equal(flag_column, 1):
            builder.write_literal(letter)
        with builder.unless_equal(flag_column, 1):
            builder.write_literal("·")
    builder.write_literal(builder.theme.reset, 0)


def _write_producer(builder: TemplateBuilder) -> None:
    with write_when_equal_or_dash(builder, "has_producer"):
        builder.write_number("producer_id")
        builder.write_literal(" · epoch ")
        builder.write_number("producer_epoch")


def _producer_width(batches: DisplayedBatches) -> int:
    producer_mask = batches.has_producer == 1
    producer_ids, producer_epochs = (
        batches.producer_id[producer_mask],
        batches.producer_epoch[producer_mask],
    )
    return (
        number_width(producer_ids) + len(" · epoch ") + number_width(producer_epochs)
        if producer_mask.any()
        else 1
    )


def _write_sequence(builder: TemplateBuilder) -> None:
    with builder.unless_null("single_sequence", 2):
        builder.write_number("base_sequence")
    with builder.when_equal("single_sequence", 0):
        builder.write_literal("–")
        builder.write_number("last_sequence")


def _sequence_width(batches: DisplayedBatches) -> int:
    sequence_mask = batches.single_sequence != 2
    base_sequences = batches.base_sequence[sequence_mask]
    last_sequences = batches.last_sequence[sequence_mask]
    return (
        number_width(base_sequences) + 1 + number_width(last_sequences)
        if sequence_mask.any()
        else 1
    )


def _write_crc(builder: TemplateBuilder) -> None:
    with builder.when_equal("crc_valid", 1):
        builder.write_styled_literal("good", "✓")
        builder.write_literal(" ")
        builder.write_hex32("crc")
    with builder.when_equal("crc_valid", 0):
        builder.write_literal(builder.theme.bad + "✗", 1)
        builder.write_literal(" ")
        builder.write_hex32("crc")
        builder.write_literal(builder.theme.reset, 0)


def _write_crc_and_marker(builder: TemplateBuilder) -> None:
    _write_crc(builder)
    for control_type, marker_name in enumerate(CONTROL_TYPES):
        with builder.when_equal("control_type", control_type):
            builder.write_literal("  ")
            builder.write_styled_literal("flag", marker_name)


def _crc_and_marker_width(batches: DisplayedBatches) -> int:
    control_types = set(batches.control_type.tolist())
    marker_widths = (
        2 + len(marker_name)
        for control_type, marker_name in enumerate(CONTROL_TYPES)
        if control_type in control_types
    )
    return CRC_WIDTH + max(marker_widths, default=0)


def _grouped_column(column_name: str) -> StreamedColumn:
    return StreamedColumn(
        column_name,
        column_name.removeprefix("batch_"),
        lambda batches: number_width(batches[column_name], is_grouped=True),
        lambda builder: builder.write_grouped_number(column_name),
        hide_rank=2,
        align_right=True,
        may_truncate=True,
    )


def _number_column(
    column_name: str, heading: str, hide_rank: int, presence_column: str | None = None
) -> StreamedColumn:
    def write_cell(builder: TemplateBuilder) -> None:
        with (
            write_when_equal_or_dash(builder, presence_column) if presence_column else nullcontext()
        ):
            builder.write_number(column_name)

    return StreamedColumn(
        column_name,
        heading,
        lambda batches: number_width(batches[column_name]),
        write_cell,
        hide_rank,
        align_right=True,
        may_truncate=True,
    )


def _time_column(column_name: str, heading: str, presence_column: str) -> StreamedColumn:
    def write_cell(builder: TemplateBuilder) -> None:
        with write_when_equal_or_dash(builder, presence_column):
            builder.write_time(column_name)

    return StreamedColumn(column_name, heading, lambda _: TIME_WIDTH, write_cell, hide_rank=20)


DEFAULT_COLUMNS = (
    StreamedColumn(
        "offsets",
        "offsets",
        _offsets_width,
        _write_offsets,
        0,
        align_right=True,
        style="offset",
        may_truncate=True,
    ),
    replace(_grouped_column("position"), hide_rank=1, style="dim"),
    replace(_grouped_column("size"), hide_rank=5, may_truncate=False),
    StreamedColumn(
        "records",
        "records",
        lambda batches: number_width(batches.records_count, True),
        _write_record_count,
        3,
        align_right=True,
        may_truncate=True,
    ),
    StreamedColumn("codec", "codec", lambda _: max(map(len, CODEC_NAMES[:5])), _write_codec, 4),
    StreamedColumn("flags", "flags", lambda _: len(BATCH_FLAGS), _write_flags, 6),
    replace(
        _number_column("partition_leader_epoch", "epoch", 10, "is_v2"),
        name="epoch",
        may_truncate=False,
    ),
    StreamedColumn("producer", "producer", _producer_width, _write_producer, 8, may_truncate=True),
    StreamedColumn(
        "sequence",
        "sequence",
        _sequence_width,
        _write_sequence,
        9,
        align_right=True,
        may_truncate=True,
    ),
    replace(
        _time_column("max_timestamp", "max timestamp (UTC)", "has_time"),
        name="timestamp",
        hide_rank=7,
    ),
    StreamedColumn("crc", "crc", lambda _: CRC_WIDTH, _write_crc, 2),
)
# The column `crc`, followed by the type of the marker in control batches.
CRC_AND_MARKER_COLUMN = StreamedColumn(
    "crc", "crc", _crc_and_marker_width, _write_crc_and_marker, 2
)
# Columns that --wide adds and that --columns may select.
EXTRA_COLUMNS = (
    _number_column("magic", "magic", 11),
    _grouped_column("batch_length"),
    _number_column("attributes", "attributes", 12),
    StreamedColumn(
        "timestamp_type",
        "timestamp type",
        lambda _: max(map(len, TIMESTAMP_TYPE_NAMES)),
        lambda builder: builder.write_choice(
            "timestamp_type", list(TIMESTAMP_TYPE_NAMES), ("", "")
        ),
        hide_rank=13,
        may_truncate=True,
    ),
    _number_column("last_offset_delta", "last delta", 14, "is_v2"),
    _time_column("base_timestamp", "base timestamp (UTC)", "is_v2"),
)
