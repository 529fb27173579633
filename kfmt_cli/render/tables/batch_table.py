"""The table of batches, one line per batch."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from kfmt_cli.core.native.table import Table, TableColumn
from kfmt_cli.formats.control import CONTROL_TYPES
from kfmt_cli.render.tables.columns import ShownColumn, digits, or_dash
from kfmt_cli.render.template import TemplateBuilder
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.types.batch import BATCH

TIME_WIDTH = 23
CRC_WIDTH = 10
FLAGS = (
    ("transactional", "T", "transactional"),
    ("control", "C", "control"),
    ("timestamp_type", "L", "LogAppendTime"),
    ("delete_horizon", "H", "delete horizon"),
)
CODECS = BATCH["compression"].words
TYPES = BATCH["timestamp_type"].words
LEGEND = "flags: " + "  ".join(f"{letter} {meaning}" for _, letter, meaning in FLAGS)


class ShownBatches(BatchTable):
    """Batches with the columns that only this table needs."""

    __slots__ = ()

    single = TableColumn()
    single_sequence = TableColumn()
    has_producer = TableColumn()
    has_time = TableColumn()


def prepared(shown: Table) -> ShownBatches:
    """The batches with the additional columns of this table."""
    added = shown.adding([name for name in ShownBatches.known_columns if name not in shown.names])
    batches = ShownBatches(added.names, added.data)
    base, last = batches.base_offset, batches.last_offset
    batches.single = np.where(batches.has_base_offset == 1, base == last, 2)
    batches.single_sequence = np.where(
        batches.base_sequence == -1, 2, batches.base_sequence == batches.last_sequence
    )
    batches.single_sequence = np.where(batches.is_v2 == 1, batches.single_sequence, 2)
    batches.has_producer = (batches.producer_id != -1) & (batches.is_v2 == 1)
    batches.has_time = (batches.has_timestamp == 1) & (batches.max_timestamp != -1)
    return batches


def _offsets_width(batches: ShownBatches) -> int:
    """Width of the first and last offset with a dash between them."""
    last = digits(batches.last_offset)
    return last if (batches.single == 1).all() else digits(batches.base_offset) + 1 + last


def _offsets(builder: TemplateBuilder) -> None:
    with builder.when("single", 0):
        builder.number("base_offset")
        builder.literal("–")
    with builder.when("single", 2):
        builder.literal("…")
    builder.number("last_offset")


def _count(builder: TemplateBuilder) -> None:
    with builder.when("is_v2", 1):
        builder.grouped("records_count")
    with builder.when("is_v2", 0):
        with builder.when("compression", 0):
            builder.literal("1")
        with builder.unless("compression", 0):
            builder.literal("–")


def _codec(builder: TemplateBuilder) -> None:
    with builder.unless("compression", 0):
        builder.literal(builder.theme.flag, 0)
    builder.choice("compression", list(CODECS), ("", ""))
    with builder.unless("compression", 0):
        builder.literal(builder.theme.reset, 0)


def _flags(builder: TemplateBuilder) -> None:
    builder.literal(builder.theme.flag, 0)
    for name, letter, _ in FLAGS:
        with builder.when(name, 1):
            builder.literal(letter)
        with builder.unless(name, 1):
            builder.literal("·")
    builder.literal(builder.theme.reset, 0)


def _producer(builder: TemplateBuilder) -> None:
    with or_dash(builder, "has_producer"):
        builder.number("producer_id")
        builder.literal(" · epoch ")
        builder.number("producer_epoch")


def _producer_width(batches: ShownBatches) -> int:
    some = batches.has_producer == 1
    ids, epochs = batches.producer_id[some], batches.producer_epoch[some]
    return digits(ids) + len(" · epoch ") + digits(epochs) if some.any() else 1


def _sequence(builder: TemplateBuilder) -> None:
    with builder.unless_none("single_sequence", 2):
        builder.number("base_sequence")
    with builder.when("single_sequence", 0):
        builder.literal("–")
        builder.number("last_sequence")


def _sequence_width(batches: ShownBatches) -> int:
    some = batches.single_sequence != 2
    base, last = batches.base_sequence[some], batches.last_sequence[some]
    return digits(base) + 1 + digits(last) if some.any() else 1


def _crc(builder: TemplateBuilder) -> None:
    with builder.when("crc_valid", 1):
        builder.painted("good", "✓")
        builder.literal(" ")
        builder.hex32("crc")
    with builder.when("crc_valid", 0):
        builder.literal(builder.theme.bad + "✗", 1)
        builder.literal(" ")
        builder.hex32("crc")
        builder.literal(builder.theme.reset, 0)


def _crc_and_marker(builder: TemplateBuilder) -> None:
    _crc(builder)
    for number, name in enumerate(CONTROL_TYPES):
        with builder.when("control_type", number):
            builder.literal("  ")
            builder.painted("flag", name)


def _marker_width(batches: ShownBatches) -> int:
    types = set(batches.control_type.tolist())
    widths = (2 + len(name) for number, name in enumerate(CONTROL_TYPES) if number in types)
    return CRC_WIDTH + max(widths, default=0)


def _grouped(name: str) -> ShownColumn:
    return ShownColumn(
        name,
        name.removeprefix("batch_"),
        lambda batches: digits(batches[name], apart=True),
        lambda builder: builder.grouped(name),
        keep=2,
        right=True,
        cut=True,
    )


def _plain(name: str, heading: str, keep: int, given: str | None = None) -> ShownColumn:
    def write(builder: TemplateBuilder) -> None:
        with or_dash(builder, given) if given else nullcontext():
            builder.number(name)

    return ShownColumn(
        name, heading, lambda batches: digits(batches[name]), write, keep, right=True, cut=True
    )


def _timestamp(name: str, heading: str, given: str) -> ShownColumn:
    def write(builder: TemplateBuilder) -> None:
        with or_dash(builder, given):
            builder.time(name)

    return ShownColumn(name, heading, lambda _: TIME_WIDTH, write, keep=20)


DEFAULT = (
    ShownColumn(
        "offsets", "offsets", _offsets_width, _offsets, 0, right=True, style="offset", cut=True
    ),
    replace(_grouped("position"), keep=1, style="dim"),
    replace(_grouped("size"), keep=5, cut=False),
    ShownColumn(
        "records",
        "records",
        lambda b: digits(b.records_count, True),
        _count,
        3,
        right=True,
        cut=True,
    ),
    ShownColumn("codec", "codec", lambda _: max(map(len, CODECS[:5])), _codec, 4),
    ShownColumn("flags", "flags", lambda _: len(FLAGS), _flags, 6),
    replace(_plain("partition_leader_epoch", "epoch", 10, "is_v2"), name="epoch", cut=False),
    ShownColumn("producer", "producer", _producer_width, _producer, 8, cut=True),
    ShownColumn("sequence", "sequence", _sequence_width, _sequence, 9, right=True, cut=True),
    replace(
        _timestamp("max_timestamp", "max timestamp (UTC)", "has_time"), name="timestamp", keep=7
    ),
    ShownColumn("crc", "crc", lambda _: CRC_WIDTH, _crc, 2),
)
# The same followed by the content of control batches, if there are any.
CRC_AND_MARKER = ShownColumn("crc", "crc", _marker_width, _crc_and_marker, 2)
# Columns that --wide adds and --columns may name.
MORE = (
    _plain("magic", "magic", 11),
    _grouped("batch_length"),
    _plain("attributes", "attributes", 12),
    ShownColumn(
        "timestamp_type",
        "timestamp type",
        lambda _: max(map(len, TYPES)),
        lambda builder: builder.choice("timestamp_type", list(TYPES), ("", "")),
        keep=13,
        cut=True,
    ),
    _plain("last_offset_delta", "last delta", 14, "is_v2"),
    _timestamp("base_timestamp", "base timestamp (UTC)", "is_v2"),
)
