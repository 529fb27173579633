"""stat: statistics of topics, partitions or segments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.each_partition import LogStartNotes
from kfmt_cli.commands.partition_selection import resolve_selection
from kfmt_cli.commands.settings_resolver import TopicSettingsResolver
from kfmt_cli.commands.stat.codec_trial import CodecTrial, try_codecs
from kfmt_cli.commands.stat.disk_usage import partitions_by_directory, write_usage
from kfmt_cli.commands.stat.lines import detail_lines, iter_columns
from kfmt_cli.commands.stat.log_processor import StatProcessor
from kfmt_cli.commands.stat.shape_totals import (
    LogNumbersCache,
    LogShapeFactory,
    ShapeTotals,
    create_shape_factory,
)
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.times import now_ms
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.file_access import is_directory
from kfmt_cli.disk.file_names import file_topic_partition
from kfmt_cli.disk.input_paths import InputPath
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.partition_path import location_members
from kfmt_cli.disk.partitions import Partition, find_partitions
from kfmt_cli.errors import InputError
from kfmt_cli.execution.item_processor import process_items
from kfmt_cli.execution.processes import useful_process_count
from kfmt_cli.execution.sampling import choose_byte_ranges, sample_log, written_size
from kfmt_cli.log.selection.selection import Selection, SelectionOptions
from kfmt_cli.log.summary.log_summary import LogSummary, create_no_shape
from kfmt_cli.log.summary.statistics import LogStatistics
from kfmt_cli.render.style import format_bytes, format_count
from kfmt_cli.render.tables.line_table import LineTable
from kfmt_cli.rows.column import LocationSource
from kfmt_cli.rows.documents import STATISTICS_ROW, build_row

STAT_LEVELS = BY_TOPIC, BY_PARTITION, BY_SEGMENT = "topic", "partition", "segment"
SORT_BY_NAME = "name"
MIN_NAME_WIDTH = 24  # columns; a longer name gets its own line if others need the space
_BATCH_MEMBERS = (
    *("batches", "records", "producers", "transactional_batches", "control_batches"),
    "timestamp_skew_ms",
)


@dataclass(frozen=True, slots=True)
class StatSubject:
    """What a row of statistics is about."""

    file: str
    """The log or directory; empty for a topic."""
    topic: str | None = None
    partition: int | None = None
    log_dir: str | None = None


@dataclass(slots=True)
class StatCommand:
    """One call of `stat`."""

    run: CommandRun
    levels: tuple[str, ...] = (BY_PARTITION,)
    """Levels of rows; people see the first."""
    deep: bool = False
    """Also read records."""
    what_if: tuple[CodecTrial, ...] = ()
    """Codecs to try."""
    histogram: bool = False
    """Also show people the distribution of batches."""
    jobs: int = 1
    limit: DecompressionLimit = field(default_factory=DecompressionLimit)
    selection: SelectionOptions = field(default_factory=SelectionOptions)
    """The selection to count."""
    sample_bytes: int | None = None
    """Bytes to read as a sample; None to read everything."""
    sort: str = SORT_BY_NAME
    """Sort key of rows: name, or a count, largest first."""
    shows_shapes: bool = False
    """Show log shapes: the distribution over time and more."""
    first_mapped_files: frozenset[str] | None = None
    """With plot: the files whose logs get segment maps first; None for no maps."""
    log_numbers: LogNumbersCache = field(default_factory=LogNumbersCache)
    """With plot: statistics of logs that need not be read again."""
    codec_sample_bytes: int | None = None
    """Bytes to try other codecs on, over all partitions; see `try_codecs`."""
    settings: TopicSettingsResolver = field(default_factory=TopicSettingsResolver)
    """Topic settings, to predict the bytes that retention frees."""
    now: int = field(default_factory=now_ms)
    """Current time in milliseconds."""
    _sample_note: str = ""

    def show_paths(self, paths: Sequence[InputPath | str]) -> None:
        """Show the statistics of everything under some paths."""
        run = self.run
        accepts_pipe = (
            not self.what_if and not self.selection.must_read_logs and self.sample_bytes is None
        )
        partitions = find_partitions(
            paths, run.report_unreadable, run.sink.note, accepts_stdin=accepts_pipe
        )
        logs = list(self._iter_logs(partitions))
        files = [file for _, file, _ in logs]
        sizes = list(map(file_size, files))
        is_sample = self.sample_bytes is not None
        log_results = self._sample_logs(files) if is_sample else self._count_logs(logs, sizes)
        statistics_by_subject: dict[StatSubject, LogStatistics] = {}
        directories_by_topic: dict[str | None, set[str]] = {}
        shapes = ShapeTotals()
        with self.run.host.progress(sum(sizes)) as progress:
            for (partition, file, _), size, result in zip(logs, sizes, log_results, strict=True):
                progress.on_progress(size)
                if isinstance(result, InputError):
                    self.run.report_unreadable(str(result))
                    continue
                log_directory = (
                    location_members(partition.name, LocationSource.PARTITION)["log_dir"]
                    or os.curdir
                )
                for subject in dict.fromkeys(
                    _subject(level, partition, file) for level in self.levels
                ):
                    statistics_by_subject.setdefault(subject, LogStatistics()).merge_later(
                        result.statistics
                    )
                    directories_by_topic.setdefault(subject.topic, set()).add(log_directory)
                if result.index_error:
                    self.run.report_unreadable(result.index_error)
                shapes.add_log(partition, file, result)
        self._write_rows(statistics_by_subject, directories_by_topic)
        if self.shows_shapes:
            shapes.write(self.run.sink)
        if self._sample_note:
            self.run.sink.write_hint(self._sample_note)
        if n_damaged := sum(statistics.damaged for statistics in statistics_by_subject.values()):
            count_text = format_count(n_damaged, "batch was", "batches were")
            reason = "damaged, or cannot be decompressed; see kfmt verify-crc --deep"
            self.run.sink.note(f"{count_text} not decoded: {reason}\n")
        if not self.selection and self.sample_bytes is None:
            user_paths = (path if isinstance(path, str) else path.path for path in paths)
            partitions_by_path = partitions_by_directory(partitions)
            for path, real_path in _outermost_directories(filter(_is_directory, user_paths)):
                partitions_under_path = partitions_by_path.get(real_path, [])
                write_usage(
                    run,
                    path,
                    partitions_under_path,
                    self.settings,
                    self.now,
                    always_prints=len(statistics_by_subject) > 1,
                )
        try_codecs(self.run, self.what_if, partitions, self.limit, self.codec_sample_bytes)

    def _count_logs(
        self, logs: list[tuple[Partition, InputFile, Selection]], sizes: list[int]
    ) -> Iterator[LogSummary | InputError]:
        """The statistics of each full log, or the error if it is unreadable. sizes: in bytes."""
        shape_factory = LogShapeFactory()
        if self.first_mapped_files is not None:
            shape_factory = create_shape_factory(
                [log for _, log, _ in logs], self.first_mapped_files
            )
        cached_numbers = [self.log_numbers.pop(log, shape_factory) for _, log, _ in logs]
        remaining_tasks = [
            ((log, selection), size)
            for (_, log, selection), size, numbers in zip(logs, sizes, cached_numbers, strict=True)
            if numbers is None
        ]
        processor = StatProcessor(
            self.deep, self.limit, shape_factory if self.shows_shapes else create_no_shape
        )
        outcomes = process_items(
            processor, remaining_tasks, useful_process_count(self.jobs, sum(sizes))
        )
        remaining_results = zip(remaining_tasks, outcomes, strict=True)
        for numbers in cached_numbers:
            if numbers is None:
                (task, _), outcome = next(remaining_results)
                yield processor.count_or_error(task) if outcome is None else outcome
            else:
                yield numbers
        assert next(remaining_results, None) is None  # this also ends the processes

    def _sample_logs(self, logs: list[InputFile]) -> Iterator[LogSummary | InputError]:
        """The statistics of each log from a sample, or the error if it is unreadable."""
        sizes = list(map(written_size, logs))
        byte_ranges = choose_byte_ranges(sizes, self.sample_bytes or 0)
        ranges_by_log = {
            i: list(log_ranges)
            for i, log_ranges in groupby(byte_ranges, key=lambda byte_range: byte_range.log_index)
        }
        n_bytes_read = 0
        for i, (file, size) in enumerate(zip(logs, sizes, strict=True)):
            try:
                statistics, n_sampled_bytes = sample_log(file, size, ranges_by_log.get(i, ()))
            except InputError as error:
                yield error
                continue
            n_bytes_read += n_sampled_bytes
            yield LogSummary(None, statistics)
        sampled_text = (
            f"sampled {format_bytes(n_bytes_read)} of {format_bytes(sum(sizes))}, "
            "bypassing the page cache"
        )
        self._sample_note = f"{sampled_text}; totals are extrapolated"

    def _iter_logs(
        self, partitions: list[Partition]
    ) -> Iterator[tuple[Partition, InputFile, Selection]]:
        """The logs of partitions that may contain selected records, each with its selection."""
        start_notes = LogStartNotes(self.run)
        for partition in partitions:
            start_notes.note_partition(partition)
            with self.run.catch_unreadable():
                selection = resolve_selection(self.selection, partition.logs, self.limit)
                for file in selection.select_logs(partition.logs):
                    yield partition, file, selection

    def _write_rows(
        self,
        statistics_by_subject: dict[StatSubject, LogStatistics],
        directories_by_topic: dict[str | None, set[str]],
    ) -> None:
        """Show the rows; for people, with totals. directories_by_topic: the log directories of each
        topic."""
        sink = self.run.sink
        subject_statistics = [
            (subject, statistics.extrapolated())
            for subject, statistics in statistics_by_subject.items()
        ]
        if self.sort != SORT_BY_NAME:
            subject_statistics.sort(key=lambda row: -getattr(row[1], self.sort))
        named_statistics = [
            (subject.file or str(subject.topic), statistics)
            for subject, statistics in subject_statistics
        ]
        total_bytes = sum(statistics.bytes for _, statistics in named_statistics)
        named_totals = (
            list(_totals(list(statistics_by_subject.items())))
            if len(subject_statistics) > 1 and sink.for_people
            else []
        )
        width = None if sink.display_options.wide else sink.out.width
        share_total = total_bytes if len(subject_statistics) > 1 else None
        has_old_magic = any(
            statistics.magics.keys() & {"0", "1"} for _, statistics in subject_statistics
        )
        is_sample = self.sample_bytes is not None
        table_columns = list(
            iter_columns(share_total, is_sample=is_sample, has_old_magic=has_old_magic)
        )
        table_rows = [*named_statistics, *named_totals]
        table = LineTable(
            self.levels[0], table_rows, table_columns, sink.out.theme, width, MIN_NAME_WIDTH
        )
        for i, (subject, statistics) in enumerate(subject_statistics):
            lines = [] if i else [table.format_heading()]
            lines.append(table.format_line(named_statistics[i][0], statistics))
            lines += detail_lines(statistics) if self.deep or self.histogram else []
            row = asdict(subject)
            if not subject.file:
                log_directories = directories_by_topic[subject.topic]
                common_directory = _common_path(log_directories)
                row |= {
                    "file": common_directory,
                    "log_dir": common_directory if len(log_directories) == 1 else None,
                }
            row |= {"codecs": dict(statistics.codecs), "magics": dict(statistics.magics)}
            sink.write_document(
                STATISTICS_ROW,
                build_row(STATISTICS_ROW, statistics, row | _adapted_numbers(statistics)),
                lines,
            )
        for name, statistics in named_totals:
            sink.write_line(table.format_line(name, statistics))


def _common_path(paths: Iterable[str]) -> str:
    """The path that directories have in common; empty if there is none, such as for a relative and
    an absolute path."""
    try:
        return os.path.commonpath(paths)
    except ValueError:
        return ""


def _subject(level: str, partition: Partition, file: InputFile) -> StatSubject:
    """The subject of the row that a log is counted in."""
    topic, _ = file_topic_partition(file.path)
    if level == BY_TOPIC and topic is not None:
        return StatSubject("", topic)
    name = file.name if level == BY_SEGMENT else partition.name
    return StatSubject(name, **location_members(partition.name, LocationSource.PARTITION))


def _totals(
    subject_statistics: list[tuple[StatSubject, LogStatistics]],
) -> Iterator[tuple[str, LogStatistics]]:
    """The totals of topics with several rows, and of everything."""
    statistics_by_topic: dict[str | None, list[LogStatistics]] = {}
    for subject, statistics in subject_statistics:
        statistics_by_topic.setdefault(subject.topic, []).append(statistics)
    for topic, topic_statistics in statistics_by_topic.items():
        if topic is not None and 1 < len(topic_statistics) < len(subject_statistics):
            yield f"topic {topic}", _sum_statistics(topic_statistics)
    yield "all", _sum_statistics([statistics for _, statistics in subject_statistics])


def _sum_statistics(all_statistics: list[LogStatistics]) -> LogStatistics:
    """The extrapolated sum. If all were sampled, each is extrapolated before they are added."""
    extrapolates_each = all(statistics.has_sampled_bytes for statistics in all_statistics)
    total = LogStatistics()
    for statistics in all_statistics:
        total.merge_later(statistics.extrapolated() if extrapolates_each else statistics)
    return total if extrapolates_each else total.extrapolated()


def _is_directory(path: str) -> bool:
    try:
        return is_directory(path)
    except InputError:  # a corrupt archive; reading it reports it
        return False


def _outermost_directories(paths: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """The distinct directories that are not inside another of them, with their real paths."""
    path_by_real_path: dict[Path, str] = {}
    for path in paths:
        path_by_real_path.setdefault(Path(os.path.realpath(path)), path)
    for real_path, path in path_by_real_path.items():
        if path_by_real_path.keys().isdisjoint(real_path.parents):
            yield path, real_path


def _adapted_numbers(statistics: LogStatistics) -> dict[str, object]:
    """The members of a row that programs get in another form, or as null."""
    ratio = statistics.compression_ratio
    row: dict[str, object] = {} if statistics.has_sampled_bytes else dict.fromkeys(_BATCH_MEMBERS)
    return {**row, "compression_ratio": None if ratio is None else round(ratio, 3)}
