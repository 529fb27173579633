"""request-header and response-header: decodes the headers of requests and responses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.field import BYTE_UNIT
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.messages import read_message, to_json_value
from kfmt_cli.core.layout.tagged import UNKNOWN_TAGS
from kfmt_cli.core.layout.tree import FieldNode, read_field_tree
from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.core.layout.wire_types import Int16, Int32
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.file_access import read_bytes_at
from kfmt_cli.errors import ExitCode, UsageError
from kfmt_cli.formats.api_keys import API_BY_KEY, API_BY_NAME, ApiSpec
from kfmt_cli.formats.kafka_messages import message_layout
from kfmt_cli.render.hexdump import HexDumper
from kfmt_cli.render.sinks.sink import FileHeading
from kfmt_cli.rows.column import Column, ColumnKind, RowType, number_column
from kfmt_cli.rows.columnar_rows import NestedRows, build_columnar_rows
from kfmt_cli.rows.types.anatomy import section_lines

MAX_INPUT_BYTES = 256 << 20
MIN_HEADER_BYTES = 8  # bytes of a request header without a client id
SIZE_FIELD_BYTES = 4  # bytes of the size field before each request and response
MAX_REQUEST_BYTES = 100 << 20  # default socket.request.max.bytes of a broker


_MESSAGE_COLUMNS = (
    Column(
        "position",
        doc="First byte of the message, including the size field if there is one.",
        unit=BYTE_UNIT,
    ),
    number_column("size", "Bytes after the size field; null without one.", can_be_null=True),
    number_column("header_version", "Version of the header.", can_be_null=True),
)
_TRAILING_COLUMNS = (
    Column(
        "tagged_fields",
        ColumnKind.JSON,
        "The tagged fields by tag, as base64.",
        presence_column="has_tagged",
    ),
    Column("fault", ColumnKind.TEXT, "Why decoding stopped.", presence_column="has_fault"),
)
REQUEST_HEADER_ROW = RowType(
    "request_header",
    "The header of a request.",
    (
        *_MESSAGE_COLUMNS,
        number_column("request_api_key", "API key of the request.", can_be_null=True),
        Column("api_name", ColumnKind.TEXT, "Its name; null if unknown.", presence_column="named"),
        number_column("request_api_version", "Version of the request.", can_be_null=True),
        number_column("correlation_id", "Number assigned by the client.", can_be_null=True),
        Column(
            "client_id", ColumnKind.TEXT, "Name the client sent.", presence_column="has_client_id"
        ),
        *_TRAILING_COLUMNS,
    ),
)
RESPONSE_HEADER_ROW = RowType(
    "response_header",
    "The header of a response.",
    (
        *_MESSAGE_COLUMNS,
        number_column("correlation_id", "Correlation id of the request.", can_be_null=True),
        *_TRAILING_COLUMNS,
    ),
)


@dataclass(frozen=True, slots=True)
class ProtocolHeader:
    """Position, version and layout of one header."""

    message_position: int
    """Position of the message, including its size field."""
    declared_size: int | None
    version: int
    header_start: int
    """First byte of the header."""
    message_end: int
    """End of the message, exclusive."""
    layout: Layout
    api: ApiSpec | None = None


def read_bytes_argument(text: str) -> tuple[str, bytes]:
    """The name and the bytes of a file or of hex digits; raises InputError, UsageError."""
    if text == "-" or (text and Path(text).exists()):
        name = format_display_name(text)
        data = read_bytes_at(text, 0, MAX_INPUT_BYTES, name)
        return name, _parse_hex(data.decode("ascii", "replace")) or data
    parsed_bytes = _parse_hex(text)
    if parsed_bytes is None:
        raise UsageError(f"{text!r}: neither a file nor hex digits")
    return "argument", parsed_bytes


def _parse_hex(text: str) -> bytes | None:
    """The bytes of hex digits; None for other text."""
    digits = re.sub(r"(0x|[\s:])", "", text)
    if not digits or len(digits) % 2 or re.search(r"[^0-9a-fA-F]", digits):
        return None
    return bytes.fromhex(digits)


def iter_request_headers(data: bytes, has_size_fields: bool | None) -> Iterator[ProtocolHeader]:
    """The headers of requests. has_size_fields: each has a size field; None to detect it."""
    if has_size_fields is None:
        has_size_fields = _has_size_fields(data) or not _begins_with_request(data)
    for position, size, start, end in _iter_messages(data, has_size_fields):
        api, version = None, 1
        if end - start >= 2 * Int16.size:
            api = API_BY_KEY.get(Int16.read(data, start, end)[0])
            request_version = Int16.read(data, start + Int16.size, end)[0]
            version = 1 if api is None else api.request_header_version(request_version)
        layout = layout_at_version(message_layout("RequestHeaderData"), max(version, 1))
        if version == 0:
            layout = layout.layout_before("client_id")
        yield ProtocolHeader(position, size, version, start, end, layout, api)


def iter_response_headers(
    data: bytes, has_size_fields: bool | None, version: int
) -> Iterator[ProtocolHeader]:
    """The headers of responses, all of the same version."""
    if has_size_fields is None:
        has_size_fields = _has_size_fields(data)
    for position, size, start, end in _iter_messages(data, has_size_fields):
        yield ProtocolHeader(
            position,
            size,
            version,
            start,
            end,
            layout_at_version(message_layout("ResponseHeaderData"), version),
        )


def _begins_with_request(data: bytes) -> bool:
    """Whether the bytes may begin with a known request."""
    if len(data) < MIN_HEADER_BYTES:
        return False
    api = API_BY_KEY.get(Int16.read(data, 0, len(data))[0])
    version = Int16.read(data, Int16.size, len(data))[0]
    return api is not None and api.first_version <= version <= api.last_version


def _has_size_fields(data: bytes) -> bool:
    """Whether the bytes are a sequence of messages with size fields."""
    position = 0
    while position + SIZE_FIELD_BYTES <= len(data):
        size, _ = Int32.read(data, position, len(data))
        if not SIZE_FIELD_BYTES <= size <= MAX_REQUEST_BYTES:
            return False
        position += SIZE_FIELD_BYTES + size
    return position == len(data)


def _iter_messages(
    data: bytes, has_size_fields: bool
) -> Iterator[tuple[int, int | None, int, int]]:
    """Position, declared size, first byte and end of the available bytes, of each message."""
    if not has_size_fields:
        yield 0, None, 0, len(data)
        return
    position = 0
    while position < len(data):
        if len(data) - position < SIZE_FIELD_BYTES:
            yield position, 0, position, len(data)  # `header_values` reports it
            return
        size, start = Int32.read(data, position, len(data))
        end = min(start + max(size, 0), len(data))
        yield position, size, start, end
        if size < 0:
            return
        position = end


def header_values(header: ProtocolHeader, data: bytes) -> dict[str, Any]:
    """The members of a header's row, by name."""
    message_bytes = data[header.header_start : header.message_end]
    decoded_message = read_message(header.layout, message_bytes, 0, len(message_bytes))
    values: dict[str, object] = {**decoded_message.values}
    tags = values.pop(UNKNOWN_TAGS, None)
    is_flexible = header.layout.tagged_fields is not None and decoded_message.error is None
    error_text = decoded_message.error
    if header.declared_size == 0 and header.header_start == header.message_position:
        n_trailing = header.message_end - header.header_start
        error_text = f"{n_trailing} trailing bytes are too few for a size field"
        return {"position": header.message_position, "fault": error_text}
    if (
        header.declared_size is not None
        and header.message_end - header.header_start < header.declared_size
        and error_text is None
    ):
        n_available = header.message_end - header.header_start
        error_text = (
            f"the message needs {header.declared_size} bytes, but only {n_available} are available"
        )
    return values | {
        "position": header.message_position,
        "size": header.declared_size,
        "header_version": header.version,
        "api_name": None if header.api is None else header.api.name,
        "tagged_fields": json_text(to_json_value(tags or {})) if is_flexible else None,  # type: ignore[arg-type]
        "fault": error_text,
    }


def show_headers(
    run: CommandRun, name: str, data: bytes, headers: list[ProtocolHeader], row_type: RowType
) -> None:
    """Show headers: a single one byte by byte, several with one line each."""
    header_rows = [header_values(header, data) for header in headers]
    if any(row["fault"] is not None for row in header_rows):
        run.host.raise_exit_code(ExitCode.FINDINGS)
    if run.sink.for_people and len(headers) == 1:
        header_name = row_type.name.replace("_", " ")
        _draw_header(run, f"{name}: {header_name}", data, headers[0], header_rows[0])
    else:
        rows = [tuple(row.get(column.name) for column in row_type.columns) for row in header_rows]
        writer = run.sink.begin_rows(FileHeading(name, len(data)), row_type)
        run.sink.flush()
        for chunk in writer.render(NestedRows(build_columnar_rows(row_type, rows)), 0, len(rows)):
            run.host.write(chunk)
        run.sink.write_line(writer.closing_text())


def _draw_header(
    run: CommandRun, title: str, data: bytes, header: ProtocolHeader, values: Mapping[str, Any]
) -> None:
    """Show a header byte by byte."""
    hex_dumper = HexDumper(run.sink.out.theme, run.sink.out.width, shows_all_bytes=False)
    run.sink.write_line(hex_dumper.format_title(f"{title} of version {header.version}"))
    nodes: list[FieldNode] = []
    if header.declared_size is not None:
        size_node = FieldNode(
            "size", "int32", header.message_position, header.header_start, header.declared_size
        )
        size_node.meaning = "bytes after this field"
        nodes.append(size_node)
    header_node = read_field_tree(header.layout, data, header.header_start, header.message_end)
    for child in header_node.children:
        if child.name == "request_api_key":
            child.meaning = str(values.get("api_name") or "unknown")
    nodes.append(header_node)
    if header_node.is_complete and header_node.end < header.message_end:
        body_node = FieldNode(
            "body", "bytes", header_node.end, header.message_end, meaning="not decoded"
        )
        nodes.append(body_node)
    for node_to_draw in nodes:
        for line in section_lines(node_to_draw):
            for text in hex_dumper.field_lines(line, data, 0):
                run.sink.write_line(text)
    if values["fault"] is not None and header_node.is_complete:
        run.sink.write_line(f" ✗ {values['fault']}\n")


def find_api(text: str | None) -> ApiSpec | None:
    """The API with this name or key; None for None. Raises UsageError."""
    if text is None:
        return None
    api = API_BY_KEY.get(int(text)) if text.isdigit() else API_BY_NAME.get(text.lower())
    if api is None:
        raise UsageError(f"{text!r}: not a Kafka request, by number or by name")
    return api
