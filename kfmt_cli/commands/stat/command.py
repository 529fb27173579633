"""stat: statistics of topics, partitions or segments."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.each_partition import LogStartReporter
from kfmt_cli.commands.partition_selection import resolve_selection
from kfmt_cli.commands.replica_logs import select_log_replicas
from kfmt_cli.commands.settings_resolver import TopicSettingsResolver
from kfmt_cli.commands.stat.codec_trial import parse_codec_trial, try_codecs
from kfmt_cli.commands.stat.disk_usage import partitions_by_directory, write_disk_usage
from kfmt_cli.commands.stat.lines import detail_lines, iter_statistics_columns
from kfmt_cli.commands.stat.log_processor import StatProcessor
from kfmt_cli.commands.stat.options import (
    BY_SEGMENT,
    BY_TOPIC,
    SORT_BY_NAME,
    StatOptions,
)
from kfmt_cli.commands.stat.shape_totals import (
    LogShapeFactory,
    LogSummaryCache,
    ShapeTotals,
    create_shape_factory,
)
from kfmt_cli.core.times import now_ms, suggest_time_unit
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.file_access import is_directory
from kfmt_cli.disk.file_names import file_topic_partition
from kfmt_cli.disk.input_paths import InputPath
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.partition_path import location_by_column
from kfmt_cli.disk.partitions import Partition, find_partitions
from kfmt_cli.errors import InputError
from kfmt_cli.execution.item_processor import process_items
from kfmt_cli.execution.processes import useful_process_count
from kfmt_cli.execution.sampling import choose_byte_ranges, find_written_bytes, sample_log
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.log.summary.log_summary import LogSummary, create_no_shape
from kfmt_cli.log.summary.statistics import LogStatistics
from kfmt_cli.render.style import format_bytes, format_count, format_thousands
from kfmt_cli.render.tables.line_table import LineTable
from kfmt_cli.rows.column import LocationSource
from kfmt_cli.rows.documents import STATISTICS_ROW, build_row

MIN_NAME_WIDTH = 24  # columns; a longer name gets its own line if others need the space
_SAMPLED_MEMBERS = (
    *("batches", "records", "producers", "transactional_batches", "control_batches"),
    "timestamp_skew_ms",
)


@dataclass(frozen=True, slots=True)
class StatSubject:
    """The subject of a row of statistics."""

    file: str
    """The log or directory; empty for a topic."""
    topic: str | None = None
    partition: int | None = None
    log_dir: str | None = None


MAX_UNREMARKABLE_SEGMENTS = 30_000
DEFAULT_MAX_MAP_COUNT = 65_530  # of Linux


def iter_statistics_hints(statistics: Sequence[LogStatistics]) -> Iterator[str]:
    """Hints about unusual statistics: times in another unit, and more segments than the maps that
    Linux allows a process. Source: `kafka.log.AbstractIndex`, which maps its file."""
    for row in statistics:
        question = "" if row.max_timestamp is None else suggest_time_unit(row.max_timestamp)
        if question:
            yield f"timestamps are in milliseconds; the newest is {question}"
            break
    n_segments = sum(row.segments for row in statistics)
    if n_segments > MAX_UNREMARKABLE_SEGMENTS:
        yield (
            f"{format_count(n_segments, 'segment')}: a broker maps two indexes of each; vm.max_map_"
            f"count, {format_thousands(DEFAULT_MAX_MAP_COUNT)} by default, must be above "
            f"{format_thousands(2 * n_segments)}"
        )


@dataclass(slots=True)
class StatCommand:
    """One call of `stat`."""

    run: CommandRun
    options: StatOptions
    extra_levels: tuple[str, ...] = ()
    """Levels of further rows, which people do not see."""
    first_mapped_files: frozenset[str] | None = None
    """With plot: the files whose logs get segment maps first; None for no maps."""
    log_summaries: LogSummaryCache = field(default_factory=LogSummaryCache)
    """With plot: statistics of logs that need not be read again."""
    trial_bytes: int | None = None
    """Bytes to try other codecs on, over all partitions; see `try_codecs`."""
    settings_resolver: TopicSettingsResolver = field(default_factory=TopicSettingsResolver)
    """Topic settings, to predict the bytes that retention frees."""
    current_time_ms: int = field(default_factory=now_ms)
    """Current time in milliseconds."""
    _sample_note: str = ""

    def execute(self) -> None:
        """Show the statistics of everything under some paths."""
        self.show_paths(self.options.paths)

    def show_paths(self, paths: Sequence[InputPath | str]) -> None:
        """Show the statistics of everything under some paths."""
        run, options = self.run, self.options
        selection_options, is_sample = options.selection_options, options.sample is not None
        codec_trials = tuple(map(parse_codec_trial, options.what_if))
        accepts_stdin = not codec_trials and not selection_options.needs_logs and not is_sample
        partitions = find_partitions(
            paths, run.report_input_error, run.sink.write_to_stderr, accepts_stdin=accepts_stdin
        )
        logs = list(self._iter_selected_logs(partitions))
        files = [file for _, file, _ in logs]
        sizes = [file_size(file) for file in files]
        summaries = self._sample_logs(files) if is_sample else self._summarize_logs(logs, sizes)
        statistics_by_part: dict[tuple[StatSubject, str], LogStatistics] = {}
        directories_by_topic: dict[str | None, set[str]] = {}
        shape_totals = ShapeTotals()
        with self.run.output.progress(sum(sizes)) as progress:
            for (partition, log_file, _), size, summary in zip(logs, sizes, summaries, strict=True):
                progress.on_progress(size)
                if isinstance(summary, InputError):
                    self.run.report_input_error(summary)
                    continue
                log_directory = (
                    location_by_column(partition.name, LocationSource.PARTITION)["log_dir"]
                    or os.curdir
                )
                levels = options.by, *self.extra_levels
                for subject in dict.fromkeys(
                    _statistics_subject(level, partition, log_file) for level in levels
                ):
                    statistics_by_part.setdefault(
                        (subject, partition.name), LogStatistics()
                    ).merge_later(summary.statistics)
                    directories_by_topic.setdefault(subject.topic, set()).add(log_directory)
                if summary.index_error:
                    self.run.report_input_error(summary.index_error)
                shape_totals.add_log(partition, log_file, summary)
        statistics_by_subject = _merge_partitions(statistics_by_part)
        self._write_rows(statistics_by_subject, directories_by_topic)
        if self.options.plot:
            shape_totals.write_shapes(self.run.sink)
        if self._sample_note:
            self.run.sink.write_hint(self._sample_note)
        self._report_damage(statistics_by_subject.values())
        for text in iter_statistics_hints(list(statistics_by_subject.values())):
            self.run.sink.write_hint(text)
        if not selection_options and not is_sample:
            self._write_disk_usage(paths, partitions, has_rows=len(statistics_by_subject) > 1)
        try_codecs(run, codec_trials, partitions, options.decompression_limit, self.trial_bytes)

    def _report_damage(self, all_statistics: Collection[LogStatistics]) -> None:
        """Say which bytes are not counted, or only as bytes."""
        if n_damaged := sum(statistics.damaged for statistics in all_statistics):
            count_text = format_count(n_damaged, "batch was", "batches were")
            reason = "damaged, or cannot be decompressed; see kfmt verify-crc --deep"
            self.run.sink.write_to_stderr(f"{count_text} not decoded: {reason}\n")
        if self.options.sample is not None:
            return
        if n_other_bytes := sum(row.bytes - row.in_batches for row in all_statistics):
            self.run.sink.write_to_stderr(
                f"{format_thousands(n_other_bytes)} bytes of the logs are in no batch: zeros of a "
                "preallocated segment, or damage; see kfmt verify-crc\n"
            )

    def _write_disk_usage(
        self, paths: Sequence[InputPath | str], partitions: list[Partition], *, has_rows: bool
    ) -> None:
        """Show what fills the directories among some paths. has_rows: also where only logs do."""
        user_paths = (path if isinstance(path, str) else path.path for path in paths)
        partitions_by_path = partitions_by_directory(partitions)
        for path, real_path in _outermost_directories(filter(_is_directory, user_paths)):
            write_disk_usage(
                self.run,
                path,
                partitions_by_path.get(real_path, []),
                self.settings_resolver,
                self.current_time_ms,
                always_has_lines=has_rows,
            )

    def _summarize_logs(
        self, selected_logs: list[tuple[Partition, InputFile, Selection]], log_sizes: list[int]
    ) -> Iterator[LogSummary | InputError]:
        """The statistics of each full log, or the error if it is unreadable. log_sizes: in
        bytes."""
        shape_factory = LogShapeFactory()
        if self.first_mapped_files is not None:
            shape_factory = create_shape_factory(
                [log for _, log, _ in selected_logs], self.first_mapped_files
            )
        cached_summaries = [
            self.log_summaries.pop_summary(log, shape_factory) for _, log, _ in selected_logs
        ]
        sized_tasks = [
            ((log, selection), size)
            for (_, log, selection), size, numbers in zip(
                selected_logs, log_sizes, cached_summaries, strict=True
            )
            if numbers is None
        ]
        processor = StatProcessor(
            self.options.deep,
            self.options.decompression_limit,
            shape_factory if self.options.plot else create_no_shape,
        )
        log_outcomes = process_items(
            processor, sized_tasks, useful_process_count(self.options.n_jobs, sum(log_sizes))
        )
        remaining_results = zip(sized_tasks, log_outcomes, strict=True)
        for cached_summary in cached_summaries:
            if cached_summary is None:
                (task, _), outcome = next(remaining_results)
                yield processor.summarize_or_error(task) if outcome is None else outcome
            else:
                yield cached_summary
        assert next(remaining_results, None) is None  # this also ends the processes

    def _sample_logs(self, logs: list[InputFile]) -> Iterator[LogSummary | InputError]:
        """The statistics of each log from a sample, or the error if it is unreadable."""
        written_sizes = list(map(find_written_bytes, logs))
        byte_ranges = choose_byte_ranges(written_sizes, self.options.sample or 0)
        ranges_by_log = {
            i: list(log_ranges)
            for i, log_ranges in groupby(byte_ranges, key=lambda byte_range: byte_range.log_index)
        }
        n_bytes_read = 0
        for log_index, (log_file, log_size) in enumerate(zip(logs, written_sizes, strict=True)):
            try:
                statistics, n_sampled_bytes = sample_log(
                    log_file, log_size, ranges_by_log.get(log_index, ())
                )
            except InputError as error:
                yield error
                continue
            n_bytes_read += n_sampled_bytes
            yield LogSummary(None, statistics)
        sampled_text = (
            f"sampled {format_bytes(n_bytes_read)} of {format_bytes(sum(written_sizes))}, "
            "bypassing the page cache"
        )
        self._sample_note = f"{sampled_text}; totals are extrapolated"

    def _iter_selected_logs(
        self, partitions: list[Partition]
    ) -> Iterator[tuple[Partition, InputFile, Selection]]:
        """The logs of partitions that may contain selected records, each with its selection."""
        start_notes = LogStartReporter(self.run)
        logs = (log for partition in partitions for log in partition.logs)
        replicas = select_log_replicas(
            self.run, logs, self.options.n_jobs, all_replicas=self.options.all_replicas
        )
        for partition in partitions:
            start_notes.report_partition_start(partition)
            with self.run.catch_input_errors():
                selection = resolve_selection(
                    self.options.selection_options,
                    replicas.partition_logs(partition.logs),
                    self.options.decompression_limit,
                    self.run.sink.write_to_stderr,
                    self.options.paths,
                    replicas.intervals_by_path,
                )
                for log_file in selection.select_logs(partition.logs):
                    log_selection = replicas.restrict_selection(log_file, selection)
                    if log_selection is not None:
                        yield partition, log_file, log_selection

    def _write_rows(
        self,
        statistics_by_subject: dict[StatSubject, LogStatistics],
        directories_by_topic: dict[str | None, set[str]],
    ) -> None:
        """Show the rows; for people, with totals. directories_by_topic: the log directories of each
        topic."""
        sink = self.run.sink
        subject_statistics = [
            (subject, statistics.total_estimate())
            for subject, statistics in statistics_by_subject.items()
        ]
        if self.options.sort != SORT_BY_NAME:
            subject_statistics.sort(key=lambda row: -getattr(row[1], self.options.sort))
        named_statistics = [
            (subject.file or str(subject.topic), statistics)
            for subject, statistics in subject_statistics
        ]
        total_bytes = sum(statistics.bytes for _, statistics in named_statistics)
        named_totals = (
            list(_iter_totals(list(statistics_by_subject.items())))
            if len(subject_statistics) > 1 and sink.is_for_people
            else []
        )
        width = None if sink.display_options.wide else sink.streams.width
        share_total_bytes = total_bytes if len(subject_statistics) > 1 else None
        has_old_magic = any(
            statistics.magics.keys() & {"0", "1"} for _, statistics in subject_statistics
        )
        is_sample = self.options.sample is not None
        table_columns = list(
            iter_statistics_columns(
                share_total_bytes, is_sample=is_sample, has_old_magic=has_old_magic
            )
        )
        table_rows = [*named_statistics, *named_totals]
        table = LineTable(
            self.options.by, table_rows, table_columns, sink.streams.theme, width, MIN_NAME_WIDTH
        )
        for i, (subject, statistics) in enumerate(subject_statistics):
            lines = [] if i else [table.format_heading()]
            lines.append(table.format_line(named_statistics[i][0], statistics))
            lines += detail_lines(statistics) if self.options.deep or self.options.histogram else []
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
                build_row(STATISTICS_ROW, statistics, row | _adapted_members(statistics)),
                lines,
            )
        for row_name, statistics in named_totals:
            sink.write_line(table.format_line(row_name, statistics))


def _common_path(paths: Iterable[str]) -> str:
    """The path that directories have in common; empty if there is none, such as for a relative and
    an absolute path."""
    try:
        return os.path.commonpath(paths)
    except ValueError:
        return ""


def _statistics_subject(level: str, partition: Partition, log_file: InputFile) -> StatSubject:
    """The subject of the row that a log is counted in."""
    topic, _ = file_topic_partition(log_file.path)
    if level == BY_TOPIC and topic is not None:
        return StatSubject("", topic)
    subject_path = log_file.name if level == BY_SEGMENT else partition.name
    return StatSubject(subject_path, **location_by_column(partition.name, LocationSource.PARTITION))


def _merge_partitions(
    statistics_by_part: dict[tuple[StatSubject, str], LogStatistics],
) -> dict[StatSubject, LogStatistics]:
    """The statistics by subject, from those of each partition's part of it."""
    statistics_by_subject: dict[StatSubject, LogStatistics] = {}
    for (subject, _), statistics in statistics_by_part.items():
        statistics_by_subject.setdefault(subject, LogStatistics()).merge(statistics)
    return statistics_by_subject


def _iter_totals(
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
    extrapolates_each = all(statistics.has_read_sample for statistics in all_statistics)
    summed_statistics = LogStatistics()
    for statistics in all_statistics:
        summed_statistics.merge(statistics.total_estimate() if extrapolates_each else statistics)
    return summed_statistics if extrapolates_each else summed_statistics.total_estimate()


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


def _adapted_members(statistics: LogStatistics) -> dict[str, object]:
    """The members of a row that programs get in another form, or as null."""
    ratio = statistics.compression_ratio
    row: dict[str, object] = {} if statistics.has_read_sample else dict.fromkeys(_SAMPLED_MEMBERS)
    return {**row, "compression_ratio": None if ratio is None else round(ratio, 3)}
