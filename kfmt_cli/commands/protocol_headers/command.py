"""request-header and response-header: decodes the headers of requests and responses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.protocol_headers.options import RequestHeaderOptions, ResponseHeaderOptions
from kfmt_cli.core.integers import parse_int
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
from kfmt_cli.rows.types.anatomy import structure_lines

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
    number_column(
        "header_version",
        "Version of the header; null for a request that kfmt does not know.",
        can_be_null=True,
    ),
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
    version: int | None
    """None for an unknown request: the fields of version 1, which version 2 continues, are read."""
    header_start: int
    """First byte of the header."""
    message_end: int
    """End of the message, exclusive."""
    layout: Layout
    api: ApiSpec | None = None


def read_bytes_argument(argument: str) -> tuple[str, bytes]:
    """The name and the bytes of a file or of hex digits; raises InputError, UsageError."""
    if argument == "-" or (argument and Path(argument).exists()):
        display_name = format_display_name(argument)
        file_bytes = read_bytes_at(argument, 0, MAX_INPUT_BYTES, display_name)
        return display_name, _parse_hex(file_bytes.decode("ascii", "replace")) or file_bytes
    parsed_bytes = _parse_hex(argument)
    if parsed_bytes is None:
        raise UsageError(f"{argument!r}: neither a file nor hex digits")
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
    for message_position, declared_size, header_start, message_end in _iter_messages(
        data, has_size_fields
    ):
        api, header_version = None, None
        if message_end - header_start >= 2 * Int16.size:
            api = API_BY_KEY.get(Int16.read(data, header_start, message_end)[0])
            request_version = Int16.read(data, header_start + Int16.size, message_end)[0]
            header_version = None if api is None else api.request_header_version(request_version)
        layout = layout_at_version(message_layout("RequestHeaderData"), header_version or 1)
        if header_version == 0:
            layout = layout.layout_before_field("client_id")
        yield ProtocolHeader(
            message_position, declared_size, header_version, header_start, message_end, layout, api
        )


def iter_response_headers(
    data: bytes, has_size_fields: bool | None, header_version: int
) -> Iterator[ProtocolHeader]:
    """The headers of responses, all of the same version."""
    if has_size_fields is None:
        has_size_fields = _has_size_fields(data)
    for message_position, declared_size, header_start, message_end in _iter_messages(
        data, has_size_fields
    ):
        yield ProtocolHeader(
            message_position,
            declared_size,
            header_version,
            header_start,
            message_end,
            layout_at_version(message_layout("ResponseHeaderData"), header_version),
        )


def _begins_with_request(data: bytes) -> bool:
    """Whether the bytes may begin with a known request."""
    if len(data) < MIN_HEADER_BYTES:
        return False
    api = API_BY_KEY.get(Int16.read(data, 0, len(data))[0])
    request_version = Int16.read(data, Int16.size, len(data))[0]
    return api is not None and api.first_version <= request_version <= api.last_version


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
            yield position, 0, position, len(data)  # `header_row_members` reports it
            return
        declared_size, content_start = Int32.read(data, position, len(data))
        content_end = min(content_start + max(declared_size, 0), len(data))
        yield position, declared_size, content_start, content_end
        if declared_size < 0:
            return
        position = content_end


def header_row_members(header: ProtocolHeader, data: bytes) -> dict[str, Any]:
    """The members of a header's row, by name."""
    message_bytes = data[header.header_start : header.message_end]
    decoded_message = read_message(header.layout, message_bytes, 0, len(message_bytes))
    row_members: dict[str, object] = {**decoded_message.values}
    unknown_tags = row_members.pop(UNKNOWN_TAGS, None)
    is_flexible = header.layout.tagged_fields is not None and decoded_message.error is None
    error_text = decoded_message.error
    if header.declared_size == 0 and header.header_start == header.message_position:
        n_trailing_bytes = header.message_end - header.header_start
        error_text = f"{n_trailing_bytes} trailing bytes are too few for a size field"
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
    return row_members | {
        "position": header.message_position,
        "size": header.declared_size,
        "header_version": header.version,
        "api_name": None if header.api is None else header.api.name,
        "tagged_fields": json_text(to_json_value(unknown_tags or {})) if is_flexible else None,  # type: ignore[arg-type]
        "fault": error_text,
    }


@dataclass(slots=True)
class RequestHeaderCommand:
    """One call of `request-header`."""

    run: CommandRun
    options: RequestHeaderOptions

    def execute(self) -> None:
        """Show the headers; raises UsageError."""
        with self.run.catch_input_errors():
            name, data = read_bytes_argument(self.options.source)
            headers = list(iter_request_headers(data, self.options.framed))
            _show_headers(self.run, name, data, headers, REQUEST_HEADER_ROW)


@dataclass(slots=True)
class ResponseHeaderCommand:
    """One call of `response-header`."""

    run: CommandRun
    options: ResponseHeaderOptions

    def execute(self) -> None:
        """Show the headers; raises UsageError."""
        header_version = self._header_version
        with self.run.catch_input_errors():
            name, data = read_bytes_argument(self.options.source)
            headers = list(iter_response_headers(data, self.options.framed, header_version))
            _show_headers(self.run, name, data, headers, RESPONSE_HEADER_ROW)

    @property
    def _header_version(self) -> int:
        api, api_version = parse_api(self.options.api), self.options.api_version
        if api is None or api_version is None:
            return 0
        if api_version > api.last_version:
            raise UsageError(f"{api.name} has versions up to {api.last_version}, not {api_version}")
        return api.response_header_version(api_version)


def _show_headers(
    run: CommandRun, source_name: str, data: bytes, headers: list[ProtocolHeader], row_type: RowType
) -> None:
    """Show headers: a single one byte by byte, several with one line each."""
    header_rows = [header_row_members(header, data) for header in headers]
    if any(row["fault"] is not None for row in header_rows):
        run.output.raise_exit_code(ExitCode.FINDINGS)
    if run.sink.is_for_people and len(headers) == 1:
        header_name = row_type.name.replace("_", " ")
        _draw_header(run, f"{source_name}: {header_name}", data, headers[0], header_rows[0])
    else:
        cell_rows = [
            tuple(row.get(column.name) for column in row_type.columns) for row in header_rows
        ]
        writer = run.sink.begin_rows(FileHeading(source_name, len(data)), row_type)
        run.sink.flush_texts()
        for output_chunk in writer.render(
            NestedRows(build_columnar_rows(row_type, cell_rows)), 0, len(cell_rows)
        ):
            run.output.write(output_chunk)
        run.sink.write_line(writer.closing_text())


def _draw_header(
    run: CommandRun, title: str, data: bytes, header: ProtocolHeader, row_members: Mapping[str, Any]
) -> None:
    """Show a header byte by byte."""
    hex_dumper = HexDumper(run.sink.streams.theme, run.sink.streams.width, shows_all_bytes=False)
    version_text = "unknown version" if header.version is None else f"version {header.version}"
    run.sink.write_line(hex_dumper.format_title(f"{title} of {version_text}"))
    nodes: list[FieldNode] = []
    if header.declared_size is not None:
        size_node = FieldNode(
            "size", "int32", header.message_position, header.header_start, header.declared_size
        )
        size_node.meaning = "bytes after this field"
        nodes.append(size_node)
    header_node = read_field_tree(header.layout, data, header.header_start, header.message_end)
    for field_node in header_node.children:
        if field_node.name == "request_api_key":
            field_node.meaning = str(row_members.get("api_name") or "unknown")
    nodes.append(header_node)
    if header_node.is_complete and header_node.end < header.message_end:
        body_node = FieldNode(
            "body" if header.version is not None else "rest",
            "bytes",
            header_node.end,
            header.message_end,
            meaning="not decoded",
        )
        nodes.append(body_node)
    for node_to_draw in nodes:
        for anatomy_line in structure_lines(node_to_draw):
            for output_line in hex_dumper.format_field_lines(anatomy_line, data, 0):
                run.sink.write_line(output_line)
    if row_members["fault"] is not None and header_node.is_complete:
        run.sink.write_line(f" ✗ {row_members['fault']}\n")


def parse_api(name_or_key: str | None) -> ApiSpec | None:
    """The API with this name or key; None for None. Raises UsageError."""
    if name_or_key is None:
        return None
    api_key = parse_int(name_or_key)
    api = API_BY_NAME.get(name_or_key.lower()) if api_key is None else API_BY_KEY.get(api_key)
    if api is None:
        raise UsageError(f"{name_or_key!r}: not a Kafka request, by number or by name")
    return api
