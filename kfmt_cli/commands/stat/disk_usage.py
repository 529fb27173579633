"""Disk usage under a directory, how much of it a broker will free, and when."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.retention.command import predict_retention
from kfmt_cli.commands.settings_resolver import TopicSettingsResolver
from kfmt_cli.commands.stat.usage_lines import usage_lines
from kfmt_cli.core.urls import absolute_path, format_display_name
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.path_resolution import is_compressed_or_chunked
from kfmt_cli.disk.usage import LOGS_PURPOSE, OUTCOME_BY_PURPOSE, DiskUsage, read_disk_usage
from kfmt_cli.rows.documents import DISK_USAGE_ROW


def partitions_by_directory(partitions: Iterable[Partition]) -> dict[Path, list[Partition]]:
    """The partitions in and under each directory, by its real path; also under directories that
    reach them through a link."""
    partitions_by_path: dict[Path, list[Partition]] = {}
    real_path_by_path: dict[Path, Path] = {}
    for partition in partitions:
        enclosing_paths = {
            partition.directory,
            *Path(absolute_path(partition.logs[0].path)).parents,
        }
        real_paths = {
            real_path_by_path.get(path)
            or real_path_by_path.setdefault(path, Path(os.path.realpath(path)))
            for path in enclosing_paths
        }
        for path in real_paths.union(*(real_path.parents for real_path in real_paths)):
            partitions_by_path.setdefault(path, []).append(partition)
    return partitions_by_path


def write_disk_usage(
    run: CommandRun,
    path: str,
    partitions: Sequence[Partition],
    settings_resolver: TopicSettingsResolver,
    now_ms: int,
    *,
    always_has_lines: bool,
) -> None:
    """Show the disk usage under a directory. partitions: the partitions under it. now_ms: current
    time in milliseconds. always_has_lines: also print lines if nothing is marked for deletion."""
    sink = run.sink
    usages = read_disk_usage(path, run.report_input_error)
    for usage in usages:
        if usage.purpose == LOGS_PURPOSE:
            _set_freed_bytes(run, usage, partitions, settings_resolver, now_ms)
    has_topic_settings = any(
        settings_resolver.has_metadata_log(partition.log_directory) for partition in partitions
    )
    lines = []
    if always_has_lines or any(usage.purpose.startswith("marked") for usage in usages):
        lines = list(
            usage_lines(
                path,
                usages,
                sink.streams.theme,
                sink.streams.width,
                has_topic_settings=has_topic_settings,
            )
        )
    for i, usage in enumerate(usages):
        row = {
            "file": format_display_name(path),
            **asdict(usage),
            "becomes": OUTCOME_BY_PURPOSE.get(usage.purpose),
        }
        sink.write_document(DISK_USAGE_ROW, row, () if i else lines)


def _set_freed_bytes(
    run: CommandRun,
    usage: DiskUsage,
    partitions: Sequence[Partition],
    settings_resolver: TopicSettingsResolver,
    now_ms: int,
) -> None:
    """Set the bytes of the logs that retention frees at its next check, and later."""
    usage.freed_now = usage.freed_later = usage.freed_odd = 0
    for partition in partitions:
        if is_compressed_or_chunked(str(partition.directory)):
            continue  # its files have other sizes
        retention_forecast = None
        with run.catch_input_errors():
            retention_forecast = predict_retention(
                partition, settings_resolver, now_ms, run.report_input_error
            )
        if retention_forecast is None:
            continue
        usage.freed_odd += retention_forecast.unusually_late_bytes
        for deletion_ms, n_bytes in retention_forecast.freed_bytes(now_ms):
            if deletion_ms <= now_ms:
                usage.freed_now += n_bytes
            else:
                usage.freed_later += n_bytes
                usage.freed_by = max(deletion_ms, usage.freed_by or deletion_ms)
