"""request-header and response-header: decodes the headers of requests and responses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfmt_cli.commands.run import Run
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.field import BYTE
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.messages import plain_value, read_message
from kfmt_cli.core.layout.tagged import UNKNOWN_TAGS
from kfmt_cli.core.layout.tree import Node, tree
from kfmt_cli.core.layout.versions import at_version
from kfmt_cli.core.layout.wire import Int16, Int32
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.opening import bytes_at
from kfmt_cli.errors import ExitCode, UsageError
from kfmt_cli.formats.api_keys import BY_KEY, BY_NAME, Api
from kfmt_cli.formats.kafka_messages import message
from kfmt_cli.render.hexdump import Hexdump
from kfmt_cli.render.sinks.sink import Head
from kfmt_cli.rows.column import Column, ColumnKind, RowType, number
from kfmt_cli.rows.section import Rows, section_of
from kfmt_cli.rows.types.anatomy import part_lines

MOST_BYTES = 256 << 20
LEAST_HEADER = 8  # bytes of a request header without a client id
SIZE = 4  # bytes of the size field before each request and response
MOST_REQUEST = 100 << 20  # default socket.request.max.bytes of a broker


_PLACE = (
    Column(
        "position",
        doc="First byte of the message, including the size field if there is one.",
        unit=BYTE,
    ),
    number("size", "Bytes after the size field; null without one.", null=True),
    number("header_version", "Version of the header.", null=True),
)
_REST = (
    Column(
        "tagged_fields", ColumnKind.JSON, "The tagged fields by tag, as base64.", given="has_tagged"
    ),
    Column("fault", ColumnKind.TEXT, "Why decoding stopped.", given="has_fault"),
)
REQUEST = RowType(
    "request_header",
    "The header of a request.",
    (
        *_PLACE,
        number("request_api_key", "API key of the request.", null=True),
        Column("api_name", ColumnKind.TEXT, "Its name; null if unknown.", given="named"),
        number("request_api_version", "Version of the request.", null=True),
        number("correlation_id", "Number assigned by the client.", null=True),
        Column("client_id", ColumnKind.TEXT, "Name the client sent.", given="has_client_id"),
        *_REST,
    ),
)
RESPONSE = RowType(
    "response_header",
    "The header of a response.",
    (*_PLACE, number("correlation_id", "Correlation id of the request.", null=True), *_REST),
)


@dataclass(frozen=True, slots=True)
class ProtocolHeader:
    """Position, version and layout of one header."""

    at: int
    """Position of the message, including its size field."""
    size: int | None
    version: int
    start: int
    """First byte of the header."""
    end: int
    """End of the message, exclusive."""
    layout: Layout
    api: Api | None = None


def read_argument(text: str) -> tuple[str, bytes]:
    """The name and the bytes of a file or of hex digits; raises InputError, UsageError."""
    if text == "-" or (text and Path(text).exists()):
        name = name_text(text)
        data = bytes_at(text, 0, MOST_BYTES, name)
        return name, _of_hex(data.decode("ascii", "replace")) or data
    digits = _of_hex(text)
    if digits is None:
        raise UsageError(f"{text!r}: neither a file nor hex digits")
    return "argument", digits


def _of_hex(text: str) -> bytes | None:
    """The bytes of hex digits; None for other text."""
    digits = re.sub(r"(0x|[\s:])", "", text)
    if not digits or len(digits) % 2 or re.search(r"[^0-9a-fA-F]", digits):
        return None
    return bytes.fromhex(digits)


def requests(data: bytes, framed: bool | None) -> Iterator[ProtocolHeader]:
    """The headers of requests. framed: each has a size field; None to detect it."""
    if framed is None:
        framed = _is_framed(data) or not _is_request(data)
    for at, size, start, end in _frames(data, framed):
        api, version = None, 1
        if end - start >= 2 * Int16.size:
            api = BY_KEY.get(Int16.read(data, start, end)[0])
            of_request = Int16.read(data, start + Int16.size, end)[0]
            version = 1 if api is None else api.request_header(of_request)
        layout = at_version(message("RequestHeaderData"), max(version, 1))
        if version == 0:
            layout = layout.before("client_id")
        yield ProtocolHeader(at, size, version, start, end, layout, api)


def responses(data: bytes, framed: bool | None, version: int) -> Iterator[ProtocolHeader]:
    """The headers of responses, all of the same version."""
    if framed is None:
        framed = _is_framed(data)
    for at, size, start, end in _frames(data, framed):
        yield ProtocolHeader(
            at, size, version, start, end, at_version(message("ResponseHeaderData"), version)
        )


def _is_request(data: bytes) -> bool:
    """Whether the bytes may begin with a known request."""
    if len(data) < LEAST_HEADER:
        return False
    api = BY_KEY.get(Int16.read(data, 0, len(data))[0])
    version = Int16.read(data, Int16.size, len(data))[0]
    return api is not None and api.first <= version <= api.last


def _is_framed(data: bytes) -> bool:
    """Whether the bytes are a sequence of messages with size fields."""
    at = 0
    while at + SIZE <= len(data):
        size, _ = Int32.read(data, at, len(data))
        if not SIZE <= size <= MOST_REQUEST:
            return False
        at += SIZE + size
    return at == len(data)


def _frames(data: bytes, framed: bool) -> Iterator[tuple[int, int | None, int, int]]:
    """Each message: its position, declared size, first byte and end of the bytes present."""
    if not framed:
        yield 0, None, 0, len(data)
        return
    at = 0
    while at < len(data):
        if len(data) - at < SIZE:
            yield at, 0, at, len(data)  # `cells` reports it
            return
        size, start = Int32.read(data, at, len(data))
        end = min(start + max(size, 0), len(data))
        yield at, size, start, end
        if size < 0:
            return
        at = end


def values_of(header: ProtocolHeader, data: bytes) -> dict[str, Any]:
    """The members of a header's row, by name."""
    own = data[header.start : header.end]
    reading = read_message(header.layout, own, 0, len(own))
    values: dict[str, object] = {**reading.values}
    tags = values.pop(UNKNOWN_TAGS, None)
    flexible = header.layout.tagged is not None and reading.fault is None
    fault = reading.fault
    if header.size == 0 and header.start == header.at:
        left = header.end - header.start
        fault = f"{left} trailing bytes are too few for a size field"
        return {"position": header.at, "fault": fault}
    if header.size is not None and header.end - header.start < header.size and fault is None:
        there = header.end - header.start
        fault = f"the message needs {header.size} bytes, but only {there} are available"
    return values | {
        "position": header.at,
        "size": header.size,
        "header_version": header.version,
        "api_name": None if header.api is None else header.api.name,
        "tagged_fields": json_text(plain_value(tags or {})) if flexible else None,  # type: ignore[arg-type]
        "fault": fault,
    }


def show(
    run: Run, name: str, data: bytes, headers: list[ProtocolHeader], row_type: RowType
) -> None:
    """Show headers: a single one byte by byte, several with one line each."""
    values = [values_of(header, data) for header in headers]
    if any(its["fault"] is not None for its in values):
        run.host.reached(ExitCode.FINDINGS)
    if run.sink.for_people and len(headers) == 1:
        what = row_type.name.replace("_", " ")
        _draw(run, f"{name}: {what}", data, headers[0], values[0])
    else:
        rows = [tuple(its.get(column.name) for column in row_type.columns) for its in values]
        writer = run.sink.rows(Head(name, len(data)), row_type)
        run.sink.flush()
        for piece in writer.text(Rows(section_of(row_type, rows)), 0, len(rows)):
            run.host.write(piece)


def _draw(
    run: Run, name: str, data: bytes, header: ProtocolHeader, values: Mapping[str, Any]
) -> None:
    """Show a header byte by byte."""
    dump = Hexdump(run.sink.out.theme, run.sink.out.width, whole=False)
    run.sink.put(dump.title(f"{name} of version {header.version}"))
    nodes: list[Node] = []
    if header.size is not None:
        size = Node("size", "int32", header.at, header.start, header.size)
        size.meaning = "bytes after this field"
        nodes.append(size)
    node = tree(header.layout, data, header.start, header.end)
    for child in node.children:
        if child.name == "request_api_key":
            child.meaning = str(values.get("api_name") or "unknown")
    nodes.append(node)
    if node.is_whole and node.end < header.end:
        body = Node("body", "bytes", node.end, header.end, meaning="not decoded")
        nodes.append(body)
    for each in nodes:
        for line in part_lines(each):
            for text in dump.text(line, data, 0):
                run.sink.put(text)
    if values["fault"] is not None and node.is_whole:
        run.sink.put(f" ✗ {values['fault']}\n")


def api_of(text: str | None) -> Api | None:
    """The request with a name or number; raises UsageError."""
    if text is None:
        return None
    found = BY_KEY.get(int(text)) if text.isdigit() else BY_NAME.get(text.lower())
    if found is None:
        raise UsageError(f"{text!r}: not a Kafka request, by number or by name")
    return found
