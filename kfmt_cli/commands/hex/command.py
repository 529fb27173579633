"""hex: one batch, entry or small file, byte by byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.commands.run import Run, in_pieces
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.tree import Node
from kfmt_cli.core.source import PIPE
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.given import file_given, located
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.kinds.notes import LAYOUTS
from kfmt_cli.disk.opening import bytes_at, is_folder
from kfmt_cli.disk.tree import topic_of
from kfmt_cli.errors import ExitCode, InputError, NotFoundError, UsageError
from kfmt_cli.findings.finding import Finding, is_error
from kfmt_cli.formats import header_numbers as header
from kfmt_cli.log.anatomy.batches import BatchAnatomy, loose_part
from kfmt_cli.log.anatomy.other_files import file_part
from kfmt_cli.log.anatomy.part import AnatomyPart
from kfmt_cli.log.block import HEADER_SIZE, LOG_OVERHEAD, Block
from kfmt_cli.render.hexdump import Hexdump
from kfmt_cli.render.style import safe
from kfmt_cli.rows.types.anatomy import FIELD, cells, part_lines
from kfmt_cli.topics import decoder_for

MOST_DAMAGE = 5  # findings to show if the requested batch is missing
DIGITS = "hex:"
MOST_GIVEN = 64 << 20  # bytes of standard input
MOST_LOOSE = 1 << 16  # bytes to show that are not a batch


@dataclass(slots=True)
class ShowHex:
    """One call of `hex`: shows the batch at an offset or byte, or the n-th batch or entry; by
    default the first batch, or all of a small file."""

    run: Run
    offset: int | None
    position: int | None
    entry: int | None
    alone: bool
    """Show only the header of the batch, and the record with the offset."""
    limit: Limit = field(default_factory=Limit)
    whole: bool = False
    """Show all bytes of long fields."""
    topic: str | None = None
    """The topic, if the directory is not named after it."""
    layout: str | None = None
    """Name of the file's layout, overriding its own name."""

    def path(self, path: str) -> None:
        """Show the requested part of a file."""
        try:
            if path != PIPE:
                path = located(path)
            if is_folder(path):
                raise UsageError(f"{name_text(path)} is a directory; hex needs a file")
            if path == PIPE or path.startswith(DIGITS):
                with TemporaryDirectory() as folder:
                    self._show_file(_stored(path, Path(folder)))
            else:
                self._show_file(file_given(path))
        except NotFoundError as error:
            self.run.host.reached(error.exit_code)
            self.run.sink.note(f"kfmt: {safe(str(error))}\n")
        except InputError as error:
            self.run.complain(str(error))

    def _show_file(self, file: Input) -> None:
        of_layout = None
        if self.layout is not None:
            kind, of_layout = LAYOUTS[self.layout]
            file = replace(file, kind=kind)
        if file.kind.read is not None:
            self._file(file, of_layout)
        else:
            self._log(file)

    def _file(self, file: Input, layout: Layout | None) -> None:
        if self.offset is not None:
            raise UsageError(f"{file.name}: --offset works on logs only; use --entry or --position")
        self._show(file, [file_part(file, self.entry, self.position, layout)])
        self.run.all(file.contents().findings)

    def _log(self, file: Input) -> None:
        """Show the requested batch, then its findings; raises NotFoundError."""
        decoder = decoder_for(self.topic or topic_of(file))
        last = -1
        damage: list[Finding] = []
        with open_checked(file, read_ahead=False) as log:
            for block in log.blocks:
                i = self._batch_in(block)
                if i is not None:
                    batch = block.batches.row(i)
                    data = bytes_at(file.path, batch.position, batch.size, file.name)
                    parts = BatchAnatomy(block, i, data, decoder, self.limit).parts()
                    self._show(file, map(self._chosen, parts))
                    # Those in its records are shown already.
                    self.run.all(of for of in block.findings if of.batch == batch.number)
                    return
                damage += filter(is_error, block.findings)
                del damage[MOST_DAMAGE:]
                if len(block.batches):
                    last = int(block.batches.last_offset[-1])
        self.run.all(damage)
        at, words = self.position, f"byte {self.position} is past the end of the file"
        if at is None and self.offset is None:
            at, words = None if self.entry else 0, f"no batch {self.entry or 0}"
        elif at is None:
            words = f"no readable batch contains offset {self.offset}; the last offset is {last}"
        if at is None or not (data := _loose_bytes(file, at)):
            raise NotFoundError(f"{file.name}: {words}")
        self._show(file, [loose_part(data, at)])
        self.run.host.reached(ExitCode.FINDINGS)

    def _batch_in(self, block: Block) -> int | None:
        """Index of the requested batch in a block; None if it is not in it."""
        batches = block.batches
        if self.position is not None:
            begins = batches.position
            found = (begins <= self.position) & (self.position < begins + batches.size)
        elif self.offset is not None:
            begins = np.where(batches.has_base_offset == 1, batches.base_offset, self.offset)
            found = (begins <= self.offset) & (self.offset <= batches.last_offset)
        else:
            found = batches.number == (self.entry or 0)
        rows = np.flatnonzero(found)
        return int(rows[0]) if len(rows) else None

    def _chosen(self, part: AnatomyPart) -> AnatomyPart:
        """The part; if `alone` is set, only with the record at the offset."""
        if not self.alone:
            return part
        nodes = (node for node in part.nodes if _leads_to(node) in (None, self.offset))
        return AnatomyPart(part.title, part.data, part.position, nodes, part.codec)

    def _show(self, file: Input, parts: Iterator[AnatomyPart] | list[AnatomyPart]) -> None:
        if self.run.sink.for_people:
            self._draw(parts)
            return
        rows = (
            cells(line, part.data, part.position, part.codec)
            for part in parts
            for node in self._judged(part.nodes)
            for line in part_lines(node)
        )
        self.run.rows(file.name, FIELD, in_pieces(rows))

    def _draw(self, parts: Iterator[AnatomyPart] | list[AnatomyPart]) -> None:
        sink = self.run.sink
        dump = Hexdump(sink.out.theme, sink.out.width, self.whole)
        for n, part in enumerate(parts):
            sink.put(("\n" if n else "") + dump.title(part.title))
            for node in self._judged(part.nodes):
                for line in part_lines(node):
                    for text in dump.text(line, part.data, 0 if part.codec else part.position):
                        sink.put(text)

    def _judged(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """The same nodes; one with a fault is a finding."""
        for node in nodes:
            if not node.is_whole:
                self.run.host.reached(ExitCode.FINDINGS)
            yield node


def _leads_to(record: Node) -> int | None:
    """The offset of a record; None for anything else."""
    return next((child.offset for child in record.children if child.offset is not None), None)


def _stored(given: str, folder: Path) -> Input:
    """Standard input, or hex digits, as a log that can be read more than once; raises InputError.

    Standard input may also contain hex digits.
    """
    name = given if given == PIPE else "the digits"
    data = given.removeprefix(DIGITS).encode()
    if given == PIPE:
        data = bytes_at(PIPE, 0, MOST_GIVEN)
    text = b"".join(data.split())
    is_text = text and not text.strip(b"0123456789abcdefABCDEF")
    if is_text and len(text) % 2 == 0:
        data = bytes.fromhex(text.decode())
    elif given != PIPE:
        raise InputError(f"{given}: hexadecimal needs two digits per byte")
    path = folder / f"given{LOG.suffix}"
    path.write_bytes(data)
    return Input(str(path), name, LOG)


def _loose_bytes(file: Input, position: int) -> bytes:
    """Bytes of a file from a position onward, as many as a batch there declares."""
    head = bytes_at(file.path, position, HEADER_SIZE, file.name)
    declared = LOG_OVERHEAD + header.batch_length(head) if len(head) >= LOG_OVERHEAD else 0
    return bytes_at(file.path, position, min(max(declared, HEADER_SIZE), MOST_LOOSE), file.name)
