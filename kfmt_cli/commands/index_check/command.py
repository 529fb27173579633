"""index-check: checks indexes against their logs; also traces lookups step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kfmt_cli.broker.log_reading.lookup import (
    OFFSET_COLUMN,
    TIMESTAMP_COLUMN,
    IndexLookup,
    IndexSearch,
    choose_segment,
    lookup_in_segment,
)
from kfmt_cli.broker.start.broker_groups import predict_broker_version
from kfmt_cli.broker.version import PredictedVersion, format_predicted_versions
from kfmt_cli.checks.index.checker import (
    DAMAGED_LOGS,
    INDEX_RESULT,
    MISSING_INDEXES,
    IndexChecker,
)
from kfmt_cli.commands.command_run import CommandRun, RunEvent, iter_result_events
from kfmt_cli.commands.index_check.options import IndexCheckOptions
from kfmt_cli.core.compressed_files import COMPRESSED_FILE_MESSAGE
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.times import format_time
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.file_names import partition_directory
from kfmt_cli.disk.input_paths import InputPath, resolve_paths
from kfmt_cli.disk.segment import Segment
from kfmt_cli.errors import ExitCode, InputError
from kfmt_cli.execution.item_processor import ItemProcessor, process_items
from kfmt_cli.execution.processes import useful_process_count
from kfmt_cli.log.small_logs import can_read_in_group
from kfmt_cli.options.common import predicted_version
from kfmt_cli.render.style import Theme, escape_unprintable, format_count, format_thousands
from kfmt_cli.rows.documents import LOOKUP_ROW
from kfmt_cli.rows.file_result import FileResult


@dataclass(slots=True)
class IndexCheckCommand:
    """One call of `index-check`."""

    run: CommandRun
    options: IndexCheckOptions
    _segments_and_sizes: list[tuple[Segment, int]] = field(default_factory=list)

    def execute(self) -> ExitCode | None:
        """Check the indexes under some paths, or show a lookup in them; raises UsageError."""
        run, options = self.run, self.options
        run.set_result_type(INDEX_RESULT)
        for target_column, target in (
            (OFFSET_COLUMN, options.lookup_offset),
            (TIMESTAMP_COLUMN, options.lookup_timestamp),
        ):
            if target is not None:
                version = predicted_version(options.kafka)
                show_lookups(run, options.paths, target_column, target, version)
                return None
        for count_name in (MISSING_INDEXES, DAMAGED_LOGS):
            run.summary.other_counts[count_name] = 0
        return run.run_task(self, options.paths)

    def find_files(self, paths: tuple[str, ...]) -> Iterator[InputError]:
        """Find the distinct segments of all paths; yields unreadable inputs."""
        segment_by_path: dict[str, Segment] = {}
        error_messages: list[str] = []
        for input_path in resolve_paths(paths, error_messages.append, includes_duplicates=True):
            try:
                for segment in input_path.iter_segments(self.run.summary.skipped_counts):
                    if segment.is_explicit and not segment.requested_index_kinds:
                        raise InputError(f"{segment.any_file.name}: {COMPRESSED_FILE_MESSAGE}")
                    existing_segment = segment_by_path.setdefault(segment.identity_path, segment)
                    existing_segment.requested_index_kinds |= segment.requested_index_kinds
                    existing_segment.is_explicit |= segment.is_explicit
            except InputError as error:
                error_messages.append(str(error))
        yield from map(InputError, error_messages)
        self._segments_and_sizes = [
            (segment, 0 if segment.log is None else file_size(segment.log))
            for segment in segment_by_path.values()
        ]

    @property
    def total_bytes(self) -> int:
        """Bytes of all logs."""
        return sum(size for _, size in self._segments_and_sizes)

    def process_files(
        self, on_progress: Callable[[int], None] = lambda _: None
    ) -> Iterator[RunEvent]:
        """Check every segment; yields findings and results in order."""
        n_processes = useful_process_count(self.options.n_jobs, self.total_bytes)
        index_checker = IndexChecker(
            self.options.decompression_limit,
            self.options.index_interval_bytes,
            self.options.max_findings,
        )
        outcomes = process_items(
            IndexCheckProcessor(index_checker),
            self._segments_and_sizes,
            n_processes,
            on_progress,
        )
        for (segment, _), outcome in zip(self._segments_and_sizes, outcomes, strict=True):
            if isinstance(outcome, InputError):
                yield outcome
                continue
            try:  # without an outcome, the log is read here, in blocks
                for result in (
                    index_checker.iter_results(segment, on_progress) if outcome is None else outcome
                ):
                    yield from iter_result_events(result)
            except InputError as error:
                yield error


@dataclass(frozen=True, slots=True)
class IndexCheckProcessor(ItemProcessor[Segment, list[FileResult], None]):
    """Checks the indexes of segments."""

    index_checker: IndexChecker

    def can_group(self, item: Segment) -> bool:
        return item.log is not None and can_read_in_group(item.log)

    def process_group(self, items: Sequence[Segment]) -> list[list[FileResult] | None]:
        from kfmt_cli.checks.index.small_segments import check_small_segments

        healthy_index_sizes = check_small_segments(items, self.index_checker.index_interval_bytes)
        return [
            None
            if index_sizes is None
            else list(self.index_checker.iter_healthy_results(segment, index_sizes))
            for segment, index_sizes in zip(items, healthy_index_sizes, strict=True)
        ]

    def process_item(self, item: Segment) -> list[FileResult]:
        return list(self.index_checker.iter_results(item, lambda _: None))


def show_lookups(
    run: CommandRun,
    paths: tuple[str, ...],
    target_column: str,
    target: int,
    explicit_version: PredictedVersion | None = None,
) -> None:
    """Show the lookup of an offset or a timestamp in each partition.

    target_column: OFFSET_COLUMN or TIMESTAMP_COLUMN. explicit_version: the version that the user
    named.
    """
    version_by_directory: dict[Path, PredictedVersion] = {}
    for input_path in resolve_paths(paths, run.report_input_error):
        with run.catch_input_errors():
            _show_lookups_in_path(
                run, input_path, target_column, target, explicit_version, version_by_directory
            )


def _show_lookups_in_path(
    run: CommandRun,
    input_path: InputPath,
    target_column: str,
    target: int,
    explicit_version: PredictedVersion | None,
    version_by_directory: dict[Path, PredictedVersion],
) -> None:
    segments = [segment for segment in input_path.iter_segments() if segment.log is not None]
    for directory in sorted({_segment_directory(segment) for segment in segments}):
        directory_segments = [
            segment for segment in segments if _segment_directory(segment) == directory
        ]
        log_directory = partition_directory(directory).parent
        if log_directory not in version_by_directory:
            version_by_directory[log_directory] = explicit_version or predict_broker_version(
                log_directory
            )
        predicted_version = version_by_directory[log_directory]
        segment = choose_segment(directory_segments, target_column, target)
        lookup = lookup_in_segment(segment, target_column, target, predicted_version.kafka_version)
        versions_text = format_predicted_versions([predicted_version])
        lines = _lookup_lines(lookup, run.output.theme, versions_text)
        row = {**_lookup_row(lookup), **predicted_version.json_members}
        run.sink.write_document(LOOKUP_ROW, row, lines)
        if lookup.batch is None:
            run.output.raise_exit_code(ExitCode.FINDINGS)
    if not segments and not input_path.listing_errors:
        raise InputError(f"{input_path.path}: no log to search")


def _segment_directory(segment: Segment) -> str:
    return str(Path(segment.any_file.path).parent)


def _lookup_row(lookup: IndexLookup) -> dict[str, object]:
    row = asdict(lookup)
    return {"file": row.pop("log"), **row}


def _lookup_lines(lookup: IndexLookup, theme: Theme, version_text: str) -> Iterator[str]:
    """The lines of a lookup. version_text: text about the predicted broker version."""
    target_text = _format_value(lookup.column, lookup.target)
    yield theme.paint("bold", f"{escape_unprintable(lookup.log)}   {lookup.column} {target_text}")
    yield f"   {version_text}\n"
    for search in lookup.searches:
        yield from _search_lines(search, theme)
    yield f" scan from byte {format_thousands(lookup.scan_from)} of the log\n"
    for batch in lookup.scanned:
        yield theme.paint("dim", f"   skipped  {_format_batch(batch)}\n")
    n_unlisted_batches = lookup.n_scanned - len(lookup.scanned)
    if n_unlisted_batches:
        yield theme.paint(
            "dim", f"   skipped  {format_count(n_unlisted_batches, 'more batch', 'more batches')}\n"
        )
    if lookup.error is not None:
        yield theme.paint("bad", f"   error    {escape_unprintable(lookup.error)}") + "\n"
    elif lookup.batch is None:
        yield theme.paint("bad", "   not found: beyond the end of the log") + "\n"
    else:
        yield theme.paint("good", f"   found    {_format_batch(lookup.batch)}") + "\n"


def _search_lines(search: IndexSearch, theme: Theme) -> Iterator[str]:
    target_text = _format_value(search.column, search.target)
    if search.index is None:
        index_kind = "time" if search.column == "timestamp" else "offset"
        yield f" no {index_kind} index: start at the base offset, byte 0\n"
        return
    yield (
        f" {escape_unprintable(search.index)}, {format_count(search.entries, 'entry', 'entries')}: "
    )
    yield f"greatest {search.column} ≤ {target_text}\n"
    for step in search.steps:
        bounds_text = f"{step.low}–{step.high}"
        value_text = _format_value(search.column, step.value)
        yield theme.paint(
            "dim", f"   {bounds_text:>13}  entry {step.middle}: {value_text}, {step.verdict}\n"
        )
    if search.entry is None:
        yield "   no such entry: start at the base offset, byte 0\n"
        return
    column_texts = [
        f"{column_name.replace('_', ' ')} {_format_value(column_name, value)}"
        for column_name, value in search.found.items()
        if column_name != "position"
    ]
    yield theme.paint("offset", f"   entry {search.entry}: {', '.join(column_texts)}") + "\n"


def _format_batch(batch: FieldDict) -> str:
    return (
        f"byte {format_thousands(batch.position)}, offsets {batch.base_offset}–"
        f"{batch.last_offset}, max timestamp {_format_value('timestamp', batch.max_timestamp)}"
    )


def _format_value(column: str, value: int) -> str:
    if column != "timestamp":
        return format_thousands(value) if column.endswith("position") else str(value)
    time_text = format_time(value)
    return str(value) if time_text.endswith(" ms") else f"{value} ({time_text})"
