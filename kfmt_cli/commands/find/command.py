"""find: the segment, batch and byte of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np

from kfmt_cli.broker.offsets.seek import (
    SCAN,
    ReadingStart,
    blocks_from,
    start_for_offset,
    start_for_time,
)
from kfmt_cli.commands.each_partition import LogStarts, blocks_of, reading
from kfmt_cli.commands.partition_selection import wanted_of
from kfmt_cli.commands.run import Cells, Run, in_pieces
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.disk.names import identity
from kfmt_cli.disk.segment import Segment
from kfmt_cli.disk.targets import GivenPath, targets
from kfmt_cli.disk.tree import no_log
from kfmt_cli.errors import ExitCode, InputError
from kfmt_cli.findings.finding import Findings
from kfmt_cli.log.block import Block, part_of, runs
from kfmt_cli.log.derived_columns import read_complete
from kfmt_cli.log.records import Records
from kfmt_cli.log.selection.record_match import Match
from kfmt_cli.log.selection.select import Asked, Selection
from kfmt_cli.render.style import count, safe
from kfmt_cli.rows.types.found import FOUND

MANY_LATER = 256  # stop after this many batches that begin later; damage may fake a few


@dataclass(slots=True)
class Find:
    """One call of `find`; exactly one of offset, timestamp and asked is set."""

    run: Run
    offset: int | None = None
    timestamp: int | None = None
    asked: Asked = field(default_factory=Asked)
    """Conditions on records."""
    most_rows: int | None = None
    """Total number of rows to show; None for all."""
    limit: Limit = field(default_factory=Limit)
    _n_found: int = 0
    _n_files: int = 0
    _shown: Findings = field(init=False)
    """Of the segment that is searched."""

    def paths(self, paths: tuple[str, ...]) -> None:
        """Search every partition under some paths."""
        found: dict[str, Segment] = {}
        for target in targets(paths, self.run.complain):
            with self.run.complaining():
                segments = list(target.in_use(self.run.sink.note).segments())
                logs = [segment for segment in segments if segment.log is not None]
                if segments and not logs:
                    raise InputError(_without_logs(target))
                for segment in logs:
                    found.setdefault(segment.real_path, segment)
        logs = list(found.values())
        starts = LogStarts(self.run)
        read = [segment.any_file for segment in logs] if self.asked else []
        with reading(self.run, read):
            for group in _by_folder(logs).values():
                partition = sorted(group, key=lambda segment: segment.any_file.base)
                first = partition[0].any_file
                starts.tell(first.path, first.base_offset, first.name)
                self._partition(partition)
        if self._n_files > 1:
            self.run.sink.remark(count(self._n_found, "place"))
        elif logs and not self._n_found:
            self.run.sink.remark("not found")
        if logs and not self._n_found:
            self.run.host.reached(ExitCode.FINDINGS)

    def _partition(self, logs: list[Segment]) -> None:
        if self.offset is not None:
            below = [log for log in logs if log.any_file.base <= self.offset]
            for segment in below[-1:]:
                self._segment(segment, partial(self._of_offset, self.offset))
        elif self.timestamp is not None:
            for segment in logs:
                if self._segment(segment, partial(self._of_time, self.timestamp)):
                    return
        else:
            self._wanted(logs)

    def _wanted(self, segments: list[Segment]) -> None:
        """Search the segments of a partition for selected records."""
        logs = [segment.log for segment in segments if segment.log is not None]
        with self.run.complaining():
            wanted = wanted_of(self.asked, logs, self.limit)
            of_producer = Selection(match=Match(producer_id=wanted.match.producer_id))
            look = self._of_batches if wanted == of_producer else self._of_records
            reached = {log.path for log in wanted.logs(logs)}
            for segment in segments:
                if segment.any_file.path in reached:
                    self._segment(segment, partial(look, wanted))

    def _segment(self, segment: Segment, look: Callable[[Segment], Iterator[Cells]]) -> int:
        """Search a segment and show the matches; returns their number."""
        if self.most_rows == 0:
            return 0
        self._shown = Findings(self.run.most_findings)
        rows = islice(self._rows(segment, look), self.most_rows)
        n_found = 0
        if (first := next(rows, None)) is not None:
            pieces = in_pieces(chain([first], rows))
            n_found = self.run.rows(segment.own_log.name, FOUND, pieces, ("place", "places"))
            self._n_files += 1
            self._n_found += n_found
            self.most_rows = None if self.most_rows is None else self.most_rows - n_found
        self.run.left_out(segment.own_log.name, self._shown)
        return n_found

    def _rows(
        self, segment: Segment, look: Callable[[Segment], Iterator[Cells]]
    ) -> Iterator[Cells]:
        """The matches in a segment, up to the first unreadable byte; reports its findings."""
        with self.run.complaining():
            yield from look(segment)

    # By offset and by time.

    def _of_offset(self, offset: int, segment: Segment) -> Iterator[Cells]:
        start = self._told(segment, start_for_offset(segment, offset))
        n_later, following, end = 0, None, None
        for block in self._blocks(segment, start):
            batches = block.batches
            begins_later = (batches.base_offset > offset) & (batches.has_base_offset == 1)
            fits = (batches.last_offset >= offset) & ~begins_later
            sound = fits & (batches.crc_valid == 1)
            if fits.any():
                i = int(np.argmax(sound if sound.any() else fits))
                rows = self._records_in(
                    block, i, lambda records: records.rows.offset == offset, start.via
                )
                yield from [*rows] or [_row(block, i, start.via)]
                return
            if following is None and begins_later.any():
                following = int(batches.base_offset[begins_later].min())
            if len(batches):
                end = int(batches.last_offset.max()) + 1
            n_later += int(begins_later.sum())
            if n_later >= MANY_LATER:
                break  # compaction has removed it
        words = f"the next batch starts at offset {following}"
        if following is None:
            words = "it is empty" if end is None else f"the segment ends before offset {end}"
        self.run.sink.note(f"{safe(segment.any_file.name)}: {words}\n")

    def _of_time(self, timestamp: int, segment: Segment) -> Iterator[Cells]:
        start = self._told(segment, start_for_time(segment, timestamp))
        for block in self._blocks(segment, start):
            batches = block.batches
            late = (batches.max_timestamp >= timestamp) & (batches.has_timestamp == 1)
            for i in np.flatnonzero(late).tolist():
                rows = self._records_in(
                    block, i, lambda records: records.rows.timestamp >= timestamp, start.via
                )
                first = next(rows, None)
                if first is not None:
                    yield first
                    return

    def _told(self, segment: Segment, start: ReadingStart) -> ReadingStart:
        """Note why an index is not used, if so; returns `start`."""
        if start.via == SCAN:
            words = f"{segment.any_file.name}: scanned from the start: {start.why}"
            self.run.sink.note(f"{safe(words)}\n")
        return start

    def _blocks(self, segment: Segment, start: ReadingStart) -> Iterator[Block]:
        """The blocks of a log from a position on; after one from an index, only findings about
        batches that are decoded are reported."""
        if start.position:
            for block in blocks_from(segment.own_log, start.position):
                yield replace(block, findings=[])
        else:
            yield from self._all(segment)

    def _records_in(
        self, block: Block, i: int, wanted: Callable[[Records], BoolArray], via: str
    ) -> Iterator[Cells]:
        """The wanted records of batch i."""
        for run in runs(part_of(block, i, i + 1)):
            records = read_complete(run, self.limit)
            self.run.tell([*run.findings, *records.findings], self._shown)
            for row in np.flatnonzero(wanted(records)).tolist():
                yield _row(block, i, via, records, row)

    # By record conditions and by producer.

    def _of_records(self, wanted: Selection, segment: Segment) -> Iterator[Cells]:
        for block in self._all(segment):
            for run, records in wanted.near(block, self.limit):
                self.run.tell([*run.findings, *records.findings], self._shown)
                for row in np.flatnonzero(wanted.of_records(run, records)).tolist():
                    i = int(np.searchsorted(records.ends, row, side="right"))
                    yield _row(run, i, SCAN, records, row)

    def _of_batches(self, wanted: Selection, segment: Segment) -> Iterator[Cells]:
        for block in self._all(segment):
            for i in np.flatnonzero(wanted.match.batches(block.batches)).tolist():
                yield _row(block, i, SCAN)

    def _all(self, segment: Segment) -> Iterator[Block]:
        """All blocks of a log, whose findings are reported."""
        for _, block in blocks_of([segment.own_log]):
            self.run.tell(block.findings, self._shown)
            yield replace(block, findings=[])


def _row(
    block: Block, i: int, via: str, records: Records | None = None, row: int | None = None
) -> Cells:
    """The row of a batch, or of a record in it."""
    batch = block.batches.row(i)
    base = batch.base_offset if batch.has_base_offset else None
    offset = position = None
    timestamp = batch.max_timestamp if batch.has_timestamp else None
    if records is not None and row is not None:
        rows = records.rows
        offset = int(rows.offset[row])
        position = int(rows.position[row]) if rows.has_position[row] else None
        timestamp = int(rows.timestamp[row]) if rows.has_timestamp[row] else None
    place = batch.position, batch.size, base, batch.last_offset
    return (*place, offset, position, timestamp, via)


def _without_logs(given: GivenPath) -> str:
    """The message for a path with indexes alone."""
    if given.file is None:
        return no_log(given.path)
    return f"{given.file.name}: the log of this index is missing"


def _by_folder(logs: list[Segment]) -> dict[str, list[Segment]]:
    """The segments of each partition."""
    found: dict[str, list[Segment]] = {}
    for segment in logs:
        found.setdefault(identity(str(Path(segment.any_file.path).parent)), []).append(segment)
    return found
