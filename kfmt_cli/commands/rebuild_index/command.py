"""rebuild-index: writes the files that log recovery writes, under DST or next to the logs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from kfmt_cli.broker.transactions.transaction import MARKER
from kfmt_cli.broker.transactions.transactions import TransactionTracker
from kfmt_cli.checks.log.checker import iter_checked_blocks
from kfmt_cli.commands.command_run import CommandRun, Progress, iter_result_events
from kfmt_cli.commands.rebuild_index.options import RebuildIndexOptions
from kfmt_cli.commands.settings_resolver import read_index_interval_bytes
from kfmt_cli.core.regular_files import read_regular_file
from kfmt_cli.core.times import now_ms
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import file_size, list_directory
from kfmt_cli.disk.file_access import is_ordinary_disk_path
from kfmt_cli.disk.file_names import parse_offset_name
from kfmt_cli.disk.input_paths import resolve_paths
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND, TIME_INDEX_KIND
from kfmt_cli.disk.kinds.kind import SWAP_SUFFIX, InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import InputError, InputErrorHandler, UsageError
from kfmt_cli.findings.finding import has_errors
from kfmt_cli.render.style import escape_unprintable
from kfmt_cli.rows.file_result import FileResult, FileResultType
from kfmt_cli.writers.broker_lock import require_unlocked
from kfmt_cli.writers.derived_files import REBUILT_SUFFIXES
from kfmt_cli.writers.leftovers import remove_output_leftovers
from kfmt_cli.writers.output import (
    StagingDirectory,
    open_staging_directory,
    rename_to_backup,
    replace_file,
    require_outside_inputs,
)
from kfmt_cli.writers.rebuilt_log import RebuildOptions, RebuiltLog, rebuild_files

INDEX_SUFFIXES = (OFFSET_INDEX_KIND.suffix, TIME_INDEX_KIND.suffix)
NOT_IN_PLACE_MESSAGE = (
    "--in-place: files that are compressed, tiered, in an archive or at a URL cannot be changed"
)
REBUILD_RESULT = FileResultType(
    ("bytes", "batches", "entries"), {"entries": 9, "batches": 9, "bytes": 14}
)


_AS_STARTED_HINT = "damaged: these are the files that a start after a crash would leave"
_ALL_SEGMENTS_HINT = (
    "damaged: these are the indexes of all segments up to their damage; --as-started writes what a "
    "start after a crash would leave"
)


@dataclass(slots=True)
class RebuildIndexCommand:
    """One call of `rebuild-index`."""

    run: CommandRun
    options: RebuildIndexOptions
    _writes_all_files: bool = field(init=False)
    _expired_before_ms: int | None = None
    """Expire producers that wrote nothing after this time in milliseconds."""
    _named_directories: set[Path] = field(default_factory=set)
    _is_damaged: bool = False

    def execute(self) -> None:
        """Rebuild under DST, or next to the logs; raises UsageError, InputError, OutputError."""
        paths, output_directory = self.options.log_paths, self.options.destination
        self.run.set_result_type(REBUILD_RESULT)
        self._writes_all_files = self.options.all_files
        if (expiration_ms := self.options.expiration_ms) is not None:
            self._expired_before_ms = now_ms() - expiration_ms
        output_partitions = list(self._group_partitions(paths, output_directory))
        logs = [log for _, group in output_partitions for log in group]
        self.run.sink.begin_results(REBUILD_RESULT)
        total_bytes = sum(map(file_size, logs))
        with self.run.output.progress(total_bytes) as progress:
            is_next_to_logs = output_directory is not None and self._detect_logs_in_output(
                output_directory, output_partitions
            )
            if output_directory is not None and not is_next_to_logs:
                require_outside_inputs(
                    output_directory, [*paths, *(str(Path(log.path).parent) for log in logs)]
                )
            if output_directory is None or is_next_to_logs:
                for _, partition_logs in output_partitions:
                    self._replace_files(partition_logs, progress)
            elif output_partitions:
                with open_staging_directory(
                    output_directory, self.options.force, inputs=paths
                ) as staging:
                    self.run.report_leftovers(staging.removed_leftovers)
                    for subdirectory, partition_logs in output_partitions:
                        for rebuilt_log in self._iter_rebuilt_logs(partition_logs, progress):
                            self._write_to_staging(staging, subdirectory, rebuilt_log)
                    if staging.is_empty:
                        staging.prevent_commit()
        self.run.finish()
        if self._is_damaged:
            self.run.sink.write_hint(
                _AS_STARTED_HINT if self.options.as_started else _ALL_SEGMENTS_HINT
            )

    def _detect_logs_in_output(
        self, output_directory: str, output_partitions: list[tuple[str, list[InputFile]]]
    ) -> bool:
        """Whether DST contains the logs; then sets all_files. Raises UsageError unless files may be
        replaced."""
        output_paths = (
            Path(os.path.realpath(Path(output_directory, subdirectory)))
            for subdirectory, _ in output_partitions
        )
        log_directories = {
            Path(os.path.realpath(Path(partition_logs[0].path).parent))
            for _, partition_logs in output_partitions
        }
        contains_logs = any(path in log_directories for path in output_paths)
        if contains_logs and not self.options.force:
            raise UsageError(f"{output_directory}: contains the logs; use --in-place")
        self._writes_all_files |= contains_logs
        return contains_logs

    def _group_partitions(
        self, paths: tuple[str, ...], output_directory: str | None
    ) -> Iterator[tuple[str, list[InputFile]]]:
        """The directory under DST of each partition, and its logs; raises UsageError if two have
        the same one."""
        logs_by_directories: dict[tuple[str, str], list[InputFile]] = {}
        input_paths = list(resolve_paths(paths, self.run.report_input_error))
        n_directories = sum(target.file is None for target in input_paths)
        for input_path in input_paths:
            with self.run.catch_input_errors():
                for log in input_path.iter_files(frozenset({LOG_KIND})):
                    if log.kind is not LOG_KIND:
                        raise InputError(f"{log.name}: not a .log file")
                    subdirectory = ""
                    if input_path.file is None:
                        self._named_directories.add(Path(log.path).parent)
                        subdirectory = str(Path(log.path).parent.relative_to(input_path.path))
                        if n_directories > 1:
                            subdirectory = str(Path(Path(input_path.path).name) / subdirectory)
                    source_and_subdirectory = str(Path(log.path).parent), subdirectory
                    logs_by_directories.setdefault(source_and_subdirectory, []).append(log)
        source_by_subdirectory: dict[str, str] = {}
        for (source_directory, subdirectory), logs in logs_by_directories.items():
            if output_directory is None and not is_ordinary_disk_path(source_directory):
                raise UsageError(f"{format_display_name(source_directory)}: {NOT_IN_PLACE_MESSAGE}")
            if (
                source_by_subdirectory.setdefault(subdirectory, source_directory)
                != source_directory
                and output_directory is not None
            ):
                reason = (
                    f"is written to {subdirectory}, and so is "
                    f"{format_display_name(source_by_subdirectory[subdirectory])}"
                )
                raise UsageError(
                    f"{format_display_name(source_directory)}: {reason}; rebuild them one by one"
                )
            yield subdirectory, sorted(logs, key=lambda log: log.base_offset_or_zero)

    def _iter_rebuilt_logs(self, logs: list[InputFile], progress: Progress) -> Iterator[RebuiltLog]:
        remaining_logs = list(logs)
        with InputErrorHandler(lambda error: self._report_unread_logs(error, remaining_logs)):
            index_interval_bytes = self.options.index_interval_bytes
            if index_interval_bytes is None:
                index_interval_bytes = read_index_interval_bytes(Path(logs[0].path).parent)
            rebuild_options = RebuildOptions(
                index_interval_bytes,
                self._expired_before_ms,
                predicts_start=True,
                as_started=self.options.as_started,
            )
            for rebuilt_log in rebuild_files(
                logs, rebuild_options, progress.on_progress, swap_files=self._swapped_in_files(logs)
            ):
                counts = {
                    "bytes": rebuilt_log.size,
                    "batches": rebuilt_log.batches,
                    "entries": rebuilt_log.entries,
                }
                result = FileResult(
                    REBUILD_RESULT, rebuilt_log.log.name, rebuilt_log.log.kind.name, counts
                )
                result.add_findings(rebuilt_log.findings)
                self._is_damaged |= not rebuilt_log.is_fully_retained
                del remaining_logs[0]
                yield rebuilt_log
                self.run.handle_events(iter_result_events(result))

    def _report_unread_logs(self, error: InputError, remaining_logs: list[InputFile]) -> None:
        """Report a log that cannot be read, and the later ones, whose producers depend on it."""
        self.run.report_input_error(error)
        if len(remaining_logs) > 1:
            message = (
                f"neither this segment nor the {len(remaining_logs) - 1} after it were rebuilt"
            )
            self.run.sink.write_to_stderr(
                f"{escape_unprintable(remaining_logs[0].name)}: {message}\n"
            )

    def _swapped_in_files(self, logs: list[InputFile]) -> list[InputFile]:
        """Completed .swap files of a partition whose directory the user named, and the logs that a
        broker would rename; raises InputError."""
        partition_path = Path(logs[0].path).parent
        if partition_path not in self._named_directories:
            return []
        directory_listing = list_directory(str(partition_path), display_prefix="")
        swap_files = [
            directory_listing.input_file(file_name)
            for file_name in directory_listing.regular_files
            if file_name.endswith(SWAP_SUFFIX)
        ]
        log_files = [
            directory_listing.input_file(file_name)
            for file_name in directory_listing.regular_files
            if file_name.endswith(LOG_KIND.suffix)
        ]
        renamed_logs = [
            log
            for log in log_files
            if log.base_offset is None and parse_offset_name(log.name) is not None
        ]
        return swap_files + renamed_logs

    @staticmethod
    def _write_to_staging(
        staging: StagingDirectory, subdirectory: str, rebuilt_log: RebuiltLog
    ) -> None:
        for file_name, content in rebuilt_log.files.items():
            if content is not None:
                staging.write_file(str(Path(subdirectory) / file_name), content)

    def _replace_files(self, logs: list[InputFile], progress: Progress) -> None:
        """Replace the files of one partition; raises UsageError if a broker uses it."""
        directory = Path(logs[0].path).parent
        if not self.options.force:
            require_unlocked(directory)
        self.run.report_leftovers(remove_output_leftovers(directory))
        size_by_path = {file.path: file_size(file) for file in logs}
        find_missing_marker = cache(partial(_find_missing_marker, logs))
        for rebuilt_log in self._iter_rebuilt_logs(logs, progress):
            if (
                file_size(rebuilt_log.log) != size_by_path[rebuilt_log.log.path]
                and not self.options.force
            ):
                raise UsageError(
                    f"{rebuilt_log.log.name}: the log grew while it was being read, so a broker is "
                    "probably writing to it; use --force to replace its indexes anyway"
                )
            if not self.options.force and has_errors(rebuilt_log.findings):
                message = (
                    "the log is damaged; a rebuilt index would end at the damage, while the "
                    "existing one may reach beyond it. Not replaced; use --force to replace it "
                    "anyway"
                )
                self.run.report_input_error(f"{rebuilt_log.log.name}: {message}")
                continue
            self._replace_changed_files(rebuilt_log, find_missing_marker)

    def _replace_changed_files(
        self, rebuilt_log: RebuiltLog, find_missing_marker: Callable[[], int | None]
    ) -> None:
        """Replace files that differ, leaving correct ones untouched. find_missing_marker: returns
        the offset of a transaction marker that the partition's logs lack."""
        for file_name, content in rebuilt_log.files.items():
            existing_path = Path(rebuilt_log.log.path).with_name(file_name)
            if existing_path.is_dir():
                self.run.report_input_error(
                    f"{existing_path}: is a directory; remove it to write the file"
                )
                continue
            if _has_content(existing_path, content):
                continue
            if not self._writes_all_files and not file_name.endswith(INDEX_SUFFIXES):
                reason = "is missing" if not existing_path.exists() else "does not match the log"
                message = f"{reason}; use --all-files to write it as well"
                self.run.sink.write_to_stderr(
                    f"{escape_unprintable(str(existing_path))}: {message}\n"
                )
                continue
            if (
                not self.options.force
                and file_name.endswith(REBUILT_SUFFIXES)
                and existing_path.exists()
                and (marker_offset := find_missing_marker()) is not None
            ):
                self.run.report_input_error(
                    f"{existing_path}: the log lacks the transaction marker at offset "
                    f"{marker_offset}, which this file may still show; without it, a transaction "
                    "would end differently. Not replaced; kfmt salvage rewrites the marker, "
                    "--force replaces the file anyway"
                )
                continue
            backup_path = (
                rename_to_backup(existing_path)
                if content is None
                else replace_file(
                    existing_path, content, keep_backup=True, model_path=rebuilt_log.log.path
                )
            )
            if backup_path is not None:
                self.run.sink.write_to_stderr(
                    f"{escape_unprintable(str(existing_path))}: previous version kept as "
                    f"{escape_unprintable(backup_path.name)}\n"
                )


def _has_content(path: Path, content: bytes | None) -> bool:
    """Whether a file has this content; for None, whether it is missing."""
    if content is None:
        return not os.path.lexists(path)
    try:
        return read_regular_file(path, len(content)) == content
    except OSError:
        return False


def _find_missing_marker(logs: list[InputFile]) -> int | None:
    """The offset of the first transaction marker that damage or a gap hides; None without any.
    Raises InputError."""
    blocks = (block for log in logs for block in iter_checked_blocks(log))
    for transaction in TransactionTracker(logs).track(blocks):
        if transaction.evidence != MARKER:
            if transaction.marker_offset is not None:
                return transaction.marker_offset
            return (transaction.last_offset or 0) + 1
    return None
