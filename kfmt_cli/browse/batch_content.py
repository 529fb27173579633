"""The content of one batch: its records as lines, the fields of one with their bytes, the decoded
record, and the record as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.times import time_text
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.partition_path import with_place
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.anatomy.batches import BatchAnatomy
from kfmt_cli.log.anatomy.part import AnatomyPart
from kfmt_cli.log.block import Block, part_of
from kfmt_cli.log.reading import RowsPart, RowsReading
from kfmt_cli.render.style import COLOUR
from kfmt_cli.render.tables import record_table
from kfmt_cli.render.tables.columns import heading, write_line
from kfmt_cli.render.template import TemplateBuilder
from kfmt_cli.render.write import write_rows
from kfmt_cli.rows.log_tables import RecordTable
from kfmt_cli.rows.section import HEADER_NAMES, Object, Section, objects
from kfmt_cli.rows.types.anatomy import AnatomyLine, part_lines
from kfmt_cli.topics.decoder import Decoder

MOST_NODES = 400  # per selection, whose fields are listed


@dataclass(frozen=True, slots=True)
class ShownPart:
    """Bytes, and the fields in them."""

    title: str
    data: bytes
    base: int
    """The position of the first byte in the file, or 0 if the bytes were decompressed."""
    codec: str
    """The codec they were compressed with, empty for bytes of the file."""
    lines: tuple[AnatomyLine, ...]


class BatchContent:
    """The selected batch."""

    def __init__(
        self, file: Input, block: Block, i: int, decoder: Decoder | None, limit: Limit | None = None
    ) -> None:
        self.file = file
        self._decoder = decoder
        self._limit = limit or Limit()
        self._block = part_of(block, i, i + 1)
        self.position = int(block.batches.position[i])
        start, end = int(block.batches.start[i]), int(block.batches.end[i])
        self._data = block.data[start:end]
        self.parts_of_rows = self._read(in_words=True)
        self.findings: list[Finding] = [
            finding for part in self.parts_of_rows for finding in part.findings
        ]

    def _read(self, *, in_words: bool) -> list[RowsPart]:
        reading = RowsReading(True, limit=self._limit, decoder=self._decoder, words=in_words)
        held = replace(self._block, batches=self._block.batches.copy(), findings=[])
        return list(reading.parts(held))

    @property
    def _section(self) -> Section | None:
        inner = [part.rows.inner for part in self.parts_of_rows]
        return inner[0] if inner else None

    @property
    def n_records(self) -> int:
        """The number of readable records."""
        return 0 if self._section is None else len(self._section)

    def offset(self, record: int) -> int:
        """The offset of a record."""
        assert self._section is not None
        return int(self._section.table.typed(RecordTable).offset[record])

    def record_of(self, offset: int) -> int:
        """The index of the record with an offset, or of the first record after it."""
        if self._section is None:
            return 0
        later = (self._section.table.typed(RecordTable).offset >= offset).nonzero()[0]
        return int(later[0]) if len(later) else max(self.n_records - 1, 0)

    # Lines.

    def heading(self, width: int) -> str:
        """The table heading above the records."""
        section = self._section
        if section is None or not len(section):
            return ""
        return heading(record_table.columns_of(section, "auto", width), COLOUR).rstrip("\n")

    def lines(self, first: int, last: int, width: int) -> list[str]:
        """Records first..last-1 as `kfmt dump --records` shows them on a screen of this width."""
        section = self._section
        last = min(last, self.n_records)
        if section is None or first >= last:
            return []
        columns = record_table.columns_of(section, "auto", width)
        builder = TemplateBuilder(section.table.names, HEADER_NAMES, theme=COLOUR)
        write_line(builder, columns, cut=True)
        pieces = write_rows(builder.build(), section, first, last)
        return b"".join(map(bytes, pieces)).decode("utf-8", "replace").split("\n")[:-1]

    # Fields and bytes.

    def anatomy(self, record: int | None) -> list[ShownPart]:
        """The batch header with its bytes, or one record with the bytes of all records."""
        parts = list(self._parts(record))
        if record is None:
            return parts[:1]
        is_inside = len(parts) > 1
        shown = parts[1:] if is_inside else parts
        return [replace(part, lines=_of_record(part.lines)) for part in shown] or parts

    def _parts(self, record: int | None) -> Iterator[ShownPart]:
        only = 0 if record is None else record
        batch = BatchAnatomy(self._block, 0, self._data, self._decoder, self._limit, only)
        for part in batch.parts():
            base = 0 if part.codec else part.position
            lines = tuple(_lines(part, is_header=record is None))
            yield ShownPart(part.title, part.data, base, part.codec, lines)
            if record is None:
                return

    # The content of a record.

    def json(self, record: int) -> str:
        """A record as an object of the JSON contract."""
        section, row = self._plain(record)
        members = with_place({"file": self.file.name}, section.type.placed)
        return json_text({"type": section.type.name, **members, **row})

    def _plain(self, record: int) -> tuple[Section, Object]:
        parts = self._read(in_words=False)
        section = parts[0].rows.inner
        assert section is not None
        row = section.part(record, record + 1)
        return section, next(objects(row))

    def said(self, record: int) -> list[tuple[str, str]]:
        """A record's content as pairs of name and text, which may have several lines; decoded if
        possible, otherwise as stored."""
        _, row = self._plain(record)
        shown = [("offset", str(row["offset"]))]
        time = row.get("timestamp")
        if time is not None:
            shown.append(("timestamp", "–" if time == -1 else f"{time_text(time)} UTC"))
        if row.get("control") is not None:
            return [*shown, ("control", json.dumps(row["control"], indent=2, ensure_ascii=False))]
        for name in ("key", "value"):
            decoded = row.get(f"decoded_{name}")
            text = _payload(row, name) if decoded is None else _pretty(decoded)
            shown.append((name, text))
        headers = row.get("headers") or ()
        shown += [(f"header {header['key']}", _payload(header, "value")) for header in headers]
        return shown


def _lines(part: AnatomyPart, *, is_header: bool) -> Iterator[AnatomyLine]:
    for n, node in enumerate(part.nodes):
        if n >= MOST_NODES or (is_header and node.name.startswith("record ")):
            return
        yield from part_lines(node)


def _of_record(lines: tuple[AnatomyLine, ...]) -> tuple[AnatomyLine, ...]:
    """The fields of the record, without the fields of the batch header."""
    for i, line in enumerate(lines):
        if line.path[0].startswith("record "):
            return lines[i:]
    return lines


def _payload(row: Object, name: str) -> str:
    """A stored key or value, indented if it is JSON."""
    text = row[name]
    if text is None:
        return (
            "null (tombstone)" if name == "value" and "key" in row and "offset" in row else "null"
        )
    encoding = row.get(f"{name}_encoding")
    if encoding:
        return f"{encoding}: {text}"
    if text[:1] in ("{", "["):
        try:
            return _pretty(json.loads(text))
        except (ValueError, RecursionError):
            return str(text)
    return str(text) if text else '"" (empty)'


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
