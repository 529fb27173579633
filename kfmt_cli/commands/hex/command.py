"""hex: one batch, entry or small file, byte by byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from kfmt_cli.checks.log.checker import LogRangeCheck, open_checked_log
from kfmt_cli.commands.command_run import CommandRun, chunk_rows
from kfmt_cli.commands.hex.options import HexOptions
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.tree import FieldNode
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import file_topic
from kfmt_cli.disk.file_access import is_directory, read_bytes_at
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.notes_v0 import NOTES_LAYOUTS
from kfmt_cli.disk.pasted_input import resolve_pasted_file
from kfmt_cli.disk.path_resolution import mount_and_resolve_path, resolve_input_file
from kfmt_cli.errors import ExitCode, InputError, NotFoundError, UsageError
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding, is_error
from kfmt_cli.formats import batch_header_readers as header
from kfmt_cli.log.anatomy.batches import BatchAnatomy, invalid_batch_part
from kfmt_cli.log.anatomy.other_files import file_anatomy
from kfmt_cli.log.anatomy.part import AnatomyPart
from kfmt_cli.log.block import BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES, Block, slice_block
from kfmt_cli.render.hexdump import HexDumper
from kfmt_cli.render.style import escape_unprintable
from kfmt_cli.rows.types.anatomy import FIELD_ROW, anatomy_cells, structure_lines
from kfmt_cli.topics import find_decoder

# Findings of which the dump shows all there is to know in place.
MARKED_CODES = frozenset(
    {
        codes.BATCH_LENGTH_TOO_BIG,
        codes.BATCH_LENGTH_TOO_SMALL,
        codes.DECOMPRESSION_FAILED,
        codes.MESSAGE_MALFORMED,
        codes.RECORD_MALFORMED,
        codes.RECORD_OFFSET_OUT_OF_BATCH,
        codes.RECORD_OFFSETS_BACKWARDS,
    }
)
MAX_DAMAGE_FINDINGS = 5  # findings to show if the requested batch is missing
MAX_INVALID_BYTES = 1 << 16  # bytes to show that are not a batch


@dataclass(slots=True)
class HexCommand:
    """One call of `hex`: shows the batch at an offset or byte, or the n-th batch or entry; by
    default the first batch, or all of a small file."""

    run: CommandRun
    options: HexOptions

    def execute(self) -> None:
        """Show the requested part of a file; raises UsageError."""
        path = self.options.file
        try:
            file = resolve_pasted_file(path, needs_file=True)
            if file is None:
                path = mount_and_resolve_path(path)
                if is_directory(path):
                    raise UsageError(
                        f"{format_display_name(path)} is a directory; hex needs a file"
                    )
                file = resolve_input_file(path)
            self._show_file(file)
        except NotFoundError as error:
            self.run.output.raise_exit_code(error.exit_code)
            self.run.sink.write_to_stderr(f"kfmt: {escape_unprintable(str(error))}\n")
        except InputError as error:
            self.run.report_input_error(error)

    def _show_file(self, file: InputFile) -> None:
        layout = None
        if self.options.layout is not None:
            kind, layout = NOTES_LAYOUTS[self.options.layout]
            file = replace(file, kind=kind)
        if file.kind.reader is not None:
            self._show_other_file(file, layout)
        else:
            self._show_batch(file)

    def _show_other_file(self, file: InputFile, layout: Layout | None) -> None:
        if self.options.offset is not None:
            raise UsageError(f"{file.name}: --offset works on logs only; use --entry or --position")
        self._write_parts(
            file, [file_anatomy(file, self.options.entry, self.options.position, layout)]
        )
        self.run.handle_events(file.read_contents().findings)

    def _show_batch(self, file: InputFile) -> None:
        """Show the requested batch, then its findings; raises NotFoundError."""
        decoder = find_decoder(self.options.as_topic or self.options.topic or file_topic(file))
        last_offset = -1
        damage_findings: list[Finding] = []
        with open_checked_log(file, read_ahead=False) as log:
            for block in log.blocks:
                batch_index = self._find_batch_index(block)
                if batch_index is not None:
                    batch = block.batches.row(batch_index)
                    shown_bytes = read_bytes_at(file.path, batch.position, batch.size, file.name)
                    findings = self._check_batch(block, batch_index, log.base_offset)
                    anatomy_parts = BatchAnatomy(
                        block,
                        batch_index,
                        shown_bytes,
                        decoder,
                        self.options.decompression_limit,
                        findings=findings,
                    ).iter_parts()
                    self._write_parts(file, map(self._select_requested_record, anatomy_parts))
                    self._report_findings(findings)
                    return
                damage_findings += filter(is_error, block.findings)
                del damage_findings[MAX_DAMAGE_FINDINGS:]
                if len(block.batches):
                    last_offset = int(block.batches.last_offset[-1])
        self.run.handle_events(damage_findings)
        position, not_found_message = (
            self.options.position,
            f"byte {self.options.position} is past the end of the file",
        )
        if position is None and self.options.offset is None:
            position, not_found_message = (
                None if self.options.entry else 0,
                f"no batch {self.options.entry or 0}",
            )
        elif position is None:
            not_found_message = (
                f"no readable batch contains offset {self.options.offset}; "
                f"the last offset is {last_offset}"
            )
        if position is None or not (shown_bytes := _read_invalid_bytes(file, position)):
            raise NotFoundError(f"{file.name}: {not_found_message}")
        self._write_parts(file, [invalid_batch_part(shown_bytes, position)])
        self.run.output.raise_exit_code(ExitCode.FINDINGS)

    def _check_batch(
        self, block: Block, batch_index: int, base_offset: int | None
    ) -> list[Finding]:
        """The findings of `verify-crc --deep` about a batch."""
        limit = self.options.decompression_limit
        range_check = LogRangeCheck(True, limit, base_offset)
        range_check.check_block(slice_block(block, batch_index, batch_index + 1))
        return range_check.findings

    def _report_findings(self, findings: list[Finding]) -> None:
        """Count findings, and show those that are not marked on a field."""
        for finding in findings:
            if finding.code in MARKED_CODES:
                self.run.count_finding(finding)
            else:
                self.run.handle_event(finding)

    def _find_batch_index(self, block: Block) -> int | None:
        """Index of the requested batch in a block; None if it is not in it."""
        batches = block.batches
        if self.options.position is not None:
            batch_starts = batches.position
            requested_mask = (batch_starts <= self.options.position) & (
                self.options.position < batch_starts + batches.size
            )
        elif self.options.offset is not None:
            batch_starts = np.where(
                batches.has_base_offset == 1, batches.base_offset, self.options.offset
            )
            requested_mask = (batch_starts <= self.options.offset) & (
                self.options.offset <= batches.last_offset
            )
        else:
            requested_mask = batches.number == (self.options.entry or 0)
        batch_indexes = np.flatnonzero(requested_mask)
        return int(batch_indexes[0]) if len(batch_indexes) else None

    def _select_requested_record(self, anatomy_part: AnatomyPart) -> AnatomyPart:
        """The part; with --alone, without the records at other offsets."""
        if not self.options.alone:
            return anatomy_part
        nodes = (
            node
            for node in anatomy_part.nodes
            if _record_offset(node) in (None, self.options.offset)
        )
        return AnatomyPart(
            anatomy_part.title, anatomy_part.data, anatomy_part.position, nodes, anatomy_part.codec
        )

    def _write_parts(
        self, file: InputFile, parts: Iterator[AnatomyPart] | list[AnatomyPart]
    ) -> None:
        if self.run.sink.is_for_people:
            self._draw_parts(parts)
            return
        cell_rows = (
            anatomy_cells(anatomy_line, part.data, part.position, part.codec)
            for part in parts
            for node in self._iter_checked_nodes(part.nodes)
            for anatomy_line in structure_lines(node)
        )
        self.run.write_rows(file.name, FIELD_ROW, chunk_rows(cell_rows))

    def _draw_parts(self, parts: Iterator[AnatomyPart] | list[AnatomyPart]) -> None:
        sink = self.run.sink
        hex_dumper = HexDumper(sink.streams.theme, sink.streams.width, self.options.whole)
        for part_index, part in enumerate(parts):
            sink.write_line(("\n" if part_index else "") + hex_dumper.format_title(part.title))
            for node in self._iter_checked_nodes(part.nodes):
                for anatomy_line in structure_lines(node):
                    for output_line in hex_dumper.format_field_lines(
                        anatomy_line, part.data, 0 if part.codec else part.position
                    ):
                        sink.write_line(output_line)

    def _iter_checked_nodes(self, nodes: Iterable[FieldNode]) -> Iterator[FieldNode]:
        """The same nodes; an incomplete one counts as a finding."""
        for node in nodes:
            if not node.is_complete:
                self.run.output.raise_exit_code(ExitCode.FINDINGS)
            yield node


def _record_offset(node: FieldNode) -> int | None:
    """The offset of a record; None for any other node."""
    return next(
        (
            child_node.record_offset
            for child_node in node.children
            if child_node.record_offset is not None
        ),
        None,
    )


def _read_invalid_bytes(file: InputFile, position: int) -> bytes:
    """Bytes of a file from a position onward, as many as a batch there declares."""
    header_bytes = read_bytes_at(file.path, position, BATCH_HEADER_BYTES, file.name)
    declared_size = (
        LOG_OVERHEAD_BYTES + header.batch_length(header_bytes)
        if len(header_bytes) >= LOG_OVERHEAD_BYTES
        else 0
    )
    return read_bytes_at(
        file.path,
        position,
        min(max(declared_size, BATCH_HEADER_BYTES), MAX_INVALID_BYTES),
        file.name,
    )
