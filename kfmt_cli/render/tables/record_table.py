"""The table of records, one line per record, under a dim line for their batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kfmt_cli.formats.control import CONTROL_TYPES
from kfmt_cli.render.style import GAP, Theme
from kfmt_cli.render.tables import batch_table
from kfmt_cli.render.tables.batch_table import CODECS, TIME_WIDTH
from kfmt_cli.render.tables.columns import ShownColumn, digits
from kfmt_cli.render.template import Literals, Template, TemplateBuilder
from kfmt_cli.rows.log_tables import RecordTable
from kfmt_cli.rows.section import Section
from kfmt_cli.rows.types.record import DECODED

QUOTES = 2
NULL_VALUE = "null (tombstone)"
MIN_TEXT = 8
DECODED_KEY = 60
CONTROL_ROOM = 40  # for a marker and its epoch


def outer_template(
    columns: Mapping[str, int], theme: Theme, literals: Literals, screen: int | None
) -> Template:
    """The template for the line of a batch above its records."""
    builder = TemplateBuilder(columns, None, literals, theme=theme)
    with builder.when("crc_valid", 1):
        builder.literal(theme.dim, 0)
    with builder.when("crc_valid", 0):
        builder.literal(theme.bad, 0)
    with builder.cell(0 if screen is None else screen, cut=screen is not None, pad=False):
        _describe_batch(builder)
    builder.literal(theme.reset + "\n", 0)
    return builder.build()


def _describe_batch(builder: TemplateBuilder) -> None:
    """A batch's main properties, in words."""
    builder.literal(" batch ")
    builder.number("number")
    builder.literal(" at ")
    builder.number("position")
    with builder.when("crc_valid", 0):
        builder.literal(" · bad checksum")
    with builder.when("is_v2", 1):
        builder.literal(" · ")
        builder.number("records_count")
        with builder.when("records_count", 1):
            builder.literal(" record")
        with builder.unless("records_count", 1):
            builder.literal(" records")
    builder.literal(" · magic ")
    builder.number("magic")
    with builder.unless("compression", 0):
        builder.literal(" · ")
        builder.choice("compression", list(CODECS), ("", ""))
    for name, _, meaning in batch_table.FLAGS:
        with builder.when(name, 1):
            builder.literal(f" · {meaning}")
    with builder.when("has_producer", 1):
        builder.literal(" · producer ")
        builder.number("producer_id")
        builder.literal(" epoch ")
        builder.number("producer_epoch")


def columns_of(section: Section, mode: str, screen: int | None) -> list[tuple[ShownColumn, int]]:
    """The columns for these rows and all later ones: text columns share the remaining width."""
    rows, headers = section.table.typed(RecordTable), section.children
    offset = max(digits(rows.offset), len("offset"))
    with_time = screen is None or screen >= 60
    longest_key = int(rows.key_size.max()) if len(rows) else 0
    with_headers = headers.shape[1] > 0 and bool(rows.headers.any())
    if screen is None:
        key, value, header_width, left = min(longest_key, 40), 0, 0, 0
        key = max(key + QUOTES, len("null"))
    else:
        left = screen - 1 - offset - GAP - (TIME_WIDTH + GAP if with_time else 0)
        header_width = left // 4 if with_headers and left >= 40 else 0
        with_headers = header_width > 0
        left -= header_width + GAP if with_headers else 0
        key = min(max(longest_key + QUOTES, len("null")), max(left // 3, MIN_TEXT))
        value = max(left - key - GAP, MIN_TEXT)
    chosen = [(_OFFSET, offset)]
    if with_time:
        chosen.append((_TIME, TIME_WIDTH))
    decoded = DECODED[0] in rows.names
    if decoded:
        longest = int(rows[f"{DECODED[0]}_size"].max()) if len(rows) else 0
        most = min(DECODED_KEY, max(left // 3, MIN_TEXT)) if screen else DECODED_KEY
        key = max(key, min(longest, most))
        value = max(left - key - GAP, MIN_TEXT) if screen else 0
    chosen.append((_key_column(mode, 0 if screen is None else key - QUOTES, decoded), key))
    chosen.append((_value_column(mode, 0 if screen is None else value, decoded), value))
    if with_headers:
        chosen.append((_headers_column(mode, header_width), header_width))
    return chosen


def _time(builder: TemplateBuilder) -> None:
    with (
        builder.unless_none("has_timestamp", 0, "none", "dim"),
        builder.unless_none("timestamp", -1),
    ):
        builder.time("timestamp")


_OFFSET = ShownColumn(
    "offset",
    "offset",
    lambda rows: digits(rows.offset),
    lambda builder: builder.number("offset"),
    keep=0,
    right=True,
    style="offset",
)
_TIME = ShownColumn("timestamp", "timestamp (UTC)", lambda _: TIME_WIDTH, _time, keep=3)


@contextmanager
def _unless_decoded(
    builder: TemplateBuilder, name: str, limit: int, decoded: bool
) -> Iterator[None]:
    """Write the decoded text, or the block's own content if the decoder returned nothing."""
    if not decoded:
        yield
        return
    with builder.when(f"has_{name}", 1):
        builder.cell_text(name, "utf8", limit)
    with builder.unless(f"has_{name}", 1):
        yield


def _key_column(mode: str, limit: int, decoded: bool) -> ShownColumn:
    def write(builder: TemplateBuilder) -> None:
        with (
            _unless_decoded(builder, DECODED[0], limit, decoded),
            builder.unless_none("key_size", -1, "null", "dim"),
        ):
            builder.literal('"')
            builder.cell_bytes("key", mode, limit)
            builder.literal('"')

    return ShownColumn("key", "key", lambda _: 0, write, keep=2)


def _value_column(mode: str, limit: int, decoded: bool) -> ShownColumn:
    null = NULL_VALUE if limit == 0 or limit >= len(NULL_VALUE) else "null"
    with_epoch = limit == 0 or limit >= CONTROL_ROOM

    def write(builder: TemplateBuilder) -> None:
        with builder.when("control", 1):
            builder.literal(builder.theme.flag, 0)
            builder.choice("control_type", list(CONTROL_TYPES), ("control type ", ""))
            if with_epoch:
                with builder.when("has_marker", 1):
                    builder.literal(" · coordinator epoch ")
                    builder.number("coordinator_epoch")
                with builder.when("has_control_data", 1):
                    builder.literal(" · ")
                    builder.cell_text("control_data", "utf8", max(limit - CONTROL_ROOM // 2, 0))
            builder.literal(builder.theme.reset, 0)
        with (
            builder.unless("control", 1),
            _unless_decoded(builder, DECODED[1], limit, decoded),
            builder.unless_none("value_size", -1, null, "dim"),
        ):
            builder.cell_text("value", mode, limit)

    return ShownColumn("value", "value", lambda _: 0, write, keep=1)


def _headers_column(mode: str, width: int) -> ShownColumn:
    limit = max(width // 2 - 4, 4) if width else 0

    def write(builder: TemplateBuilder) -> None:
        with builder.each("headers", " "):
            builder.cell_bytes("key", mode, limit)
            builder.literal("=")
            with builder.unless_none("value_size", -1, "null"):
                builder.literal('"')
                builder.cell_bytes("value", mode, limit)
                builder.literal('"')

    return ShownColumn(
        "headers", "headers", lambda _: 0, write, keep=4, cut=width > 0, unless_zero="headers"
    )
