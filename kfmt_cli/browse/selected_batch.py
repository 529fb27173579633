"""The content of one batch: its records as lines, a record's fields with their bytes, its decoded
content, and the record as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.times import format_time
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.partition_path import with_location
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.anatomy.batches import BatchAnatomy
from kfmt_cli.log.anatomy.part import AnatomyPart
from kfmt_cli.log.block import Block, slice_block
from kfmt_cli.log.derived_columns import read_complete_records, record_rows
from kfmt_cli.render.row_rendering import render_rows
from kfmt_cli.render.style import COLOUR_THEME
from kfmt_cli.render.tables import record_table
from kfmt_cli.render.tables.columns import format_heading, write_row_line
from kfmt_cli.render.template import TemplateBuilder
from kfmt_cli.rows.columnar_rows import (
    HEADER_COLUMN_BY_NAME,
    ColumnarRows,
    JsonObject,
    iter_json_objects,
)
from kfmt_cli.rows.log_tables import RecordTable
from kfmt_cli.rows.types.anatomy import AnatomyLine, structure_lines
from kfmt_cli.topics.decoder import Decoder

MAX_ANATOMY_NODES = 400  # nodes of an anatomy part whose fields are listed


@dataclass(frozen=True, slots=True)
class DisplayedPart:
    """Bytes, and the fields in them."""

    title: str
    data: bytes
    base_position: int
    """The position of the first byte in the file, or 0 if the bytes were decompressed."""
    codec: str
    """The codec that the bytes were compressed with; empty for bytes of the file."""
    field_lines: tuple[AnatomyLine, ...]


class SelectedBatch:
    """The selected batch."""

    def __init__(
        self,
        file: InputFile,
        block: Block,
        batch_index: int,
        decoder: Decoder | None,
        decompression_limit: DecompressionLimit | None = None,
    ) -> None:
        self.file = file
        self._decoder = decoder
        self._decompression_limit = decompression_limit or DecompressionLimit()
        self._block = slice_block(block, batch_index, batch_index + 1)
        self._block = replace(self._block, batches=self._block.batches.copy(), findings=[])
        self.position = int(block.batches.position[batch_index])
        start_index, end_index = (
            int(block.batches.start[batch_index]),
            int(block.batches.end[batch_index]),
        )
        self._batch_data = block.data[start_index:end_index]
        self._record_columns = read_complete_records(self._block, self._decompression_limit)
        self._records = self._record_rows(as_text=True)
        self._offsets = self._records.table.as_type(RecordTable).offset
        self.findings: list[Finding] = [*self._block.findings, *self._record_columns.findings]

    def _record_rows(self, *, as_text: bool) -> ColumnarRows:
        """The records, with decoded keys and values as text for people or as JSON."""
        rows = record_rows(self._block, self._record_columns, self._decoder, as_text).inner
        assert rows is not None
        return rows

    @property
    def n_records(self) -> int:
        """The number of readable records."""
        return len(self._records)

    def record_offset(self, record_index: int) -> int:
        """The offset of a record."""
        return int(self._offsets[record_index])

    def find_record(self, offset: int) -> int:
        """The index of the record with an offset, or of the first record after it."""
        matching_indexes = (self._offsets >= offset).nonzero()[0]
        return int(matching_indexes[0]) if len(matching_indexes) else max(self.n_records - 1, 0)

    # Lines.

    def records_heading(self, width: int) -> str:
        """The table heading above the records."""
        columns = record_table.record_columns(self._records, "auto", width)
        return format_heading(columns, COLOUR_THEME).rstrip("\n") if self.n_records else ""

    def render_record_lines(self, start_index: int, end_index: int, width: int) -> list[str]:
        """Records first..last-1 as `kfmt dump --records` shows them on a screen of this width."""
        records = self._records
        end_index = min(end_index, self.n_records)
        if start_index >= end_index:
            return []
        columns = record_table.record_columns(records, "auto", width)
        template_builder = TemplateBuilder(
            records.table.index_by_name, HEADER_COLUMN_BY_NAME, theme=COLOUR_THEME
        )
        write_row_line(template_builder, columns, may_truncate=True)
        rendered_chunks = render_rows(
            template_builder.build_template(), records, start_index, end_index
        )
        return b"".join(map(bytes, rendered_chunks)).decode("utf-8", "replace").split("\n")[:-1]

    # Fields and bytes.

    def displayed_parts(self, record_index: int | None) -> list[DisplayedPart]:
        """The batch header with its bytes if `record_index` is None; otherwise the fields of that
        record, with the bytes of all records."""
        parts = list(self._iter_displayed_parts(record_index))
        if record_index is None:
            return parts[:1]
        has_decompressed_part = len(parts) > 1
        record_parts = parts[1:] if has_decompressed_part else parts
        return [
            replace(part, field_lines=_lines_after_header(part.field_lines))
            for part in record_parts
        ] or parts

    def _iter_displayed_parts(self, record_index: int | None) -> Iterator[DisplayedPart]:
        selected_index = 0 if record_index is None else record_index
        anatomy = BatchAnatomy(
            self._block,
            0,
            self._batch_data,
            self._decoder,
            self._decompression_limit,
            selected_index,
        )
        for part in anatomy.iter_parts():
            base_position = 0 if part.codec else part.position
            lines = tuple(_iter_field_lines(part, is_header=record_index is None))
            yield DisplayedPart(part.title, part.data, base_position, part.codec, lines)
            if record_index is None:
                return

    # The content of a record.

    def record_json(self, record_index: int) -> str:
        """A record as an object of the JSON contract."""
        records, record_members = self._read_raw_record(record_index)
        location_members = with_location({"file": self.file.name}, records.type.location_source)
        return json_text({"type": records.type.name, **location_members, **record_members})

    def _read_raw_record(self, record_index: int) -> tuple[ColumnarRows, JsonObject]:
        records = self._record_rows(as_text=False)
        record = records.slice_rows(record_index, record_index + 1)
        return records, next(iter_json_objects(record))

    def record_texts(self, record_index: int) -> list[tuple[str, str]]:
        """A record's content as pairs of name and text; decoded if possible, otherwise as stored.
        A text may have several lines."""
        _, record_members = self._read_raw_record(record_index)
        named_texts = [("offset", str(record_members["offset"]))]
        timestamp = record_members.get("timestamp")
        if timestamp is not None:
            named_texts.append(
                ("timestamp", "–" if timestamp == -1 else f"{format_time(timestamp)} UTC")
            )
        if record_members.get("control") is not None:
            return [
                *named_texts,
                ("control", json.dumps(record_members["control"], indent=2, ensure_ascii=False)),
            ]
        for payload_name in ("key", "value"):
            decoded_payload = record_members.get(f"decoded_{payload_name}")
            payload_text = (
                _format_payload(record_members, payload_name)
                if decoded_payload is None
                else _format_indented_json(decoded_payload)
            )
            named_texts.append((payload_name, payload_text))
        headers = record_members.get("headers") or ()
        named_texts += [
            (f"header {header['key']}", _format_payload(header, "value")) for header in headers
        ]
        return named_texts


def _iter_field_lines(part: AnatomyPart, *, is_header: bool) -> Iterator[AnatomyLine]:
    for i, node in enumerate(part.nodes):
        if i >= MAX_ANATOMY_NODES or (is_header and node.name.startswith("record ")):
            return
        yield from structure_lines(node)


def _lines_after_header(lines: tuple[AnatomyLine, ...]) -> tuple[AnatomyLine, ...]:
    """The fields of the record, without the fields of the batch header."""
    for i, line in enumerate(lines):
        if line.path[0].startswith("record "):
            return lines[i:]
    return lines


def _format_payload(members: JsonObject, member_name: str) -> str:
    """A stored key or value, indented if it is JSON."""
    stored_text = members[member_name]
    if stored_text is None:
        return (
            "null (tombstone)"
            if member_name == "value" and "key" in members and "offset" in members
            else "null"
        )
    encoding = members.get(f"{member_name}_encoding")
    if encoding:
        return f"{encoding}: {stored_text}"
    if stored_text[:1] in ("{", "["):
        try:
            return _format_indented_json(json.loads(stored_text))
        except (ValueError, RecursionError):
            return str(stored_text)
    return str(stored_text) if stored_text else '"" (empty)'


def _format_indented_json(json_value: object) -> str:
    return json.dumps(json_value, indent=2, ensure_ascii=False)
