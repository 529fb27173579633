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
from kfmt_cli.log.rows_reader import LogRowsReader, RowsAndFindings
from kfmt_cli.render.row_rendering import render_rows
from kfmt_cli.render.style import COLOUR_THEME
from kfmt_cli.render.tables import record_table
from kfmt_cli.render.tables.columns import add_line, format_heading
from kfmt_cli.render.template import TemplateBuilder
from kfmt_cli.rows.columnar_rows import HEADER_NAMES, ColumnarRows, JsonObject, iter_objects
from kfmt_cli.rows.log_tables import RecordTable
from kfmt_cli.rows.types.anatomy import AnatomyLine, section_lines
from kfmt_cli.topics.decoder import Decoder

MAX_NODES = 400  # nodes of an anatomy part whose fields are listed


@dataclass(frozen=True, slots=True)
class DisplayedPart:
    """Bytes, and the fields in them."""

    title: str
    data: bytes
    base_position: int
    """The position of the first byte in the file, or 0 if the bytes were decompressed."""
    codec: str
    """The codec that the bytes were compressed with; empty for bytes of the file."""
    lines: tuple[AnatomyLine, ...]


class SelectedBatch:
    """The selected batch."""

    def __init__(
        self,
        file: InputFile,
        block: Block,
        batch_index: int,
        decoder: Decoder | None,
        limit: DecompressionLimit | None = None,
    ) -> None:
        self.file = file
        self._decoder = decoder
        self._limit = limit or DecompressionLimit()
        self._block = slice_block(block, batch_index, batch_index + 1)
        self.position = int(block.batches.position[batch_index])
        data_start, end = int(block.batches.start[batch_index]), int(block.batches.end[batch_index])
        self._data = block.data[data_start:end]
        self.row_parts = self._read_rows(for_display=True)
        self.findings: list[Finding] = [
            finding for part in self.row_parts for finding in part.findings
        ]

    def _read_rows(self, *, for_display: bool) -> list[RowsAndFindings]:
        rows_reader = LogRowsReader(
            True, limit=self._limit, decoder=self._decoder, as_text=for_display
        )
        block = replace(self._block, batches=self._block.batches.copy(), findings=[])
        return list(rows_reader.iter_rows(block))

    @property
    def _records(self) -> ColumnarRows | None:
        record_rows = [part.rows.inner for part in self.row_parts]
        return record_rows[0] if record_rows else None

    @property
    def n_records(self) -> int:
        """The number of readable records."""
        return 0 if self._records is None else len(self._records)

    def record_offset(self, record_index: int) -> int:
        """The offset of a record."""
        assert self._records is not None
        return int(self._records.table.as_type(RecordTable).offset[record_index])

    def find_record(self, offset: int) -> int:
        """The index of the record with an offset, or of the first record after it."""
        if self._records is None:
            return 0
        indexes = (self._records.table.as_type(RecordTable).offset >= offset).nonzero()[0]
        return int(indexes[0]) if len(indexes) else max(self.n_records - 1, 0)

    # Lines.

    def records_heading(self, width: int) -> str:
        """The table heading above the records."""
        records = self._records
        if records is None or not len(records):
            return ""
        return format_heading(
            record_table.record_columns(records, "auto", width), COLOUR_THEME
        ).rstrip("\n")

    def record_lines(self, first: int, end: int, width: int) -> list[str]:
        """Records first..last-1 as `kfmt dump --records` shows them on a screen of this width."""
        records = self._records
        end = min(end, self.n_records)
        if records is None or first >= end:
            return []
        columns = record_table.record_columns(records, "auto", width)
        builder = TemplateBuilder(records.table.index_by_name, HEADER_NAMES, theme=COLOUR_THEME)
        add_line(builder, columns, may_truncate=True)
        chunks = render_rows(builder.build(), records, first, end)
        return b"".join(map(bytes, chunks)).decode("utf-8", "replace").split("\n")[:-1]

    # Fields and bytes.

    def anatomy(self, record_index: int | None) -> list[DisplayedPart]:
        """The batch header with its bytes if `record_index` is None; otherwise the fields of that
        record, with the bytes of all records."""
        parts = list(self._iter_parts(record_index))
        if record_index is None:
            return parts[:1]
        has_decompressed_part = len(parts) > 1
        record_parts = parts[1:] if has_decompressed_part else parts
        return [
            replace(part, lines=_lines_after_header(part.lines)) for part in record_parts
        ] or parts

    def _iter_parts(self, record_index: int | None) -> Iterator[DisplayedPart]:
        selected_index = 0 if record_index is None else record_index
        anatomy = BatchAnatomy(
            self._block, 0, self._data, self._decoder, self._limit, selected_index
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
        records, row = self._raw_record(record_index)
        members = with_location({"file": self.file.name}, records.type.location_source)
        return json_text({"type": records.type.name, **members, **row})

    def _raw_record(self, record_index: int) -> tuple[ColumnarRows, JsonObject]:
        parts = self._read_rows(for_display=False)
        records = parts[0].rows.inner
        assert records is not None
        row = records.slice_rows(record_index, record_index + 1)
        return records, next(iter_objects(row))

    def record_content(self, record_index: int) -> list[tuple[str, str]]:
        """A record's content as pairs of name and text; decoded if possible, otherwise as stored.
        A text may have several lines."""
        _, row = self._raw_record(record_index)
        pairs = [("offset", str(row["offset"]))]
        timestamp = row.get("timestamp")
        if timestamp is not None:
            pairs.append(("timestamp", "–" if timestamp == -1 else f"{format_time(timestamp)} UTC"))
        if row.get("control") is not None:
            return [*pairs, ("control", json.dumps(row["control"], indent=2, ensure_ascii=False))]
        for name in ("key", "value"):
            decoded_payload = row.get(f"decoded_{name}")
            text = (
                _format_payload(row, name)
                if decoded_payload is None
                else _indented_json(decoded_payload)
            )
            pairs.append((name, text))
        headers = row.get("headers") or ()
        pairs += [
            (f"header {header['key']}", _format_payload(header, "value")) for header in headers
        ]
        return pairs


def _iter_field_lines(part: AnatomyPart, *, is_header: bool) -> Iterator[AnatomyLine]:
    for i, node in enumerate(part.nodes):
        if i >= MAX_NODES or (is_header and node.name.startswith("record ")):
            return
        yield from section_lines(node)


def _lines_after_header(lines: tuple[AnatomyLine, ...]) -> tuple[AnatomyLine, ...]:
    """The fields of the record, without the fields of the batch header."""
    for i, line in enumerate(lines):
        if line.path[0].startswith("record "):
            return lines[i:]
    return lines


def _format_payload(members: JsonObject, name: str) -> str:
    """A stored key or value, indented if it is JSON."""
    text = members[name]
    if text is None:
        return (
            "null (tombstone)"
            if name == "value" and "key" in members and "offset" in members
            else "null"
        )
    encoding = members.get(f"{name}_encoding")
    if encoding:
        return f"{encoding}: {text}"
    if text[:1] in ("{", "["):
        try:
            return _indented_json(json.loads(text))
        except (ValueError, RecursionError):
            return str(text)
    return str(text) if text else '"" (empty)'


def _indented_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
