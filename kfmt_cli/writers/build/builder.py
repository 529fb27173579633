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
from kfmt_cli.writers.build.jsonl import BatchLine, BuildLine, LineError, RecordLine, line_error
from kfmt_cli.writers.build.open_partition import PartitionBuildState
from kfmt_cli.writers.build.options import BatchOptions
from kfmt_cli.writers.build.unbatched_records import BatchPlan, plan_unbatched_records
from kfmt_cli.writers.rolling_writer import RollingWriter

MIN_BUFFERED_LINES = 8192  # enough lines for efficient NumPy calls
SNAPSHOT_SUFFIX = ".checkpoint"
CONTENT_LINE_TYPES = frozenset({RecordLine, BatchLine})  # other lines contain findings or results


@dataclass(frozen=True, slots=True)
class TargetFile:
    """A file named in lines."""

    directory: str = ""
    """A single directory name, or empty."""
    base_offset: int | None = None
    """The base offset of a segment, if its name has one."""
    snapshot_name: str | None = None
    """The complete name of a KRaft snapshot, None for a log."""

    @property
    def partition_key(self) -> str:
        """The key of a sequence of offsets: a partition's directory, or one snapshot."""
        return (
            self.directory
            if self.snapshot_name is None
            else f"{self.directory}/{self.snapshot_name}"
        )


def parse_target_file(line: BuildLine) -> TargetFile:
    """The file that a line names, always under DST; raises LineError."""
    if line.file is None:
        return TargetFile()
    if not line.file.isprintable():
        raise line_error(line, f"{line.file!r} is not a file name")
    named_path = PurePath(line.file)
    directory = named_path.parent.name
    directory = "" if directory in ("", ".", "..") else directory
    if classify_name(named_path.name)[0] is KRAFT_SNAPSHOT_KIND:
        snapshot_id, _, _ = named_path.name.partition(SNAPSHOT_SUFFIX)
        return TargetFile(directory, snapshot_name=snapshot_id + SNAPSHOT_SUFFIX)
    offset_digits = named_path.name.split(".", 1)[0].split("-", 1)[0]
    has_base_offset = (
        len(offset_digits) == 20 and offset_digits.isascii() and offset_digits.isdigit()
    )
    return TargetFile(directory, int(offset_digits) if has_base_offset else None)


@dataclass(slots=True)
class SegmentBuilder:
    """Builds batches from lines and passes them to a writer."""

    options: BatchOptions
    writer: RollingWriter
    target_topic: str | None = None
    """The topic for all records; None for the topics of the lines."""
    n_ignored_lines: int = 0
    """The number of lines with findings or results."""
    assembler: BatchAssembler = field(init=False)
    _buffered_lines: list[RecordLine | BatchLine] = field(default_factory=list)
    _file_name: str | None = None
    _target_file: TargetFile | None = None
    _state_by_partition: dict[str, PartitionBuildState] = field(default_factory=dict)
    _source_topic: str | None = None  # the topic in the lines
    _batch_line: BatchLine | None = None  # the batch line of the next record
    _line_number: int = 0

    def __post_init__(self) -> None:
        self.assembler = BatchAssembler(self._write_batches)

    def build_lines(self, chunks: Iterable[Sequence[BuildLine]]) -> None:
        """Build all lines; raises LineError, OutputError."""
        for lines in chunks:
            content_lines: Sequence[BuildLine] = lines
            if not CONTENT_LINE_TYPES.issuperset(map(type, lines)):
                content_lines = [line for line in lines if type(line) in CONTENT_LINE_TYPES]
                self.n_ignored_lines += len(lines) - len(content_lines)
            self._buffered_lines += cast(Sequence[RecordLine | BatchLine], content_lines)
            if len(self._buffered_lines) >= MIN_BUFFERED_LINES:
                self._plan_buffered_lines(is_final=False)
        self._plan_buffered_lines(is_final=True)

    def _plan_buffered_lines(self, is_final: bool) -> None:
        """Plan the buffered lines. Unless `is_final`, a last batch line waits for its records."""
        buffered_lines = self._buffered_lines
        n_ready_lines = len(buffered_lines)
        if buffered_lines and not is_final and isinstance(buffered_lines[-1], BatchLine):
            n_ready_lines -= 1
        for first_index, end_index in self._iter_file_ranges(buffered_lines[:n_ready_lines]):
            self._plan_file_lines(buffered_lines[first_index:end_index])
        del buffered_lines[:n_ready_lines]
        if is_final:
            self.assembler.close_open_batch()

    def _iter_file_ranges(
        self, lines: Sequence[RecordLine | BatchLine]
    ) -> Iterator[tuple[int, int]]:
        """The index ranges of lines of one file; a line without a name continues the file."""
        first_index, file_name = 0, self._file_name
        file_names = field_values(lines, "file")
        if len(set(file_names)) > 1:
            for line_index, line_file_name in enumerate(file_names):
                if line_file_name is not None and line_file_name != file_name:
                    if line_index > first_index:
                        yield first_index, line_index
                    first_index, file_name = line_index, line_file_name
        if len(lines) > first_index:
            yield first_index, len(lines)

    def _plan_file_lines(self, lines: Sequence[RecordLine | BatchLine]) -> None:
        file_name = lines[0].file
        self._line_number = lines[0].number
        if self._target_file is None or file_name not in (None, self._file_name):
            self.assembler.close_open_batch()
            self._file_name, self._batch_line = file_name, None
            self._begin_file(lines[0], self._resolve_target_file(lines[0]))
        batch_line_indexes = np.flatnonzero(np.array([type(line) is BatchLine for line in lines]))
        n_unbatched_lines = int(batch_line_indexes[0]) if len(batch_line_indexes) else len(lines)
        if n_unbatched_lines:
            self._plan_record_lines(cast(Sequence[RecordLine], lines[:n_unbatched_lines]))
        all_batch_lines = [cast(BatchLine, lines[i]) for i in batch_line_indexes.tolist()]
        record_counts_by_line = np.diff(batch_line_indexes, append=len(lines)) - 1
        # Plan batches of one magic together.
        magics = [batch.magic for batch in all_batch_lines]
        group_starts = [
            i for i in range(len(all_batch_lines)) if not i or magics[i] != magics[i - 1]
        ]
        for first_index, end_index in pairwise([*group_starts, len(all_batch_lines)]):
            group_lines = lines[
                int(batch_line_indexes[first_index]) : int(batch_line_indexes[end_index])
                if end_index < len(batch_line_indexes)
                else len(lines)
            ]
            records = [line for line in group_lines if type(line) is RecordLine]
            batch_lines, record_counts = (
                all_batch_lines[first_index:end_index],
                record_counts_by_line[first_index:end_index],
            )
            self._add_plan(
                plan_batches(
                    batch_lines, records, record_counts, self.options, self._partition_state
                )
            )
            self._batch_line = batch_lines[-1]

    def _resolve_target_file(self, line: RecordLine | BatchLine) -> TargetFile:
        """The file of a line, in a directory of the requested topic; raises LineError."""
        target_file = parse_target_file(line)
        if self.target_topic is None:
            return target_file
        if target_file.snapshot_name is not None:
            raise line_error(line, "--topic: a KRaft snapshot belongs to no topic")
        topic, partition_number = parse_topic_partition(target_file.directory)
        if topic is not None and self._source_topic not in (None, topic):
            raise line_error(
                line, f"--topic: lines of two topics, {self._source_topic} and {topic}"
            )
        self._source_topic = topic or self._source_topic
        return replace(target_file, directory=f"{self.target_topic}-{partition_number or 0}")

    @property
    def _partition_state(self) -> PartitionBuildState:
        assert self._target_file is not None
        return self._state_by_partition[self._target_file.partition_key]

    def _plan_record_lines(self, lines: Sequence[RecordLine]) -> None:
        """Plan records of the last batch line, or without a batch line if there was none."""
        open_batch = self.assembler.open_batch
        if self._batch_line is None:
            self._add_plan(
                plan_unbatched_records(lines, self.options, self._partition_state, open_batch)
            )
        else:
            assert open_batch is not None
            self._add_plan(
                plan_more_records(
                    self._batch_line, lines, open_batch, self.options, self._partition_state
                )
            )

    def _add_plan(self, plan: BatchPlan) -> None:
        if plan.continuation is not None:
            self.assembler.extend_open_batch(plan.continuation)
        if not len(plan.drafts):
            return
        base_offset, line_number = int(plan.drafts.base_offset[0]), int(plan.drafts.line_number[0])
        segment_base_offset = self.writer.base_offset
        if segment_base_offset is not None and base_offset < segment_base_offset:
            message = (
                f"offset {base_offset} is before the segment's base offset {segment_base_offset}"
            )
            raise line_error(line_number, message)
        self.assembler.add_batches(plan.drafts, plan.records)

    def _begin_file(self, line: RecordLine | BatchLine, target_file: TargetFile) -> None:
        """Begin or continue the file that a line names; raises LineError."""
        previous_target, self._target_file = self._target_file, target_file
        keeps_segment_names = self.writer.settings.keeps_named_segments
        base_offset = target_file.base_offset if keeps_segment_names else None
        if (
            previous_target is None
            and self.options.base_offset is not None
            and target_file.snapshot_name is None
        ):
            base_offset = self.options.base_offset
        partition_state = self._state_by_partition.setdefault(
            target_file.partition_key, PartitionBuildState()
        )
        partition_state.default_start_offset = base_offset or 0
        partition_state.last_shared_values = None
        if (
            not keeps_segment_names
            and previous_target is not None
            and previous_target.partition_key == target_file.partition_key
        ):
            return
        keeps_file_name = keeps_segment_names and line.file is not None
        if not self.writer.begin_file(
            target_file.directory, base_offset, target_file.snapshot_name, keeps_file_name
        ):
            raise line_error(line, f"lines of {line.file} must be contiguous; some came earlier")

    def _write_batches(self, batches: EncodedBatches) -> None:
        try:
            self.writer.append_batches(batches)
        except LineError:
            raise
        except InputError as error:
            raise line_error(self._line_number, str(error)) from None
