"""build: writes segments from JSON Lines or from exported tables, all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePath

from kfmt_cli.commands.build.options import BuildOptions
from kfmt_cli.commands.command_run import CommandRun, iter_result_events
from kfmt_cli.core.source import STDIN_PATH
from kfmt_cli.core.times import now_ms
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND, LOG_KIND
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.formats.batch import TIMESTAMP_TYPES
from kfmt_cli.render.style import format_count
from kfmt_cli.rows.file_result import FileResult, FileResultType
from kfmt_cli.writers.build.builder import SegmentBuilder
from kfmt_cli.writers.build.jsonl import LINE_CHUNK_BYTES, BuildLine, read_lines
from kfmt_cli.writers.build.notes import iter_encoded_notes
from kfmt_cli.writers.build.options import BatchOptions
from kfmt_cli.writers.derived_files import write_derived_files
from kfmt_cli.writers.output import StagingDirectory, open_staging_directory
from kfmt_cli.writers.rolling_writer import RollingWriter, RollSettings, WrittenSnapshot
from kfmt_cli.writers.segment_writer import SegmentWriter

BUILD_RESULT_TYPE = FileResultType(
    ("bytes", "batches", "entries"), {"batches": 9, "entries": 9, "bytes": 14}
)


@dataclass(slots=True)
class BuildCommand:
    """One call of `build`."""

    run: CommandRun
    options: BuildOptions

    @property
    def _batch_options(self) -> BatchOptions:
        options = self.options
        timestamp_type = options.timestamp_type
        return BatchOptions(
            magic=None if options.magic is None else int(options.magic),
            compression=options.compression,
            timestamp_type=None
            if timestamp_type is None
            else TIMESTAMP_TYPES.index(timestamp_type),
            batch_bytes=options.batch_bytes,
            batch_records=options.batch_records,
            base_offset=options.base_offset,
            producer_id=options.producer_id,
            producer_epoch=options.producer_epoch,
            transactional=options.transactional,
            now=now_ms(),
        )

    @property
    def _roll_settings(self) -> RollSettings:
        options, default_settings = self.options, RollSettings()
        return RollSettings(
            options.segment_bytes or default_settings.segment_bytes,
            options.segment_ms or default_settings.segment_ms,
            options.segment_index_bytes or default_settings.segment_index_bytes,
            options.index_interval_bytes,
            keeps_named_segments=not any(
                (options.segment_bytes, options.segment_ms, options.segment_index_bytes)
            ),
        )

    def execute(self) -> None:
        """Build DST from the lines or tables; raises InputError, UsageError, OutputError."""
        run, topic = self.run, self.options.target_topic
        source, destination, force = (
            self.options.source,
            self.options.destination,
            self.options.force,
        )
        if self.options.layout is not None:
            build_notes(run, source, destination, force)
            return
        run.set_result_type(BUILD_RESULT_TYPE)
        run.sink.begin_results(BUILD_RESULT_TYPE)
        if (table_files := _find_table_files(source)) is not None:
            self._build_tables(table_files, destination, force)
            return
        with open_staging_directory(destination, force, inputs=[source]) as staging:
            run.report_leftovers(staging.removed_leftovers)
            writer = RollingWriter(staging, self._roll_settings)
            builder = SegmentBuilder(self._batch_options, writer, topic)
            with writer:
                builder.build_lines(self._iter_line_chunks(source))
            if not writer.segments_by_directory and not writer.snapshots_by_directory:
                raise InputError(f"{source}: contains no records")
            self._write_derived_files(
                staging, writer.segments_by_directory, writer.snapshots_by_directory
            )
        if builder.n_ignored_lines:
            singular = "line that is a finding or result"
            plural = "lines that are findings or results"
            ignored_text = format_count(builder.n_ignored_lines, singular, plural)
            run.sink.write_to_stderr(f"skipped {ignored_text}, not log contents\n")
        if builder.assembler.n_count_mismatches:
            changed_text = format_count(builder.assembler.n_count_mismatches, "batch", "batches")
            reason = "to match the records that follow"
            run.sink.write_to_stderr(f"changed records_count in {changed_text} {reason}\n")
        run.finish()
        run.sink.write_hint(format_count(builder.assembler.n_accepted_records, "record"), "")

    def _iter_line_chunks(self, source: str) -> Iterator[list[BuildLine]]:
        for build_lines in read_lines(source):
            self.run.output.expect_bytes(LINE_CHUNK_BYTES)
            yield build_lines

    def _build_tables(self, table_splits: list[FileSplit], destination: str, force: bool) -> None:
        """Build DST from exported tables."""
        from kfmt_cli.arrow.export.exported_rows import clear_row_group_cache, read_row_ranges
        from kfmt_cli.arrow.restore.restored_partition import (
            group_files_by_partition,
            restore_segments,
        )

        run, topic, options = self.run, self.options.target_topic, self._batch_options
        if options != BatchOptions(compression=options.compression, now=options.now):
            raise UsageError("--compression is the only batch option that applies to Parquet")
        partitions = group_files_by_partition(
            (table_split, *read_row_ranges(table_split.path)) for table_split in table_splits
        )
        if topic is not None and len({partition.topic for partition in partitions}) > 1:
            raise UsageError("--topic: the tables have records of several topics")
        clear_row_group_cache()
        writers_by_directory: dict[str, list[SegmentWriter]] = {}
        n_records = 0
        with open_staging_directory(destination, force, inputs=[self.options.source]) as staging:
            run.report_leftovers(staging.removed_leftovers)
            for partition in partitions:
                if topic is None:
                    partition.require_valid_name()
                    directory_name = partition.directory_name
                else:  # also for a directory that is not named after a partition
                    directory_name = f"{topic}-{partition.partition or 0}"
                restored_partition = restore_segments(
                    partition, staging, directory_name, self._roll_settings, options.codec
                )
                writers_by_directory |= restored_partition.rolling_writer.segments_by_directory
                n_records += restored_partition.restored_counts.records
                if restored_partition.restored_counts.n_errors:
                    run.output.raise_exit_code(ExitCode.FINDINGS)
                for loss_text in restored_partition.restored_counts.describe_losses():
                    run.sink.write_to_stderr(f"{partition.directory_name}: {loss_text}\n")
            self._write_derived_files(staging, writers_by_directory, {})
        run.finish()
        run.sink.write_hint(format_count(n_records, "record"), "")

    def _write_derived_files(
        self,
        staging: StagingDirectory,
        writers_by_directory: dict[str, list[SegmentWriter]],
        snapshots_by_directory: dict[str, list[WrittenSnapshot]],
    ) -> None:
        """Read back the complete logs and write the files derived from them."""
        directory_names = {*writers_by_directory, *snapshots_by_directory}
        has_one_directory = len(directory_names) == 1 and self.options.target_topic is None
        for directory_name, segment_writers in writers_by_directory.items():
            index_interval_bytes = self._roll_settings.index_interval_bytes
            for rebuilt_log in write_derived_files(
                staging, directory_name, segment_writers, index_interval_bytes
            ):
                display_name = (
                    PurePath(rebuilt_log.log.name).name
                    if has_one_directory
                    else rebuilt_log.log.name
                )
                result_counts = {
                    "bytes": rebuilt_log.size,
                    "batches": rebuilt_log.batches,
                    "entries": rebuilt_log.entries,
                }
                result = FileResult(BUILD_RESULT_TYPE, display_name, LOG_KIND.name, result_counts)
                result.add_findings(rebuilt_log.findings)
                self.run.handle_events(iter_result_events(result))
        for snapshot in (
            snapshot
            for directory_snapshots in snapshots_by_directory.values()
            for snapshot in directory_snapshots
        ):
            display_name = (
                PurePath(snapshot.relative_path).name
                if has_one_directory
                else snapshot.relative_path
            )
            result_counts = {
                "bytes": snapshot.output_file.n_bytes,
                "batches": sum(snapshot.batches_per_append),
            }
            self.run.handle_event(
                FileResult(BUILD_RESULT_TYPE, display_name, KRAFT_SNAPSHOT_KIND.name, result_counts)
            )
        if has_one_directory:
            staging.move_files_to_root(Path(directory_names.pop()))


def _find_table_files(source: str) -> list[FileSplit] | None:
    """The files of exported tables at a path; None for a file of lines. Raises InputError,
    UsageError."""
    if source == STDIN_PATH or not (source.endswith(".parquet") or Path(source).is_dir()):
        return None
    if find_spec("pyarrow") is None:
        raise UsageError("pyarrow is not installed: pip install 'kfmt-cli[arrow]'")
    from kfmt_cli.arrow.restore.restored_partition import find_table_files

    table_files = find_table_files(source)
    if table_files is None:
        raise UsageError(f"{source}: no table of records in Parquet files")
    return table_files


NOTES_FILE_NAME = "notes-v0.bin"


def build_notes(run: CommandRun, source: str, destination: str, force: bool) -> None:
    """Write DST/notes-v0.bin from lines; raises InputError, UsageError, OutputError."""
    n_messages = 0
    with open_staging_directory(destination, force, inputs=[source]) as staging:
        run.report_leftovers(staging.removed_leftovers)
        with staging.create_file(NOTES_FILE_NAME) as output_file:
            for encoded_message in iter_encoded_notes(source):
                output_file.write(encoded_message)
                n_messages += 1
        if not n_messages:
            raise InputError(f"{source}: contains no messages")
    run.sink.write_hint(
        f"{format_count(n_messages, 'message')} in {destination}/{NOTES_FILE_NAME}", ""
    )
