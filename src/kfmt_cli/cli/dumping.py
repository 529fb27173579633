"""How `dump` goes through its files: blocks in order, decoded and written on several cores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from kfmt_cli.cli.screen import Progress, Screen
from kfmt_cli.core.compression import Limit
from kfmt_cli.core.finding import MOST_FINDINGS, Finding, Findings
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.errors import InputError
from kfmt_cli.files.block import Block
from kfmt_cli.files.checkpoint import read_checkpoint
from kfmt_cli.files.control import complete
from kfmt_cli.files.discover import LOGS, FileKind, Input, discover, distinct, is_empty
from kfmt_cli.files.fixed import FIXED, read_rows
from kfmt_cli.files.open_log import open_log
from kfmt_cli.files.records import Records, inflate_ahead, is_heavy, read_records, runs
from kfmt_cli.files.select import Selection, first_batches, first_records
from kfmt_cli.render import entries
from kfmt_cli.render.columns import hidden_words
from kfmt_cli.render.dump import FORMATS, CsvDump, DumpFormat, Look, title
from kfmt_cli.render.finding import finding_json, finding_line, left_out_json, left_out_line
from kfmt_cli.render.style import count, grouped
from kfmt_cli.render.write import recycle

Piece = memoryview | Finding
Part = tuple[Block, Records | None]


@dataclass(slots=True)
class Task:
    """One call of `dump`."""

    screen: Screen
    look: Look
    format: str
    records: bool
    wanted: Selection
    limit: int | None
    jobs: int
    decompression: Limit
    strict: bool = False
    most_findings: int = MOST_FINDINGS
    all_files: bool = False
    n_empty: int = 0
    read: int = 0
    unread: int = 0
    heading: str = ""

    def run(self, paths: tuple[str, ...]) -> int:
        """Dump every file; the exit code."""
        seen: set[str] = set()
        for path in paths:
            try:
                for file in distinct(discover(path, LOGS, len(paths) > 1, self._complain), seen):
                    if self.limit == 0:
                        continue
                    if self.all_files or file.path == path or not is_empty(file):
                        self._file(file)
                    else:
                        self.n_empty += 1
            except InputError as error:
                self._complain(str(error))
        if self.n_empty:
            words = f"{count(self.n_empty, 'empty log')} not listed; --all lists them"
            self.screen.text(self.look.theme.paint("dim", words) + "\n")
        if self.unread and self.read:
            words = f"{count(self.read, 'file')} read, {grouped(self.unread)} not"
            self.screen.note(f"kfmt: {words}\n")
        return self.screen.exit_code

    def _complain(self, words: str) -> None:
        """Say that an input could not be read."""
        self.unread += 1
        self.screen.complain(words)

    def _file(self, file: Input) -> None:
        """Dump one file, or say why it cannot be read."""
        try:
            if file.kind in FIXED:
                self._rows(file)
            elif file.kind is FileKind.CHECKPOINT:
                self._checkpoint(file)
            else:
                self._log(file)
        except InputError as error:
            self._complain(str(error))
        else:
            self.read += 1

    def _heading(self, line: str) -> None:
        """The first line of CSV, again where another kind of file follows."""
        if self.format == "csv" and line != self.heading:
            self.screen.text(line)
            self.heading = line

    def _rows(self, file: Input) -> None:
        """Dump an index or a producer snapshot."""
        kind, rows = FIXED[file.kind], read_rows(file)
        if "offset" in rows.table.names and self.wanted:
            rows.table = rows.table.select(self.wanted.holds(rows.table["offset"]))
        if self.limit is not None:
            rows.table = rows.table.select(slice(0, self.limit))
            self.limit -= len(rows.table)
        self._heading(entries.csv_heading(kind))
        self._title(file, rows.size)
        theme = self.screen.theme
        screen = None if self.look.wide else self.look.screen
        pieces = entries.write_entries(file.name, kind, rows, self.format, theme, screen)
        for piece in pieces:
            self.screen.write(piece)
        self._write_findings(file, rows.findings)
        if self.format == "table":
            words = count(len(rows.table), "entry", "entries") + " shown"
            if rows.padding:
                words += f", {grouped(rows.padding)} bytes of zeros behind them"
            if hidden := entries.hidden_columns(kind, rows, screen):
                words = f"{hidden_words(hidden)}\n{words}"
            self.screen.text(theme.paint("dim", words) + "\n")

    def _checkpoint(self, file: Input) -> None:
        """Dump a checkpoint file."""
        read = read_checkpoint(file)
        read.rows = read.rows[: self.limit]
        if self.limit is not None:
            self.limit -= len(read.rows)
        self._heading(entries.checkpoint_csv_heading(read))
        self._title(file, None)
        for text in entries.write_checkpoint(file.name, read, self.format, self.screen.theme):
            self.screen.text(text)
        if self.format == "table":
            words = count(len(read.rows), "entry", "entries") + " shown"
            self.screen.text(self.screen.theme.paint("dim", words) + "\n")
        self._write_findings(file, read.findings)

    def _title(self, file: Input, size: int | None) -> None:
        if self.format == "table":
            self.screen.text(title(file.name, size, file.base_offset, self.look))

    def _log(self, file: Input) -> None:
        with open_log(file, read_ahead=not self.records) as log:
            out = FORMATS[self.format](file.name, self.look)
            self._heading(CsvDump.heading(self.records))
            self.screen.text(out.begin(log.size, log.base_offset))
            with self.screen.progress(log.size) as progress:
                findings = Findings(self.most_findings)
                for piece in self._pieces(out, self._ahead(log.blocks, progress), log.is_large):
                    self._write(piece, findings)
            self.screen.text(out.end())
            self._say_left_out(file, findings)

    def _ahead(self, blocks: Iterator[Block], progress: Progress) -> Iterator[Block]:
        """The blocks, prepared as far as the reading thread does it best."""
        for block in blocks:
            progress.advance(len(block.data))
            chosen = self._chosen(block)
            if self.records:
                yield from inflate_ahead(chosen, self.decompression)
            else:
                yield chosen

    def _chosen(self, block: Block) -> Block:
        """The block with what is wanted of it; with records, decoding them says the rest."""
        if not self.wanted:
            return block
        return self.wanted.batches(block, None if self.records else self.decompression)

    def _pieces(self, out: DumpFormat, blocks: Iterator[Block], large: bool) -> Iterator[Piece]:
        """Output and findings in the order of the file."""
        if self.limit is not None:
            for part in self._first(blocks):
                yield from arrange(out, part)
            return
        workers = self.jobs if large and (self.records or out.stateless) else 0
        if not out.stateless:
            for parts in map_ordered(self._decoded, blocks, workers, is_heavy):
                for part in parts:
                    yield from arrange(out, part)
            return

        def write(block: Block) -> Iterable[Piece]:
            pieces = (it for part in self._parts(block) for it in arrange(out, part))
            return pieces if is_heavy(block) else list(pieces)

        for written in map_ordered(write, blocks, workers, is_heavy):
            yield from written

    def _decoded(self, block: Block) -> Iterable[Part]:
        return self._parts(block) if is_heavy(block) else list(self._parts(block))

    def _parts(self, block: Block) -> Iterator[Part]:
        """The block's batches, with their records when those are asked for."""
        if not self.records:
            yield block, None
            return
        for run in runs(block):
            records = read_records(run, self.decompression)
            complete(run, records)
            yield self.wanted.rows(run, records) if self.wanted else (run, records)

    def _first(self, blocks: Iterator[Block]) -> Iterator[Part]:
        """The first rows only, as many as are still wanted."""
        for block in blocks:
            for part, records in self._parts(block):
                assert self.limit is not None
                if records is None:
                    shown = first_batches(part, self.limit)
                    self.limit -= len(shown.batches)
                    yield shown, None
                else:
                    shown, rows = first_records(part, records, self.limit)
                    self.limit -= len(rows.rows)
                    yield shown, rows
                if self.limit == 0:
                    return

    def _write(self, piece: Piece, findings: Findings) -> None:
        if isinstance(piece, memoryview):
            self.screen.write(piece)
            recycle(piece)
            return
        self.screen.seen(piece.code.severity, self.strict)
        if not findings.admits(piece):
            return
        if FORMATS[self.format].findings_inline:
            self.screen.text(finding_json(piece))
        else:
            self.screen.note(finding_line(piece, self.screen.err_theme, self.screen.err_width))

    def _write_findings(self, file: Input, every: list[Finding]) -> None:
        findings = Findings(self.most_findings)
        for finding in every:
            self._write(finding, findings)
        self._say_left_out(file, findings)

    def _say_left_out(self, file: Input, findings: Findings) -> None:
        """Say how many findings of each kind were not shown."""
        for code, number in findings.left_out():
            if FORMATS[self.format].findings_inline:
                self.screen.text(left_out_json(file.name, code, number))
            else:
                self.screen.note(left_out_line(code, number))


def arrange(out: DumpFormat, part: Part) -> Iterator[Piece]:
    """The part's rows, each finding behind the batch that it stands in."""
    block, records = part
    findings = [*block.findings, *(records.findings if records else ())]
    findings.sort(key=lambda finding: finding.position or 0)
    positions = block.batches["position"]
    done = 0
    for finding in findings:
        upto = int(np.searchsorted(positions, finding.position or 0, side="right"))
        if upto > done:
            yield from out.text(block, records, done, upto)
            done = upto
        yield finding
    if done < len(positions):
        yield from out.text(block, records, done, len(positions))
