"""The table of records: one line per record, below a dim line for each batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kfmt_cli.formats.control import CONTROL_TYPES
from kfmt_cli.render.style import COLUMN_GAP, Theme
from kfmt_cli.render.tables import batch_table
from kfmt_cli.render.tables.batch_table import CODEC_NAMES, TIME_WIDTH
from kfmt_cli.render.tables.columns import StreamedColumn, number_width
from kfmt_cli.render.template import Template, TemplateBuilder, TemplateLiterals
from kfmt_cli.rows.columnar_rows import ColumnarRows
from kfmt_cli.rows.log_tables import RecordTable
from kfmt_cli.rows.types.record import DECODED_COLUMNS

QUOTES_WIDTH = 2
NULL_VALUE = "null (tombstone)"
MIN_TEXT_WIDTH = 8
MAX_DECODED_KEY_WIDTH = 60
CONTROL_WIDTH = 40  # columns that a transaction marker and its coordinator epoch need


def batch_line_template(
    column_indexes: Mapping[str, int],
    theme: Theme,
    literals: TemplateLiterals,
    max_width: int | None,
) -> Template:
    """The template for the line of a batch above its records."""
    builder = TemplateBuilder(column_indexes, None, literals, theme=theme)
    with builder.when("crc_valid", 1):
        builder.literal(theme.dim, 0)
    with builder.when("crc_valid", 0):
        builder.literal(theme.bad, 0)
    with builder.cell(
        0 if max_width is None else max_width, may_truncate=max_width is not None, pad=False
    ):
        _write_batch_description(builder)
    builder.literal(theme.reset + "\n", 0)
    return builder.build()


def _write_batch_description(builder: TemplateBuilder) -> None:
    """Write the main properties of a batch as text."""
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
        builder.choice("compression", list(CODEC_NAMES), ("", ""))
    for name, _, meaning in batch_table.BATCH_FLAGS:
        with builder.when(name, 1):
            builder.literal(f" · {meaning}")
    with builder.when("has_producer", 1):
        builder.literal(" · producer ")
        builder.number("producer_id")
        builder.literal(" epoch ")
        builder.number("producer_epoch")


def record_columns(
    columnar_rows: ColumnarRows, bytes_mode: str, max_width: int | None
) -> list[tuple[StreamedColumn, int]]:
    """The columns for these rows and all later ones, with their widths; key, value and headers
    share the width that offset and timestamp leave."""
    rows, headers = columnar_rows.table.as_type(RecordTable), columnar_rows.children
    offset_width = max(number_width(rows.offset), len("offset"))
    shows_time = max_width is None or max_width >= 60
    longest_key = int(rows.key_size.max()) if len(rows) else 0
    shows_headers = headers.shape[1] > 0 and bool(rows.headers.any())
    if max_width is None:
        key_width, value_width, header_width, remaining_width = min(longest_key, 40), 0, 0, 0
        key_width = max(key_width + QUOTES_WIDTH, len("null"))
    else:
        remaining_width = (
            max_width
            - 1
            - offset_width
            - COLUMN_GAP
            - (TIME_WIDTH + COLUMN_GAP if shows_time else 0)
        )
        header_width = remaining_width // 4 if shows_headers and remaining_width >= 40 else 0
        shows_headers = header_width > 0
        remaining_width -= header_width + COLUMN_GAP if shows_headers else 0
        key_width = min(
            max(longest_key + QUOTES_WIDTH, len("null")), max(remaining_width // 3, MIN_TEXT_WIDTH)
        )
        value_width = max(remaining_width - key_width - COLUMN_GAP, MIN_TEXT_WIDTH)
    columns = [(_OFFSET_COLUMN, offset_width)]
    if shows_time:
        columns.append((_TIME_COLUMN, TIME_WIDTH))
    has_decoded_columns = DECODED_COLUMNS[0] in rows.index_by_name
    if has_decoded_columns:
        max_decoded_size = int(rows[f"{DECODED_COLUMNS[0]}_size"].max()) if len(rows) else 0
        max_decoded_width = (
            min(MAX_DECODED_KEY_WIDTH, max(remaining_width // 3, MIN_TEXT_WIDTH))
            if max_width
            else MAX_DECODED_KEY_WIDTH
        )
        key_width = max(key_width, min(max_decoded_size, max_decoded_width))
        value_width = (
            max(remaining_width - key_width - COLUMN_GAP, MIN_TEXT_WIDTH) if max_width else 0
        )
    max_key, max_value = (0, 0) if max_width is None else (key_width - QUOTES_WIDTH, value_width)
    columns.append((_key_column(bytes_mode, max_key, has_decoded_columns), key_width))
    columns.append((_value_column(bytes_mode, max_value, has_decoded_columns), value_width))
    if shows_headers:
        columns.append((_headers_column(bytes_mode, header_width), header_width))
    return columns


def _write_time(builder: TemplateBuilder) -> None:
    with (
        builder.unless_none("has_timestamp", 0, "none", "dim"),
        builder.unless_none("timestamp", -1),
    ):
        builder.time("timestamp")


_OFFSET_COLUMN = StreamedColumn(
    "offset",
    "offset",
    lambda rows: number_width(rows.offset),
    lambda builder: builder.number("offset"),
    hide_rank=0,
    align_right=True,
    style="offset",
)
_TIME_COLUMN = StreamedColumn(
    "timestamp", "timestamp (UTC)", lambda _: TIME_WIDTH, _write_time, hide_rank=3
)


@contextmanager
def _unless_decoded(
    builder: TemplateBuilder, name: str, max_columns: int, has_decoded_columns: bool
) -> Iterator[None]:
    """Write the decoded text, or the block in rows for which the decoder returned nothing."""
    if not has_decoded_columns:
        yield
        return
    with builder.when(f"has_{name}", 1):
        builder.cell_text(name, "utf8", max_columns)
    with builder.unless(f"has_{name}", 1):
        yield


def _key_column(bytes_mode: str, max_columns: int, has_decoded_columns: bool) -> StreamedColumn:
    def write(builder: TemplateBuilder) -> None:
        with (
            _unless_decoded(builder, DECODED_COLUMNS[0], max_columns, has_decoded_columns),
            builder.unless_none("key_size", -1, "null", "dim"),
        ):
            builder.literal('"')
            builder.cell_bytes("key", bytes_mode, max_columns)
            builder.literal('"')

    return StreamedColumn("key", "key", lambda _: 0, write, hide_rank=2)


def _value_column(bytes_mode: str, max_columns: int, has_decoded_columns: bool) -> StreamedColumn:
    null_text = NULL_VALUE if max_columns == 0 or max_columns >= len(NULL_VALUE) else "null"
    shows_epoch = max_columns == 0 or max_columns >= CONTROL_WIDTH

    def write(builder: TemplateBuilder) -> None:
        with builder.when("control", 1):
            builder.literal(builder.theme.flag, 0)
            builder.choice("control_type", list(CONTROL_TYPES), ("control type ", ""))
            if shows_epoch:
                with builder.when("has_marker", 1):
                    builder.literal(" · coordinator epoch ")
                    builder.number("coordinator_epoch")
                with builder.when("has_control_data", 1):
                    builder.literal(" · ")
                    builder.cell_text(
                        "control_data", "utf8", max(max_columns - CONTROL_WIDTH // 2, 0)
                    )
            builder.literal(builder.theme.reset, 0)
        with (
            builder.unless("control", 1),
            _unless_decoded(builder, DECODED_COLUMNS[1], max_columns, has_decoded_columns),
            builder.unless_none("value_size", -1, null_text, "dim"),
        ):
            builder.cell_text("value", bytes_mode, max_columns)

    return StreamedColumn("value", "value", lambda _: 0, write, hide_rank=1)


def _headers_column(bytes_mode: str, width: int) -> StreamedColumn:
    max_columns = max(width // 2 - 4, 4) if width else 0

    def write(builder: TemplateBuilder) -> None:
        with builder.for_each("headers", " "):
            builder.cell_bytes("key", bytes_mode, max_columns)
            builder.literal("=")
            with builder.unless_none("value_size", -1, "null"):
                builder.literal('"')
                builder.cell_bytes("value", bytes_mode, max_columns)
                builder.literal('"')

    return StreamedColumn(
        "headers",
        "headers",
        lambda _: 0,
        write,
        hide_rank=4,
        may_truncate=width > 0,
        hide_if_zero="headers",
    )
