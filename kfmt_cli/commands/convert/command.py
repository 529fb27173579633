"""convert-v0-to-v2: rewrites logs, reads them back and copies all other files."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.commands.command_run import CommandRun, Progress, iter_result_events
from kfmt_cli.commands.convert.options import KEEP_CODEC, ConvertOptions
from kfmt_cli.core.compressed_files import COMPRESSED_FILE_MESSAGE, compressed_suffix
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import classify_file, file_size
from kfmt_cli.disk.file_access import path_exists, stat_path
from kfmt_cli.disk.input_paths import resolve_path
from kfmt_cli.disk.kinds import UNKNOWN_KIND
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND, TIME_INDEX_KIND
from kfmt_cli.disk.kinds.kind import LEFTOVER_SUFFIXES, SWAP_SUFFIX, InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.disk.segment import segment_file_path
from kfmt_cli.errors import InputError, OutputError
from kfmt_cli.render.style import escape_unprintable, format_count, format_thousands
from kfmt_cli.rows.file_result import FileResult, FileResultType
from kfmt_cli.writers.build.batch_drafts import BatchBounds
from kfmt_cli.writers.convert.converter import Converter
from kfmt_cli.writers.output import (
    StagingDirectory,
    check_source_and_destination,
    copy_file,
    copy_times,
    open_staging_directory,
    require_free_space,
)
from kfmt_cli.writers.segment_writer import SegmentWriter

COUNTED_ATTRIBUTES = ("messages", "batches", "batches_after", "left_out")
CONVERT_RESULT = FileResultType(
    ("messages", "batches", "batches_after", "bytes", "bytes_after", "left_out"),
    {"messages": 11, "batches": 9, "batches_after": 13, "bytes": 14, "bytes_after": 14},
)
REBUILT_KINDS = (OFFSET_INDEX_KIND, TIME_INDEX_KIND)


@dataclass(slots=True)
class ConvertCommand:
    """One call of `convert-v0-to-v2`."""

    run: CommandRun
    options: ConvertOptions
    _converter: Converter = field(init=False)
    _has_legacy: bool = False
    """Whether some batches have magic 0 or 1."""
    _n_copied_files: int = 0
    _skipped_file_names: list[str] = field(default_factory=list)

    def execute(self) -> None:
        """Convert SRC to DST; raises UsageError, InputError, OutputError."""
        run, options = self.run, self.options
        source, destination = options.source, options.destination
        run.set_result_type(CONVERT_RESULT)
        self._converter = Converter(
            None if options.compression == KEEP_CODEC else options.compression,
            BatchBounds(options.batch_bytes),
            options.decompression_limit,
            options.n_jobs,
        )
        check_source_and_destination(source, destination)
        files = list(_iter_files(source, run.report_input_error))
        logs = [file for file, _ in files if file.kind is LOG_KIND]
        if not logs:
            unread_note = " that could be read" if run.summary.n_unread_inputs else ""
            raise InputError(f"{format_display_name(source)}: no log segments{unread_note}")
        size_by_path = {file.path: file_size(file) for file, _ in files}
        require_free_space(destination, sum(size_by_path.values()))
        run.sink.begin_results(CONVERT_RESULT)
        is_damaged = False
        n_bytes_to_read = 2 * sum(size_by_path[log.path] for log in logs)
        with (
            run.output.progress(n_bytes_to_read) as progress,
            open_staging_directory(destination, inputs=[source]) as staging,
        ):
            run.report_leftovers(staging.removed_leftovers)
            for file, relative_path in files:
                if file.kind is LOG_KIND:
                    is_damaged |= self._convert_log(staging, file, relative_path, progress)
                elif Path(file.path).name.endswith(LEFTOVER_SUFFIXES):
                    self._skipped_file_names.append(file.name)
                elif file.kind not in REBUILT_KINDS or not path_exists(
                    segment_file_path(file.path, LOG_KIND)
                ):
                    copy_file(staging, file, relative_path)
                    self._n_copied_files += 1
            if is_damaged and not self.options.skip_damaged:
                staging.prevent_commit()
        run.finish()
        self._show_summary(destination, is_damaged and not self.options.skip_damaged)

    def _convert_log(
        self, staging: StagingDirectory, log: InputFile, relative_path: str, progress: Progress
    ) -> bool:
        """Convert a log and read it back; returns whether it is damaged. relative_path: path under
        DST."""
        base_offset = log.base_offset
        if base_offset is None:
            raise InputError(
                f"{log.name}: the file name does not start with a 20-digit base offset"
            )
        with SegmentWriter(staging, relative_path, base_offset) as writer:
            conversion_counts = self._converter.convert_log(log, writer, progress.on_progress)
        self._has_legacy |= conversion_counts.has_legacy
        if not conversion_counts.damaged or self.options.skip_damaged:
            self._verify_new_log(
                staging.directory / relative_path, log, conversion_counts.digest, progress
            )
        result_counts: dict[str, int | None] = {
            name: getattr(conversion_counts, name) for name in COUNTED_ATTRIBUTES
        }
        result_counts |= {"bytes": file_size(log), "bytes_after": writer.log_bytes}
        result = FileResult(CONVERT_RESULT, log.name, log.kind.name, result_counts)
        result.add_findings(conversion_counts.findings)
        self.run.handle_events(iter_result_events(result))
        copy_times(log.path, staging.directory / relative_path)
        return conversion_counts.damaged

    def _verify_new_log(
        self, new_path: Path, log: InputFile, expected_digest: bytes, progress: Progress
    ) -> None:
        """Raise OutputError if the new log's records differ from the old log's."""
        new_log = classify_file(str(new_path), log.name)
        if (
            self._converter.convert_log(new_log, None, progress.on_progress).digest
            != expected_digest
        ):
            raise OutputError(
                f"{log.name}: verification failed: the output differs from the input; nothing was "
                "written"
            )

    def _show_summary(self, destination: str, is_rejected: bool) -> None:
        sink, summary = self.run.sink, self.run.summary
        if self._skipped_file_names:
            count_text = format_count(len(self._skipped_file_names), "file")
            reason = f"that a broker has finished with ({', '.join(LEFTOVER_SUFFIXES)})"
            sink.write_to_stderr(f"not copied: {count_text} {reason}\n")
        if summary.n_unread_inputs and not is_rejected:
            count_text = format_count(
                summary.n_unread_inputs, "file or directory", "files or directories"
            )
            sink.write_to_stderr(
                f"kfmt: {escape_unprintable(destination)} lacks {count_text} that could not be "
                "read\n"
            )
        if is_rejected:
            sink.write_to_stderr(
                f"kfmt: {escape_unprintable(destination)} not written because of damage; use "
                "--skip-damaged to drop damaged batches\n"
            )
            return
        totals = summary.totals
        if not self._has_legacy:
            copied = f"{format_thousands(totals['bytes'])} bytes copied and verified"
            sink.write_hint(f"nothing to convert: every batch is magic 2; {copied}", "good")
            return
        sink.write_hint(
            f"{format_thousands(totals['bytes'])} bytes converted to "
            f"{format_thousands(totals['bytes_after'])} and "
            f"verified; {format_count(self._n_copied_files, 'other file')} copied",
            "good",
        )


def _iter_files(source: str, on_error: Callable[[str], None]) -> Iterator[tuple[InputFile, str]]:
    """Every file to convert or copy, with its path under DST.

    on_error: called with a message for each unreadable file or directory.
    """
    input_path = resolve_path(source)
    for message in input_path.listing_errors:
        on_error(message)
    if input_path.file is not None:
        if input_path.file.kind is not LOG_KIND:
            raise InputError(f"{input_path.file.name}: not a .log file")
        if compressed_suffix(source):
            raise InputError(f"{input_path.file.name}: {COMPRESSED_FILE_MESSAGE}")
        yield input_path.file, Path(source).name
        return
    for listing in input_path.directories:
        for file_name in listing.files:
            path = listing.input_file(file_name).path
            try:
                is_regular_file = stat.S_ISREG(stat_path(path).st_mode)
            except OSError as error:
                on_error(f"{format_display_name(path)}: {error.strerror}")
                continue
            if file_name == ".lock" or not is_regular_file:
                continue
            relative_path = str(Path(listing.relative_path) / file_name)
            file = listing.input_file(file_name)
            if file_name.endswith(SWAP_SUFFIX):
                raise InputError(
                    f"{file.name}: left by an interrupted segment replacement; start a broker once "
                    "on a copy to finish it, then convert the copy"
                )
            if file_name.endswith(LEFTOVER_SUFFIXES):
                file = InputFile(file.path, file.name, UNKNOWN_KIND)
            yield file, relative_path
