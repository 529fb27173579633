"""export: records and batches as files for SQL, on the cores of this machine."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from kfmt_cli.arrow.dry_run import dry_run_lines
from kfmt_cli.arrow.export.atomic_files import list_file_names, remove_file
from kfmt_cli.arrow.export.file_groups import FileGroupExport, SplitExport, export_file_group
from kfmt_cli.arrow.export.lake_options import LakeOptions, parse_lake_options
from kfmt_cli.arrow.export.manifest import (
    KFMT_DIRECTORY,
    ExportManifest,
    manifest_source,
    read_manifest_outputs,
)
from kfmt_cli.arrow.input_files import input_file, list_input_files, mount_split_files
from kfmt_cli.arrow.partition_logs import group_logs_by_partition, intervals_by_path
from kfmt_cli.arrow.topic_ids import TopicIdCache
from kfmt_cli.checks.second_look import change_note
from kfmt_cli.commands.command_run import CommandRun, RunEvent
from kfmt_cli.commands.each_partition import LogStartReporter
from kfmt_cli.commands.export.options import ExportOptions
from kfmt_cli.commands.partition_selection import resolve_selection
from kfmt_cli.commands.payload_formats import payload_declarations
from kfmt_cli.core.json_text import parse_json
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.core.regular_files import regular_file
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.changes import missing_file_error
from kfmt_cli.disk.input_paths import reject_stdin
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND
from kfmt_cli.disk.path_resolution import prepare_listable_path, problem_messages
from kfmt_cli.disk.topic_filter import select_topics
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.execution.file_split import FileSplit, compute_split_points
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.processes import map_in_processes
from kfmt_cli.execution.read_request import ReadRequest, build_request, bytes_per_task
from kfmt_cli.execution.split_merger import SplitMerger, needs_whole_read
from kfmt_cli.findings.codes import FILE_SHRANK, UNREADABLE_FILE_CODES
from kfmt_cli.findings.finding import FindingCollector
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.render.style import format_bytes, format_count
from kfmt_cli.rows.file_result import FileResult
from kfmt_cli.rows.table_types import (
    LAKE_TABLES,
    RECORDS_TABLE,
    SNAPSHOT_RECORDS_TABLE,
    export_result_type,
    with_replica_columns,
)
from kfmt_cli.writers.output import convert_output_errors, require_outside_inputs
from kfmt_cli.writers.output_access import private_like
from kfmt_cli.writers.synced_directories import create_directory, sync_directories

UNFINISHED_MARKER = ".kfmt-export-unfinished"
MAX_MARKER_BYTES = 1 << 20


@dataclass(slots=True)
class ExportCommand:
    """One call of `export`."""

    run: CommandRun
    options: ExportOptions
    _request: ReadRequest = field(init=False)
    _lake_options: LakeOptions = field(init=False)
    _splits: FileSplits = field(default_factory=FileSplits)
    _user_paths: tuple[str, ...] = ()
    _is_new_output: bool = False
    _manifest: ExportManifest = field(default_factory=ExportManifest)
    _topic_ids: TopicIdCache = field(default_factory=TopicIdCache)

    def execute(self) -> ExitCode:
        """Export everything under some paths; raises UsageError, InputError, OutputError."""
        options = self.options
        target_file_bytes = options.max_split_bytes or options.target_file_bytes
        self._lake_options = parse_lake_options(
            {**vars(options), "target_file_bytes": target_file_bytes}, options.file_format
        )
        paths = tuple(map(prepare_listable_path, options.paths))
        request = ReadRequest(
            selection_options=options.selection_options,
            max_split_bytes=self._lake_options.target_file_bytes,
            parallelism=options.n_jobs,
            reads_all_replicas=options.all_replicas,
            decompression_limit=options.decompression_limit,
            payload_declarations=payload_declarations(options, options.paths),
        )
        self._request = build_request(request, paths, options.columns, options.topics)
        if options.all_replicas and not self._request.columns:
            columns = with_replica_columns(RECORDS_TABLE.name)
            self._request = replace(self._request, columns=columns)
        self.run.set_result_type(export_result_type(self._lake_options.table_names))
        with private_like(options.paths):
            exit_code = self.run.run_task(self, paths)
        if not options.dry_run:
            self._report_outputs()
        return exit_code

    def _report_outputs(self) -> None:
        """Say what was written, and how to read it; or why nothing was."""
        write = self.run.sink.write_to_stderr
        totals = self._manifest.output_totals
        for table_name, total in totals.items():
            files_text = format_count(total.n_files, "file")
            rows_text = format_count(total.n_rows, "row" if table_name != "records" else "record")
            size_text = format_bytes(total.n_bytes)
            write(f"wrote {self.options.to}/{table_name}: {files_text}, {rows_text}, {size_text}\n")
        if totals and is_local(self.options.to):
            table_name, total = next(iter(totals.items()))
            quoted = f"{self.options.to}/{table_name}/**/*.{total.suffix}".replace("'", "''")
            write(f"read it: duckdb -c \"from '{quoted}'\"\n")
        if not totals and self._splits and self.options.selection_options:
            logs = [input_file(split) for split in self._splits]
            self.run.report_empty_answer(logs, self.options)

    def find_files(self, paths: tuple[str, ...]) -> Iterator[RunEvent]:
        """Find the files; raises InputError, or UsageError if the destination is not empty."""
        reject_stdin(*paths)
        self._user_paths = paths
        if is_local(self.options.to):
            require_outside_inputs(self.options.to, paths)
        if not self.options.dry_run:
            self._prepare_destination()
        for path in paths:
            yield from map(InputError, problem_messages(path))
        request = replace(self._request, table=self._lake_options.listing_table)
        if self.options.topic:
            all_splits = list_input_files(request, lambda _: None)
            existing_topics = {split.topic_partition[0] for split in all_splits}
            topics = request.topics | select_topics(self.options.topic, existing_topics)
            request = replace(request, topics=topics)
            self._request = replace(self._request, topics=topics)
        file_splits = list_input_files(request, self.run.sink.write_to_stderr, require_topics=True)
        for split in file_splits:
            if split.read_error:
                yield InputError(f"{self._display_path(split.path)}: {split.read_error}")
        self._splits = file_splits.select_where(lambda split: not split.read_error)
        if not self._splits:
            raise InputError("no log segments in the given paths")
        n_snapshots = sum(split.kind is KRAFT_SNAPSHOT_KIND for split in self._splits)
        if n_snapshots:
            snapshots_text = format_count(n_snapshots, "KRaft snapshot")
            self.run.sink.write_to_stderr(
                f"{snapshots_text}: records in the table {SNAPSHOT_RECORDS_TABLE.name}\n"
            )
        if self._request.selection_options.needs_logs:
            yield from self._resolve_selections()
        log_start_reporter = LogStartReporter(self.run)
        for readable_split in self._splits:
            log_start_reporter.report_log_start(
                readable_split.path,
                readable_split.base_offset,
                self._display_path(readable_split.path),
            )

    def _prepare_destination(self) -> None:
        """Check the destination, removing an unfinished export; raises UsageError."""
        directory = Path(self.options.to)
        if is_local(self.options.to) and directory.exists() and not directory.is_dir():
            raise UsageError(f"{self.options.to}: exists and is not a directory")
        if "job.json" in list_file_names(f"{self.options.to}/{KFMT_DIRECTORY}"):
            raise UsageError(
                f"{self.options.to}: is a table of kfmt pipeline export; use another DIR"
            )
        if is_local(self.options.to) and (directory / UNFINISHED_MARKER).exists():
            remove_unfinished_export(directory)
        elif not self.options.force and list_file_names(self.options.to):
            raise UsageError(
                f"{self.options.to}: not empty; use --force to write into it and overwrite files"
            )
        # Files in a store appear only once they are complete.
        self._is_new_output = is_local(self.options.to) and not list_file_names(self.options.to)

    def _resolve_selections(self) -> Iterator[InputError]:
        """Determine the selection for each directory; skips those with unreadable logs."""
        request, selection_by_directory = self._request, dict[str, Selection]()
        unreadable_directories = set[str]()
        partitions = group_logs_by_partition(self._splits, all_replicas=request.reads_all_replicas)
        for logs in partitions:
            sorted_logs = sorted(logs, key=lambda log: log.base_offset_or_zero)
            try:
                with mount_split_files(request, logs):
                    selection = resolve_selection(
                        request.selection_options,
                        [input_file(log) for log in sorted_logs],
                        request.decompression_limit,
                        self.run.sink.write_to_stderr,
                        self.options.paths,
                        intervals_by_path(logs),
                    )
            except InputError as error:
                unreadable_directories |= set(logs.directories)
                yield error
            else:
                selection_by_directory |= dict.fromkeys(logs.directories, selection)
        self._splits = self._splits.select_where(
            lambda split: split.directory not in unreadable_directories
        )
        self._request = replace(request, selection_by_directory=selection_by_directory)

    @property
    def total_bytes(self) -> int:
        """Bytes of all files."""
        return self._splits.n_bytes

    def _display_path(self, path: str) -> str:
        """A file's path, relative if the user's path is. Splits have absolute paths, which are
        valid in every process."""
        for user_path in self._user_paths:
            root_path = str(Path(user_path).absolute())
            if path == root_path:
                return user_path
            if path.startswith(f"{root_path.rstrip('/')}/"):
                return str(Path(user_path) / path.removeprefix(root_path).lstrip("/"))
        return path

    def process_files(self, on_progress: Callable[[int], None]) -> Iterator[RunEvent]:
        """Export everything; yields findings and a result per file. An export that is killed in a
        new directory leaves UNFINISHED_MARKER there, so that the next one starts over."""
        if self.options.dry_run:
            for line in dry_run_lines(self._splits, self._create_file_groups(), self.options.to):
                self.run.sink.write_to_stderr(f"{line}\n")
            return
        previous_outputs = read_manifest_outputs(self.options.to) if self.options.force else ()
        with (
            mark_unfinished(Path(self.options.to), LAKE_TABLES)
            if self._is_new_output
            else nullcontext()
        ):
            yield from self._export_file_groups(on_progress)
            self._manifest.write_manifest(self.options.to)
        obsolete_names = self._manifest.exclude_own_files(previous_outputs)
        for output_name in obsolete_names:  # the new files contain their rows
            remove_file(f"{self.options.to}/{output_name}")
        if obsolete_names:
            self.run.sink.write_to_stderr(
                f"{format_count(len(obsolete_names), 'file')} of the earlier export removed\n"
            )

    def _export_file_groups(self, on_progress: Callable[[int], None]) -> Iterator[RunEvent]:
        file_groups = self._create_file_groups()
        export_group = partial(
            export_file_group,
            self._request,
            output_directory=self.options.to,
            lake_options=self._lake_options,
        )
        # Connections do not survive a fork.
        map_groups = map_in_processes if is_local(self.options.to) else map_ordered
        group_exports = zip(
            file_groups, map_groups(export_group, file_groups, self.options.n_jobs), strict=True
        )
        for path, groups_and_exports in groupby(
            group_exports, lambda group_and_export: _split_file_path(group_and_export[0])
        ):
            if path:
                file_exports = list(groups_and_exports)
                if needs_whole_read(
                    split_export.boundary
                    for _, group_export in file_exports
                    for split_export in group_export.iter_split_exports()
                ):
                    file_exports = self._export_whole_file(file_exports)
                results = [
                    result
                    for file_export in file_exports
                    for result in self._add_to_manifest(*file_export, on_progress)
                ]
                yield from self._iter_file_events(path, results)
                continue
            for file_group, group_export in groups_and_exports:
                for split, result in self._add_to_manifest(file_group, group_export, on_progress):
                    yield from self._iter_file_events(split.path, [(split, result)])

    def _create_file_groups(self) -> list[FileSplits]:
        task_bytes = bytes_per_task(self._request, self._splits)
        splits = self._splits.divide_splits(lambda file: compute_split_points(file, task_bytes))
        return list(
            splits.iter_groups(
                self._lake_options.file_grouping.iter_file_groups(splits, task_bytes)
            )
        )

    def _add_to_manifest(
        self,
        file_group: FileSplits,
        group_export: FileGroupExport,
        on_progress: Callable[[int], None],
    ) -> Iterator[tuple[FileSplit, SplitExport]]:
        """Add the splits of a file group to the manifest; yields each with its result."""
        output_names = [output.name for output in group_export.exported_files]
        self._manifest.add_outputs(group_export.exported_files)
        for split, split_export in zip(file_group, group_export.iter_split_exports(), strict=True):
            source = manifest_source(split, self._topic_ids, split_export.findings)
            self._manifest.add_input(
                source, split_export.n_rows_by_table, split_export.offset_bounds, output_names
            )
            on_progress(split.end - split.start)
            yield split, split_export

    def _export_whole_file(
        self, file_exports: list[tuple[FileSplits, FileGroupExport]]
    ) -> list[tuple[FileSplits, FileGroupExport]]:
        """Export a whole file again as one split, because damage extends across its splits."""
        for _, group_export in file_exports:
            for output in group_export.exported_files:
                remove_file(f"{self.options.to}/{output.name}")
        first_split = file_exports[0][0][0]
        whole_file = FileSplits([first_split.with_byte_range(0, first_split.file_size)])
        return [
            (
                whole_file,
                export_file_group(self._request, whole_file, self.options.to, self._lake_options),
            )
        ]

    def _iter_file_events(
        self, path: str, split_exports: list[tuple[FileSplit, SplitExport]]
    ) -> Iterator[RunEvent]:
        first_split = split_exports[0][0]
        result = FileResult(
            export_result_type(self._lake_options.table_names),
            self._display_path(path),
            first_split.kind.name,
            {"bytes": first_split.file_size},
            findings=FindingCollector(self.options.max_findings),
        )
        split_merger = SplitMerger(path)
        for _, split_export in split_exports:
            findings = [
                split_merger.with_file_batch_index(finding) for finding in split_export.findings
            ]
            if split_export.boundary is not None:
                findings = [*split_merger.merge_boundary(split_export.boundary), *findings]
            for table_name, n_rows in split_export.n_rows_by_table.items():
                result.counts[table_name] = (result.counts[table_name] or 0) + n_rows
            for finding in findings:
                if finding.code in UNREADABLE_FILE_CODES:
                    yield missing_file_error(path, finding.message.replace(path, result.file))
                    result.is_partial, result.counts["bytes"] = True, 0
                    continue
                shown_finding = replace(finding, file=result.file)
                if finding.code == FILE_SHRANK:  # what it has now was read
                    shown_finding = change_note(result.file)
                result.count_findings(shown_finding.code)
                if result.findings.count_and_admit(shown_finding):
                    yield shown_finding
        yield result


@contextmanager
def mark_unfinished(directory: Path, table_names: tuple[str, ...]) -> Iterator[None]:
    """Mark a directory as unfinished until the block ends without an error; raises
    OutputError."""
    marker_path = directory / UNFINISHED_MARKER
    with convert_output_errors(marker_path):
        create_directory(directory)
        marker_file = marker_path.open("x")
    with marker_file:
        with convert_output_errors(marker_path):
            json.dump(table_names, marker_file)
            marker_file.flush()
            fcntl.flock(marker_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
        with convert_output_errors(marker_path):
            marker_path.unlink()
        sync_directories(directory, [directory])  # a marker left after a power cut ends an export


def remove_unfinished_export(directory: Path) -> None:
    """Remove the files of a killed export; raises UsageError if it is still running."""
    marker_path = directory / UNFINISHED_MARKER
    try:
        with regular_file(marker_path, follow_links=False) as marker_file:
            fcntl.flock(marker_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                table_names = [
                    name
                    for name in parse_json(marker_file.read(MAX_MARKER_BYTES))
                    if name in LAKE_TABLES
                ]
            except (ValueError, TypeError):
                table_names = []  # killed before it had written anything
            for directory_name in (*table_names, KFMT_DIRECTORY):
                shutil.rmtree(directory / directory_name, ignore_errors=True)
            marker_path.unlink()
    except BlockingIOError:
        raise UsageError(f"{directory}: another export is writing to this directory") from None
    except OSError as error:
        raise UsageError(f"{marker_path}: {error.strerror}") from error


def _split_file_path(file_group: FileSplits) -> str:
    """The file that a file group has splits of; empty for a group of whole files."""
    return "" if file_group[0].is_entire_file else file_group[0].path
