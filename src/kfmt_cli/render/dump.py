"""What `dump` writes, in each format: one class a format, one interface, one registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from kfmt_cli.core.table import Table
from kfmt_cli.files.block import BATCH_NAMES, Block
from kfmt_cli.files.control import name_control_batches
from kfmt_cli.files.records import RECORD_NAMES, Records
from kfmt_cli.formats.batch import ATTRIBUTES
from kfmt_cli.formats.legacy import ATTRIBUTES_V0, ATTRIBUTES_V1
from kfmt_cli.render import batches as batch_table
from kfmt_cli.render import records as record_table
from kfmt_cli.render.bits import draw
from kfmt_cli.render.bulk import HEADER_COLUMNS, csv_names, csv_template, json_template
from kfmt_cli.render.columns import Column, fit, heading, hidden_words, write_line
from kfmt_cli.render.shown import BATCH, RECORD
from kfmt_cli.render.style import Theme, clip_left, count, grouped, safe
from kfmt_cli.render.template import Builder, Literals, Template
from kfmt_cli.render.write import NO_CHILDREN, write_nested, write_rows

# Columns whose value is mostly the same all over a block; the template is then made for that value.
OFTEN_CONSTANT = (
    *("is_v2", "has_timestamp", "timestamp_type", "has_position", "sequence", "headers", "control"),
)


@dataclass(frozen=True, slots=True)
class Look:
    """How things are to be shown. screen: the terminal's columns, None where there is none."""

    theme: Theme
    screen: int | None
    mode: str = "auto"
    wide: bool = False
    columns: tuple[str, ...] = ()
    bits: bool = False


def title(file: str, size: int | None, base_offset: int | None, look: Look) -> str:
    """The line above a file's table."""
    name = safe(file)
    details = "" if size is None else f"   {grouped(size)} bytes"
    details += "" if base_offset is None else f"   base offset {base_offset}"
    room = len(name + details) if look.screen is None else look.screen
    if len(name + details) > room:
        details = ""
    return look.theme.paint("bold", clip_left(name, room)) + details + "\n"


class DumpFormat(ABC):
    """Writes the batches of one file, with the records below them when records are given.

    `stateless` formats may be asked for several blocks at once, from several threads.
    """

    stateless = True
    findings_inline = False

    def __init__(self, file: str, look: Look) -> None:
        self.file = file
        self.look = look

    def begin(self, size: int | None, base_offset: int | None) -> str:
        """What stands above the file's rows."""
        del size, base_offset
        return ""

    @abstractmethod
    def text(
        self, block: Block, records: Records | None, first: int, last: int
    ) -> Iterator[memoryview]:
        """Batches first..last-1 of the block."""

    def end(self) -> str:
        """What stands below the file's rows."""
        return ""


class JsonDump(DumpFormat):
    """JSON Lines, by the contract of `render/shown.py`."""

    findings_inline = True

    def __init__(self, file: str, look: Look) -> None:
        super().__init__(file, look)
        self._templates = cache(self._make_templates)

    def _make_templates(self, constants: tuple[tuple[str, int], ...]) -> tuple[Template, Template]:
        literals = Literals()
        mode = self.look.mode
        known = dict(constants)
        batch = json_template("batch", self.file, BATCH, BATCH_NAMES, mode, literals)
        record = json_template("record", self.file, RECORD, RECORD_NAMES, mode, literals, known)
        return batch, record

    def text(
        self, block: Block, records: Records | None, first: int, last: int
    ) -> Iterator[memoryview]:
        if records is None:
            template, _ = self._templates(())
            return write_rows(template, b"", block.batches, NO_CHILDREN, first, last)
        outer, inner = self._templates(_constants(records.rows))
        return write_nested(
            (outer, block.batches),
            (inner, records.rows),
            records.data,
            records.headers,
            records.ends,
            first,
            last,
        )


def _constants(rows: Table) -> tuple[tuple[str, int], ...]:
    """The columns of `OFTEN_CONSTANT` that are, with their values."""
    if not len(rows):
        return ()
    found = []
    for name in OFTEN_CONSTANT:
        values = rows[name]
        if (values == values[0]).all():
            found.append((name, int(values[0])))
    # A template for each sequence or number of headers would be one for each block.
    return tuple((n, v) for n, v in found if n not in ("sequence", "headers") or v in (-1, 0))


class CsvDump(DumpFormat):
    """CSV with a heading; with records, the records only: their batches are columns of theirs."""

    def __init__(self, file: str, look: Look) -> None:
        super().__init__(file, look)
        self._batches = csv_template(file, BATCH, BATCH_NAMES, look.mode)
        self._records = csv_template(file, RECORD, RECORD_NAMES, look.mode)

    @staticmethod
    def heading(records: bool) -> str:
        """The first line of the output."""
        return ",".join(csv_names(RECORD if records else BATCH)) + "\n"

    def text(
        self, block: Block, records: Records | None, first: int, last: int
    ) -> Iterator[memoryview]:
        if records is None:
            return write_rows(self._batches, b"", block.batches, NO_CHILDREN, first, last)
        ends = records.ends
        start = int(ends[first - 1]) if first else 0
        end = int(ends[last - 1]) if last else 0
        return write_rows(self._records, records.data, records.rows, records.headers, start, end)


class TableDump(DumpFormat):
    """Aligned columns in the order in which they come; widths are taken from the first rows and
    grow with later ones where there is no screen to fit."""

    stateless = False

    def __init__(self, file: str, look: Look) -> None:
        super().__init__(file, look)
        self._columns: list[tuple[Column, int]] = []
        self._size: int | None = None
        self._batches = 0
        self._records = 0
        self._flags = False
        self._hidden = 0

    def begin(self, size: int | None, base_offset: int | None) -> str:
        self._size = size
        return title(self.file, size, base_offset, self.look)

    def text(
        self, block: Block, records: Records | None, first: int, last: int
    ) -> Iterator[memoryview]:
        if first >= last:
            return
        name_control_batches(block)
        batch_table.prepare(block.batches)
        self._batches += last - first
        if records is not None:
            yield from self._record_lines(block, records, first, last)
        elif self.look.bits:
            for i in range(first, last):
                yield memoryview(self._bits(block, i).encode())
        else:
            yield from self._batch_lines(block.batches, first, last)

    def _batch_lines(self, batches: Table, first: int, last: int) -> Iterator[memoryview]:
        theme = self.look.theme
        fresh = not self._columns
        if fresh or self.look.screen is None:
            self._choose(batches)
        if fresh:
            yield memoryview(heading(self._columns, theme).encode())
        self._flags |= any(
            bool(batches[name][first:last].any()) for name, _, _ in batch_table.FLAGS
        )
        builder = Builder(batches.names)
        write_line(builder, self._columns, theme, cut=self.look.screen is not None)
        yield from write_rows(builder.build(), b"", batches, NO_CHILDREN, first, last)

    def _choose(self, batches: Table) -> None:
        """The columns, as wide as these rows need and as the rest of the file may."""
        known = {column.name: width for column, width in self._columns}
        look = self.look
        columns: list[Column] = [*batch_table.DEFAULT]
        if look.columns:
            every = {column.name: column for column in (*batch_table.DEFAULT, *batch_table.MORE)}
            columns = [every[name] for name in look.columns]
        elif look.wide:
            columns = [*batch_table.DEFAULT[:-1], *batch_table.MORE, batch_table.DEFAULT[-1]]
        if look.screen is None or batches["control"].any():
            marked = batch_table.CRC_AND_MARKER
            columns = [marked if column.name == "crc" else column for column in columns]
        ahead = self._ahead(batches) if not known else batches
        widths = [
            max(len(column.heading), column.width(ahead), known.get(column.name, 0))
            for column in columns
        ]
        screen = None if look.wide or look.columns else look.screen
        self._columns = fit(columns, widths, screen)
        self._hidden = len(columns) - len(self._columns)

    def _ahead(self, batches: Table) -> Table:
        """The rows, and one like the last of the file may be, so that columns stay aligned."""
        last = batches.data[:, -1:].copy()
        row = Table(batches.names, last)
        if self._size is not None and int(last[batches.names["position"], 0]) > 0:
            times = max(self._size / int(last[batches.names["position"], 0]), 1)
            grown = int(last[batches.names["last_offset"], 0]) * times
            if grown < 1 << 62:
                row["position"] = self._size
                row["base_offset"] = row["last_offset"] = int(grown)
        return Table(batches.names, np.concatenate([batches.data, row.data], axis=1))

    def _record_lines(
        self, block: Block, records: Records, first: int, last: int
    ) -> Iterator[memoryview]:
        theme, screen = self.look.theme, None if self.look.wide else self.look.screen
        start = int(records.ends[first - 1]) if first else 0
        self._records += int(records.ends[last - 1]) - start
        if not self._columns:
            self._columns = record_table.columns_of(
                records.rows, records.headers, self.look.mode, screen
            )
            yield memoryview(heading(self._columns, theme).encode())
            whole = record_table.columns_of(records.rows, records.headers, self.look.mode, None)
            self._hidden = len(whole) - len(self._columns)
        literals = Literals()
        outer = record_table.outer_template(BATCH_NAMES, theme, literals, screen)
        builder = Builder(RECORD_NAMES, HEADER_COLUMNS, literals)
        write_line(builder, self._columns, theme, cut=screen is not None)
        yield from write_nested(
            (outer, block.batches),
            (builder.build(), records.rows),
            records.data,
            records.headers,
            records.ends,
            first,
            last,
        )

    def _bits(self, block: Block, i: int) -> str:
        batches, theme = block.batches, self.look.theme
        magic, raw = int(batches["magic"][i]), int(batches["attributes"][i])
        flags = (ATTRIBUTES_V0, ATTRIBUTES_V1, ATTRIBUTES)[magic]
        width = 16 if magic == 2 else 8
        base = batches["base_offset"][i]
        known = bool(batches["has_base_offset"][i])
        offsets = (
            f"{base}–{batches['last_offset'][i]}" if known else f"…{batches['last_offset'][i]}"
        )
        if known and base == batches["last_offset"][i]:
            offsets = f"{base}"
        title = (
            f" batch at {batches['position'][i]}, offsets {offsets}, magic {magic}    "
            f"attributes 0x{raw & (1 << width) - 1:0{width // 4}x}"
        )
        return "\n".join([title, *draw(flags, raw, width, theme), "", ""])

    def end(self) -> str:
        words = count(self._batches, "batch", "batches")
        if self._records:
            words += f", {count(self._records, 'record')}"
        lines = [f"{words} shown"]
        room = self.look.screen or len(batch_table.LEGEND)
        with_flags = self._flags and any(column.name == "flags" for column, _ in self._columns)
        if with_flags and len(batch_table.LEGEND) <= room:
            lines.insert(0, batch_table.LEGEND)
        if self._hidden:
            lines.insert(0, hidden_words(self._hidden))
        return "".join(self.look.theme.paint("dim", line) + "\n" for line in lines)


FORMATS: dict[str, type[DumpFormat]] = {"table": TableDump, "json": JsonDump, "csv": CsvDump}
