"""Disk usage under a directory, how much of it a broker will free, and when."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.retention.command import predict_retention
from kfmt_cli.commands.settings_resolver import TopicSettingsResolver
from kfmt_cli.core.times import YEAR_10000_MS, format_interval_end
from kfmt_cli.core.urls import absolute_path, format_display_name
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.path_resolution import is_compressed_or_chunked
from kfmt_cli.disk.usage import (
    LOGS_PURPOSE,
    OUTCOME_BY_PURPOSE,
    USAGE_PURPOSES,
    DiskUsage,
    read_disk_usage,
)
from kfmt_cli.render.style import (
    Theme,
    escape_unprintable,
    format_bytes,
    format_thousands,
    quote_path_for_shell,
)
from kfmt_cli.render.tables.line_table import LineColumn, LineTable
from kfmt_cli.rows.documents import DISK_USAGE_ROW

_COLUMNS: tuple[LineColumn[DiskUsage], ...] = (
    LineColumn("files", lambda usage: format_thousands(usage.files)),
    LineColumn("size", lambda usage: format_bytes(usage.bytes)),
    LineColumn("on disk", lambda usage: format_bytes(usage.disk_bytes)),
    LineColumn("", lambda usage: USAGE_PURPOSES[usage.purpose], hide_rank=1, align_right=False),
)


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
            _usage_lines(
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


def _usage_lines(
    path: str,
    usages: Sequence[DiskUsage],
    theme: Theme,
    width: int | None,
    *,
    has_topic_settings: bool,
) -> Iterator[str]:
    """The disk usage of a directory, and how much of it a broker frees.

    has_topic_settings: topic settings come from a metadata log.
    """
    named_usages = [(_purpose_name(usage), usage) for usage in usages]
    table = LineTable(f"under {escape_unprintable(path)}", named_usages, _COLUMNS, theme, width)
    yield "\n" + table.format_heading()
    yield from (table.format_line(purpose_name, usage) for purpose_name, usage in named_usages)
    for usage in usages:
        if usage.freed_now is not None:
            yield f"{_retention_text(usage, has_topic_settings=has_topic_settings)}\n"
    for usage in usages:
        if usage.purpose in OUTCOME_BY_PURPOSE:
            sentence = OUTCOME_BY_PURPOSE[usage.purpose]
            sentence = sentence[0].lower() + sentence[1:].removesuffix(".")
            yield f"{_purpose_name(usage)}, {format_bytes(usage.disk_bytes)}: {sentence}\n"
    sentence = "shows which segments are deleted, and when"
    sentence += "" if has_topic_settings else "; pass other settings to it to compare"
    yield f"kfmt retention {quote_path_for_shell(path)} {sentence}\n"


def _purpose_name(usage: DiskUsage) -> str:
    return usage.purpose.replace("_", " ")


def _retention_text(usage: DiskUsage, *, has_topic_settings: bool) -> str:
    """How much of the logs retention frees now, later and never."""
    freed_now_bytes, freed_later_bytes = usage.freed_now or 0, usage.freed_later or 0
    amount_texts = [
        f"{format_bytes(freed_now_bytes)} deletable now"
        if freed_now_bytes
        else "nothing deletable now"
    ]
    if freed_later_bytes and usage.freed_by is not None:
        preposition = "by " if usage.freed_by < YEAR_10000_MS else ""
        amount_texts.append(
            f"{format_bytes(freed_later_bytes)} more "
            f"{preposition}{format_interval_end(usage.freed_by)}"
        )
    future_timestamp_bytes = usage.freed_odd or 0
    if future_timestamp_bytes:
        amount_texts.append(
            f"{format_bytes(future_timestamp_bytes)} kept much longer because of timestamps in "
            "the future"
        )
    if n_kept_bytes := usage.bytes - freed_now_bytes - freed_later_bytes - future_timestamp_bytes:
        amount_texts.append(f"{format_bytes(n_kept_bytes)} kept")
    settings_source = "the topics' settings" if has_topic_settings else "Kafka's default settings"
    return f"logs, under {settings_source}: {', '.join(amount_texts)}"
