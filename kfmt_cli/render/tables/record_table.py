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
NULL_VALUE_TEXT = "null (tombstone)"
MIN_TEXT_WIDTH = 8
MAX_DECODED_KEY_WIDTH = 60
MIN_CONTROL_WIDTH = 40  # columns that a transaction marker and its coordinator epoch need


def batch_line_template(
    column_indexes: Mapping[str, int],
    theme: Theme,
    literals: TemplateLiterals,
    max_width: int | None,
) -> Template:
    """The template for the line of a batch above its records."""
    builder = TemplateBuilder(column_indexes, None, literals, theme=theme)
    with builder.when_equal("crc_valid", 1):
        builder.write_literal(theme.dim, 0)
    with builder.when_equal("crc_valid", 0):
        builder.write_literal(theme.bad, 0)
    with builder.fit_cell(
        0 if max_width is None else max_width, may_truncate=max_width is not None, is_padded=False
    ):
        _write_batch_description(builder)
    builder.write_literal(theme.reset + "\n", 0)
    return builder.build_template()


def _write_batch_description(builder: TemplateBuilder) -> None:
    """Write the main properties of a batch as text."""
    builder.write_literal(" batch ")
    builder.write_number("number")
    builder.write_literal(" at ")
    builder.write_number("position")
    with builder.when_equal("crc_valid", 0):
        builder.write_literal(" · bad checksum")
    with builder.when_equal("is_v2", 1):
        builder.write_literal(" · ")
        builder.write_number("records_count")
        with builder.when_equal("records_count", 1):
            builder.write_literal(" record")
        with builder.unless_equal("records_count", 1):
            builder.write_literal(" records")
    builder.write_literal(" · magic ")
    builder.write_number("magic")
    with builder.unless_equal("compression", 0):
        builder.write_literal(" · ")
        builder.write_choice("compression", list(CODEC_NAMES), ("", ""))
    for flag_column, _, meaning in batch_table.BATCH_FLAGS:
        with builder.when_equal(flag_column, 1):
            builder.write_literal(f" · {meaning}")
    with builder.when_equal("has_producer", 1):
        builder.write_literal(" · producer ")
        builder.write_number("producer_id")
        builder.write_literal(" epoch ")
        builder.write_number("producer_epoch")


def record_columns(
    columnar_rows: ColumnarRows, bytes_mode: str, max_width: int | None
) -> list[tuple[StreamedColumn, int]]:
    """The columns for these rows and all later ones, with their widths; key, value and headers
    share the width that offset and timestamp leave."""
    record_rows, header_columns = columnar_rows.table.as_type(RecordTable), columnar_rows.children
    offset_width = max(number_width(record_rows.offset), len("offset"))
    shows_time = max_width is None or max_width >= 60
    max_key_bytes = int(record_rows.key_size.max()) if len(record_rows) else 0
    shows_headers = header_columns.shape[1] > 0 and bool(record_rows.headers.any())
    if max_width is None:
        key_width, value_width, header_width, remaining_width = min(max_key_bytes, 40), 0, 0, 0
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
            max(max_key_bytes + QUOTES_WIDTH, len("null")),
            max(remaining_width // 3, MIN_TEXT_WIDTH),
        )
        value_width = max(remaining_width - key_width - COLUMN_GAP, MIN_TEXT_WIDTH)
    columns = [(_OFFSET_COLUMN, offset_width)]
    if shows_time:
        columns.append((_TIME_COLUMN, TIME_WIDTH))
    has_decoded_columns = DECODED_COLUMNS[0] in record_rows.index_by_name
    if has_decoded_columns:
        max_decoded_bytes = (
            int(record_rows[f"{DECODED_COLUMNS[0]}_size"].max()) if len(record_rows) else 0
        )
        max_decoded_width = (
            min(MAX_DECODED_KEY_WIDTH, max(remaining_width // 3, MIN_TEXT_WIDTH))
            if max_width
            else MAX_DECODED_KEY_WIDTH
        )
        key_width = max(key_width, min(max_decoded_bytes, max_decoded_width))
        value_width = (
            max(remaining_width - key_width - COLUMN_GAP, MIN_TEXT_WIDTH) if max_width else 0
        )
    max_key_width, max_value_width = (
        (0, 0) if max_width is None else (key_width - QUOTES_WIDTH, value_width)
    )
    columns.append((_key_column(bytes_mode, max_key_width, has_decoded_columns), key_width))
    columns.append((_value_column(bytes_mode, max_value_width, has_decoded_columns), value_width))
    if shows_headers:
        columns.append((_headers_column(bytes_mode, header_width), header_width))
    return columns


def _write_time(builder: TemplateBuilder) -> None:
    with (
        builder.unless_null("has_timestamp", 0, "none", "dim"),
        builder.unless_null("timestamp", -1),
    ):
        builder.write_time("timestamp")


_OFFSET_COLUMN = StreamedColumn(
    "offset",
    "offset",
    lambda rows: number_width(rows.offset),
    lambda builder: builder.write_number("offset"),
    hide_rank=0,
    align_right=True,
    style="offset",
)
_TIME_COLUMN = StreamedColumn(
    "timestamp", "timestamp (UTC)", lambda _: TIME_WIDTH, _write_time, hide_rank=3
)


@contextmanager
def _unless_decoded(
    builder: TemplateBuilder, column_name: str, max_columns: int, has_decoded_columns: bool
) -> Iterator[None]:
    """Write the decoded text, or the block in rows for which the decoder returned nothing."""
    if not has_decoded_columns:
        yield
        return
    with builder.when_equal(f"has_{column_name}", 1):
        builder.write_text_preview(column_name, "utf8", max_columns)
    with builder.unless_equal(f"has_{column_name}", 1):
        yield


def _key_column(bytes_mode: str, max_columns: int, has_decoded_columns: bool) -> StreamedColumn:
    def write_key_cell(builder: TemplateBuilder) -> None:
        with (
            _unless_decoded(builder, DECODED_COLUMNS[0], max_columns, has_decoded_columns),
            builder.unless_null("key_size", -1, "null", "dim"),
        ):
            builder.write_literal('"')
            builder.write_bytes_preview("key", bytes_mode, max_columns)
            builder.write_literal('"')

    return StreamedColumn("key", "key", lambda _: 0, write_key_cell, hide_rank=2)


def _value_column(bytes_mode: str, max_columns: int, has_decoded_columns: bool) -> StreamedColumn:
    null_text = (
        NULL_VALUE_TEXT if max_columns == 0 or max_columns >= len(NULL_VALUE_TEXT) else "null"
    )
    shows_epoch = max_columns == 0 or max_columns >= MIN_CONTROL_WIDTH

    def write_value_cell(builder: TemplateBuilder) -> None:
        with builder.when_equal("control", 1):
            builder.write_literal(builder.theme.flag, 0)
            builder.write_choice("control_type", list(CONTROL_TYPES), ("control type ", ""))
            if shows_epoch:
                with builder.when_equal("has_marker", 1):
                    builder.write_literal(" · coordinator epoch ")
                    builder.write_number("coordinator_epoch")
                with builder.when_equal("has_control_data", 1):
                    builder.write_literal(" · ")
                    builder.write_text_preview(
                        "control_data", "utf8", max(max_columns - MIN_CONTROL_WIDTH // 2, 0)
                    )
            builder.write_literal(builder.theme.reset, 0)
        with (
            builder.unless_equal("control", 1),
            _unless_decoded(builder, DECODED_COLUMNS[1], max_columns, has_decoded_columns),
            builder.unless_null("value_size", -1, null_text, "dim"),
        ):
            builder.write_text_preview("value", bytes_mode, max_columns)

    return StreamedColumn("value", "value", lambda _: 0, write_value_cell, hide_rank=1)


def _headers_column(bytes_mode: str, width: int) -> StreamedColumn:
    max_columns = max(width // 2 - 4, 4) if width else 0

    def write_headers_cell(builder: TemplateBuilder) -> None:
        with builder.for_each_child("headers", " "):
            builder.write_bytes_preview("key", bytes_mode, max_columns)
            builder.write_literal("=")
            with builder.unless_null("value_size", -1, "null"):
                builder.write_literal('"')
                builder.write_bytes_preview("value", bytes_mode, max_columns)
                builder.write_literal('"')

    return StreamedColumn(
        "headers",
        "headers",
        lambda _: 0,
        write_headers_cell,
        hide_rank=4,
        may_truncate=width > 0,
        hide_if_zero="headers",
    )
