"""Runs a command on each partition, noting offsets that consumers can no longer read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kfmt_cli.broker.start.checkpoints import (
    LOG_START_CHECKPOINT,
    CheckpointError,
    CheckpointNumberError,
    read_checkpoint_offsets,
)
from kfmt_cli.checks.log.checker import iter_checked_blocks
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.core.throttle import READ_THROTTLE
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import classify_file, file_size
from kfmt_cli.disk.file_access import is_file
from kfmt_cli.disk.file_names import log_partition_directory, parse_topic_partition
from kfmt_cli.disk.input_paths import InputPath
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.partitions import Partition, find_partitions
from kfmt_cli.errors import UsageError
from kfmt_cli.log.block import Block


class LogStartReporter:
    """Notes which offsets of partitions are below their log start offset, once per partition.

    Consumers cannot read these, but they stay on disk until their segment is deleted, as after
    DeleteRecords. The checkpoint of a log directory is read once for its partitions.
    """

    def __init__(self, run: CommandRun) -> None:
        self._run = run
        self._reported_directories: set[str] = set()
        self._checkpoint_path: Path | None = None
        self._log_start_by_partition: dict[tuple[str, int], int] = {}

    def report_log_start(self, path: str, base_offset: int | None, display_path: str) -> None:
        """Note unreadable offsets if this log is the first of its partition."""
        directory = path.rpartition(os.sep)[0]
        if base_offset is not None and directory not in self._reported_directories:
            self._reported_directories.add(directory)
            self._report_unreadable_offsets(
                display_path.rpartition("/")[0] or display_path,
                log_partition_directory(path),
                base_offset,
            )

    def report_partition_start(self, partition: Partition) -> None:
        """Note the unreadable offsets of a partition."""
        if partition.logs:
            self._report_unreadable_offsets(
                partition.name, partition.directory, partition.logs[0].base_offset_or_zero
            )

    def _report_unreadable_offsets(
        self, partition_label: str, directory: Path, first_offset: int
    ) -> None:
        """Note the offsets from `first_offset` up to the log start offset of the partition in a
        directory; reports a checkpoint that cannot be read. partition_label: name for display."""
        log_start_offset = self.log_start_offset(directory)
        if log_start_offset > first_offset:
            message = f"consumers cannot read offsets {first_offset}–{log_start_offset - 1}"
            self._run.sink.write_to_stderr(
                f"{partition_label}: {message}: log start offset {log_start_offset}\n"
            )

    def log_start_offset(self, directory: Path) -> int:
        """The log start offset of a partition directory by the checkpoint, 0 without one."""
        topic, partition_index = parse_topic_partition(directory.name)
        if topic is None:
            return 0
        log_starts = self._read_log_starts(directory.parent / LOG_START_CHECKPOINT)
        return log_starts.get((topic, partition_index or 0), 0)

    def _read_log_starts(self, checkpoint_path: Path) -> dict[tuple[str, int], int]:
        """The log start offsets in a checkpoint; none if it is missing or unreadable."""
        if checkpoint_path != self._checkpoint_path:
            self._checkpoint_path, self._log_start_by_partition = checkpoint_path, {}
            if is_file(str(checkpoint_path)):
                with (
                    self._run.catch_input_errors(),
                    suppress(CheckpointError, CheckpointNumberError),
                ):
                    self._log_start_by_partition = read_checkpoint_offsets(
                        classify_file(
                            str(checkpoint_path), format_display_name(str(checkpoint_path))
                        )
                    )
        return self._log_start_by_partition


def for_each_partition(
    run: CommandRun,
    paths: Sequence[InputPath | str],
    process_partition: Callable[[Partition], None],
    *,
    accepts_stdin: bool = False,
    shows_progress: bool = False,
    single_partition_option: str = "",
) -> None:
    """Call `process_partition` on each partition under the paths; reports unreadable ones and
    continues. Raises UsageError.

    shows_progress: the logs are read completely, so that progress can be shown.
    single_partition_option: the option that needs a single partition; empty if there may be
    several.
    """
    partitions = find_partitions(
        paths, run.report_input_error, run.sink.write_to_stderr, accepts_stdin=accepts_stdin
    )
    if single_partition_option and len(partitions) > 1:
        raise UsageError(
            f"{single_partition_option} needs a single partition, but {len(partitions)} were given"
        )
    log_start_reporter = LogStartReporter(run)
    logs = [log for partition in partitions for log in partition.logs] if shows_progress else []
    with show_read_progress(run, logs):
        for partition in partitions:
            log_start_reporter.report_partition_start(partition)
            with run.catch_input_errors():
                process_partition(partition)


@contextmanager
def show_read_progress(run: CommandRun, logs: Iterable[InputFile]) -> Iterator[None]:
    """Show how much of some logs this process has read, while the block runs."""
    total_bytes = sum(map(file_size, logs))
    if not total_bytes:
        yield
        return
    with (
        run.output.progress(total_bytes, with_rows=True) as progress,
        READ_THROTTLE.report_reads_to(progress.on_progress),
    ):
        yield


def iter_log_blocks(logs: Sequence[InputFile]) -> Iterator[tuple[InputFile, Block]]:
    """The batches of a partition's logs, block by block, each with its log; raises InputError."""
    for file in logs:
        for block in iter_checked_blocks(file):
            yield file, block
