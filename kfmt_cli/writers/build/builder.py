"""Builds segments from JSON lines of batches and records, for `build`.

Batch lines define headers and the grouping of records. Records before the first batch line are
grouped by the options. Lines are processed in runs that belong to one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import PurePath
from typing import cast

import numpy as np

from kfmt_cli.disk.file_names import parse_topic_partition
from kfmt_cli.disk.kinds import classify_name
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.writers.batches import EncodedBatches
from kfmt_cli.writers.build.batch_assembler import BatchAssembler
from kfmt_cli.writers.build.batch_lines import plan_batches, plan_more_records
from kfmt_cli.writers.build.json_columns import field_values
from kfmt_cli.writers.build.jsonl import Batch, BuildLine, LineError, Record, line_error
from kfmt_cli.writers.build.open_partition import OpenPartition
from kfmt_cli.writers.build.options import BuildOptions
from kfmt_cli.writers.build.unbatched_records import BatchPlan, plan_unbatched
from kfmt_cli.writers.rolling_writer import RollingWriter

MIN_BUFFERED_LINES = 8192  # enough lines for efficient NumPy calls
SNAPSHOT_SUFFIX = ".checkpoint"
CONTENT_TYPES = frozenset({Record, Batch})  # other lines contain findings or results


@dataclass(frozen=True, slots=True)
class TargetFile:
    """A file named in lines."""

    directory: str = ""
    """A single directory name, or empty."""
    base_offset: int | None = None
    """The base offset of a segment, if its name has one."""
    snapshot: str | None = None
    """The complete name of a KRaft snapshot, None for a log."""

    @property
    def partition(self) -> str:
        """The key of a sequence of offsets: a partition's directory, or one snapshot."""
        return self.directory if self.snapshot is None else f"{self.directory}/{self.snapshot}"


def parse_target_file(line: BuildLine) -> TargetFile:
    """The file that a line names, always under DST; raises LineError."""
    if line.file is None:
        return TargetFile()
    if not line.file.isprintable():
        raise line_error(line, f"{line.file!r} is not a file name")
    path = PurePath(line.file)
    directory = path.parent.name
    directory = "" if directory in ("", ".", "..") else directory
    if classify_name(path.name)[0] is KRAFT_SNAPSHOT_KIND:
        snapshot_id, _, _ = path.name.partition(SNAPSHOT_SUFFIX)
        return TargetFile(directory, snapshot=snapshot_id + SNAPSHOT_SUFFIX)
    digits = path.name.split(".", 1)[0].split("-", 1)[0]
    has_base_offset = len(digits) == 20 and digits.isascii() and digits.isdigit()
    return TargetFile(directory, int(digits) if has_base_offset else None)


@dataclass(slots=True)
class SegmentBuilder:
    """Builds batches from lines and passes them to a writer."""

    options: BuildOptions
    writer: RollingWriter
    topic: str | None = None
    """The topic for all records; None for the topics of the lines."""
    n_ignored_lines: int = 0
    """The number of lines with findings or results."""
    assembler: BatchAssembler = field(init=False)
    _buffered_lines: list[Record | Batch] = field(default_factory=list)
    _file_name: str | None = None
    _target: TargetFile | None = None
    _partitions: dict[str, OpenPartition] = field(default_factory=dict)
    _source_topic: str | None = None  # the topic in the lines
    _batch_line: Batch | None = None  # the batch line of the next record
    _line_number: int = 0

    def __post_init__(self) -> None:
        self.assembler = BatchAssembler(self._write_batches)

    def build(self, chunks: Iterable[Sequence[BuildLine]]) -> None:
        """Build all lines; raises LineError, OutputError."""
        for lines in chunks:
            content_lines: Sequence[BuildLine] = lines
            if not CONTENT_TYPES.issuperset(map(type, lines)):
                content_lines = [line for line in lines if type(line) in CONTENT_TYPES]
                self.n_ignored_lines += len(lines) - len(content_lines)
            self._buffered_lines += cast(Sequence[Record | Batch], content_lines)
            if len(self._buffered_lines) >= MIN_BUFFERED_LINES:
                self._flush(is_final=False)
        self._flush(is_final=True)

    def _flush(self, is_final: bool) -> None:
        """Plan the buffered lines. Unless `is_final`, a last batch line waits for its records."""
        buffered_lines = self._buffered_lines
        n_ready_lines = len(buffered_lines)
        if buffered_lines and not is_final and isinstance(buffered_lines[-1], Batch):
            n_ready_lines -= 1
        for first, end in self._iter_runs(buffered_lines[:n_ready_lines]):
            self._plan_run(buffered_lines[first:end])
        del buffered_lines[:n_ready_lines]
        if is_final:
            self.assembler.close()

    def _iter_runs(self, lines: Sequence[Record | Batch]) -> Iterator[tuple[int, int]]:
        """The index ranges of lines of one file; a line without a name continues the file."""
        first, file_name = 0, self._file_name
        file_names = field_values(lines, "file")
        if len(set(file_names)) > 1:
            for i, name in enumerate(file_names):
                if name is not None and name != file_name:
                    if i > first:
                        yield first, i
                    first, file_name = i, name
        if len(lines) > first:
            yield first, len(lines)

    def _plan_run(self, lines: Sequence[Record | Batch]) -> None:
        file_name = lines[0].file
        self._line_number = lines[0].number
        if self._target is None or file_name not in (None, self._file_name):
            self.assembler.close()
            self._file_name, self._batch_line = file_name, None
            self._begin_file(lines[0], self._resolve_target(lines[0]))
        batch_rows = np.flatnonzero(np.array([type(line) is Batch for line in lines]))
        n_unbatched = int(batch_rows[0]) if len(batch_rows) else len(lines)
        if n_unbatched:
            self._plan_records(cast(Sequence[Record], lines[:n_unbatched]))
        all_batch_lines = [cast(Batch, lines[i]) for i in batch_rows.tolist()]
        counts = np.diff(batch_rows, append=len(lines)) - 1
        # Plan batches of one magic together.
        magics = [batch.magic for batch in all_batch_lines]
        group_starts = [
            i for i in range(len(all_batch_lines)) if not i or magics[i] != magics[i - 1]
        ]
        for first, end in pairwise([*group_starts, len(all_batch_lines)]):
            group_lines = lines[
                int(batch_rows[first]) : int(batch_rows[end])
                if end < len(batch_rows)
                else len(lines)
            ]
            records = [line for line in group_lines if type(line) is Record]
            batch_lines, record_counts = all_batch_lines[first:end], counts[first:end]
            self._add_plan(
                plan_batches(batch_lines, records, record_counts, self.options, self._partition)
            )
            self._batch_line = batch_lines[-1]

    def _resolve_target(self, line: Record | Batch) -> TargetFile:
        """The file of a line, in a directory of the requested topic; raises LineError."""
        target = parse_target_file(line)
        if self.topic is None:
            return target
        if target.snapshot is not None:
            raise line_error(line, "--topic: a KRaft snapshot belongs to no topic")
        topic, partition = parse_topic_partition(target.directory)
        if topic is not None and self._source_topic not in (None, topic):
            raise line_error(
                line, f"--topic: lines of two topics, {self._source_topic} and {topic}"
            )
        self._source_topic = topic or self._source_topic
        return replace(target, directory=f"{self.topic}-{partition or 0}")

    @property
    def _partition(self) -> OpenPartition:
        assert self._target is not None
        return self._partitions[self._target.partition]

    def _plan_records(self, lines: Sequence[Record]) -> None:
        """Plan records of the last batch line, or without a batch line if there was none."""
        batch = self.assembler.open_batch
        if self._batch_line is None:
            self._add_plan(plan_unbatched(lines, self.options, self._partition, batch))
        else:
            assert batch is not None
            self._add_plan(
                plan_more_records(self._batch_line, lines, batch, self.options, self._partition)
            )

    def _add_plan(self, plan: BatchPlan) -> None:
        if plan.continuation is not None:
            self.assembler.extend(plan.continuation)
        if not len(plan.drafts):
            return
        base_offset, line_number = int(plan.drafts.base_offset[0]), int(plan.drafts.line_number[0])
        segment_base_offset = self.writer.base_offset
        if segment_base_offset is not None and base_offset < segment_base_offset:
            message = (
                f"offset {base_offset} is before the segment's base offset {segment_base_offset}"
            )
            raise line_error(line_number, message)
        self.assembler.add(plan.drafts, plan.records)

    def _begin_file(self, line: Record | Batch, target: TargetFile) -> None:
        """Begin or continue the file that a line names; raises LineError."""
        previous_target, self._target = self._target, target
        keeps_segment_names = self.writer.settings.keeps_named_segments
        base_offset = target.base_offset if keeps_segment_names else None
        if (
            previous_target is None
            and self.options.base_offset is not None
            and target.snapshot is None
        ):
            base_offset = self.options.base_offset
        partition = self._partitions.setdefault(target.partition, OpenPartition())
        partition.default_start_offset = base_offset or 0
        partition.shared_values = None
        if (
            not keeps_segment_names
            and previous_target is not None
            and previous_target.partition == target.partition
        ):
            return
        keeps_file_name = keeps_segment_names and line.file is not None
        if not self.writer.begin(target.directory, base_offset, target.snapshot, keeps_file_name):
            raise line_error(line, f"lines of {line.file} must be contiguous; some came earlier")

    def _write_batches(self, batches: EncodedBatches) -> None:
        try:
            self.writer.append(batches)
        except LineError:
            raise
        except InputError as error:
            raise line_error(self._line_number, str(error)) from None
