"""build: lines of JSON → batches → segments.

Batch lines define the grouping of records and the header; the options group records before the
first batch line. Lines are processed in runs that belong to one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import PurePath
from typing import cast

import numpy as np

from kfmt_cli.disk.kinds import kind_of
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT
from kfmt_cli.disk.names import place_of
from kfmt_cli.errors import InputError
from kfmt_cli.writing.batches import Written
from kfmt_cli.writing.build.batch_lines import plan_batches, plan_more
from kfmt_cli.writing.build.growing import Growing
from kfmt_cli.writing.build.jsonl import Batch, Line, LineError, Record, wrong
from kfmt_cli.writing.build.loose import Plan, plan_loose
from kfmt_cli.writing.build.open_partition import OpenPartition
from kfmt_cli.writing.build.options import Options
from kfmt_cli.writing.build.parse import field_of
from kfmt_cli.writing.rolling import RollingWriter

ENOUGH = 8192  # lines, so that each NumPy call does much work
SNAPSHOT_SUFFIX = ".checkpoint"
READ = frozenset({Record, Batch})  # other lines report findings or results


@dataclass(frozen=True, slots=True)
class Target:
    """A file named in lines."""

    folder: str = ""
    """A single name, or empty."""
    base_offset: int | None = None
    """The base offset of a segment, if its name has one."""
    snapshot: str | None = None
    """The complete name of a KRaft snapshot, None for a log."""

    @property
    def partition(self) -> str:
        """The name of the unit with its own offsets: a partition's log, or one snapshot."""
        return self.folder if self.snapshot is None else f"{self.folder}/{self.snapshot}"


def target_of(line: Line) -> Target:
    """The file that a line names, always under DST; raises LineError."""
    if line.file is None:
        return Target()
    if not line.file.isprintable():
        raise wrong(line, f"{line.file!r} is not a file name")
    path = PurePath(line.file)
    folder = path.parent.name
    folder = "" if folder in ("", ".", "..") else folder
    if kind_of(path.name)[0] is KRAFT_SNAPSHOT:
        stem, _, _ = path.name.partition(SNAPSHOT_SUFFIX)
        return Target(folder, snapshot=stem + SNAPSHOT_SUFFIX)
    digits = path.name.split(".", 1)[0].split("-", 1)[0]
    named = len(digits) == 20 and digits.isascii() and digits.isdigit()
    return Target(folder, int(digits) if named else None)


@dataclass(slots=True)
class SegmentBuilder:
    """Builds batches from lines and passes them to a writer."""

    options: Options
    writer: RollingWriter
    topic: str | None = None
    """The topic to which all records are to belong; None for that of their lines."""
    ignored: int = 0
    """Lines that report findings or results."""
    growing: Growing = field(init=False)
    _held: list[Record | Batch] = field(default_factory=list)
    _file: str | None = None
    _target: Target | None = None
    _partitions: dict[str, OpenPartition] = field(default_factory=dict)
    _topic: str | None = None  # of the lines
    _line: Batch | None = None  # the batch line of the next record
    _number: int = 0

    def __post_init__(self) -> None:
        self.growing = Growing(self._put)

    def build(self, pieces: Iterable[Sequence[Line]]) -> None:
        """Build all lines; raises LineError, OutputError."""
        for lines in pieces:
            taken: Sequence[Line] = lines
            if not READ.issuperset(map(type, lines)):
                taken = [line for line in lines if type(line) in READ]
                self.ignored += len(lines) - len(taken)
            self._held += cast(Sequence[Record | Batch], taken)
            if len(self._held) >= ENOUGH:
                self._flush(final=False)
        self._flush(final=True)

    def _flush(self, final: bool) -> None:
        """Plan the buffered lines, except a final batch line whose first record may follow."""
        held = self._held
        stop = len(held)
        if held and not final and isinstance(held[-1], Batch):
            stop -= 1
        for first, last in self._runs(held[:stop]):
            self._run(held[first:last])
        del held[:stop]
        if final:
            self.growing.close()

    def _runs(self, lines: Sequence[Record | Batch]) -> Iterator[tuple[int, int]]:
        """The ranges of lines of one file; a line without a name belongs to the previous file."""
        first, file = 0, self._file
        files = field_of(lines, "file")
        if len(set(files)) > 1:
            for i, name in enumerate(files):
                if name is not None and name != file:
                    if i > first:
                        yield first, i
                    first, file = i, name
        if len(lines) > first:
            yield first, len(lines)

    def _run(self, lines: Sequence[Record | Batch]) -> None:
        file = lines[0].file
        self._number = lines[0].number
        if self._target is None or file not in (None, self._file):
            self.growing.close()
            self._file, self._line = file, None
            self._begin(lines[0], self._target_of(lines[0]))
        at = np.flatnonzero(np.array([type(line) is Batch for line in lines]))
        loose = int(at[0]) if len(at) else len(lines)
        if loose:
            self._records(cast(Sequence[Record], lines[:loose]))
        batches = [cast(Batch, lines[i]) for i in at.tolist()]
        counts = np.diff(at, append=len(lines)) - 1
        # Plan batches of one magic together.
        magics = [batch.magic for batch in batches]
        firsts = [i for i in range(len(batches)) if not i or magics[i] != magics[i - 1]]
        for first, end in pairwise([*firsts, len(batches)]):
            rest = lines[int(at[first]) : int(at[end]) if end < len(at) else len(lines)]
            records = [line for line in rest if type(line) is Record]
            chosen, n = batches[first:end], counts[first:end]
            self._apply(plan_batches(chosen, records, n, self.options, self._partition))
            self._line = chosen[-1]

    def _target_of(self, line: Record | Batch) -> Target:
        """The file of a line, in a directory of the wanted topic; raises LineError."""
        target = target_of(line)
        if self.topic is None:
            return target
        if target.snapshot is not None:
            raise wrong(line, "--topic: a KRaft snapshot belongs to no topic")
        name, number = place_of(target.folder)
        if name is not None and self._topic not in (None, name):
            raise wrong(line, f"--topic: lines of two topics, {self._topic} and {name}")
        self._topic = name or self._topic
        return replace(target, folder=f"{self.topic}-{number or 0}")

    @property
    def _partition(self) -> OpenPartition:
        assert self._target is not None
        return self._partitions[self._target.partition]

    def _records(self, lines: Sequence[Record]) -> None:
        """Plan records without a batch line among them: of the last batch line, or loose."""
        batch = self.growing.open
        if self._line is None:
            self._apply(plan_loose(lines, self.options, self._partition, batch))
        else:
            assert batch is not None
            self._apply(plan_more(self._line, lines, batch, self.options, self._partition))

    def _apply(self, plan: Plan) -> None:
        if plan.goes_on is not None:
            self.growing.extend(plan.goes_on)
        if not len(plan.drafts):
            return
        base, number = int(plan.drafts.base_offset[0]), int(plan.drafts.number[0])
        of_segment = self.writer.base_offset
        if of_segment is not None and base < of_segment:
            words = f"offset {base} is before the segment's base offset {of_segment}"
            raise wrong(number, words)
        self.growing.add(plan.drafts, plan.records)

    def _begin(self, line: Record | Batch, target: Target) -> None:
        """Continue with the file that a line names."""
        before, self._target = self._target, target
        by_file = self.writer.rolling.by_file
        base = target.base_offset if by_file else None
        if before is None and self.options.base_offset is not None and target.snapshot is None:
            base = self.options.base_offset
        partition = self._partitions.setdefault(target.partition, OpenPartition())
        partition.start = base or 0
        partition.facts = None
        if not by_file and before is not None and before.partition == target.partition:
            return
        of_file = by_file and line.file is not None
        if not self.writer.begin(target.folder, base, target.snapshot, of_file):
            raise wrong(line, f"lines of {line.file} must be contiguous; some came earlier")

    def _put(self, written: Written) -> None:
        try:
            self.writer.append(written)
        except LineError:
            raise
        except InputError as error:
            raise wrong(self._number, str(error)) from None
