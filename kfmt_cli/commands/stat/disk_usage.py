"""Disk usage under a directory, how much of it a broker will free, and when."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from kfmt_cli.commands.log_settings import SettingsOf
from kfmt_cli.commands.retention.command import fates_of
from kfmt_cli.commands.run import Run
from kfmt_cli.commands.stat.usage_lines import usage_lines
from kfmt_cli.core.urls import absolute, name_text
from kfmt_cli.disk.given import is_in_other_form
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.usage import BECOMES, LOGS, Usage, usage_below
from kfmt_cli.rows.documents import DISK_USAGE


def by_directory(partitions: Iterable[Partition]) -> dict[Path, list[Partition]]:
    """The partitions at and below each directory, by its real path; also below those with a link on
    the way to them."""
    found: dict[Path, list[Partition]] = {}
    known: dict[Path, Path] = {}
    for partition in partitions:
        ways = {partition.folder, *Path(absolute(partition.logs[0].path)).parents}
        reals = {
            known.get(path) or known.setdefault(path, Path(os.path.realpath(path))) for path in ways
        }
        for path in reals.union(*(real.parents for real in reals)):
            found.setdefault(path, []).append(partition)
    return found


def show_usage(
    run: Run,
    path: str,
    below: Sequence[Partition],
    settings_of: SettingsOf,
    now: int,
    *,
    is_told: bool,
) -> None:
    """Show what fills the disk under a directory. below: the partitions there. now: in
    milliseconds. is_told: also print lines if nothing is marked for deletion."""
    sink = run.sink
    found = usage_below(path, run.complain)
    for usage in found:
        if usage.purpose == LOGS:
            _ask_retention(run, usage, below, settings_of, now)
    is_known = any(settings_of.knows(partition.log_directory) for partition in below)
    lines = []
    if is_told or any(usage.purpose.startswith("marked") for usage in found):
        lines = list(usage_lines(path, found, sink.out.theme, sink.out.width, is_known=is_known))
    for i, usage in enumerate(found):
        row = {"file": name_text(path), **asdict(usage), "becomes": BECOMES.get(usage.purpose)}
        sink.document(DISK_USAGE, row, () if i else lines)


def _ask_retention(
    run: Run, usage: Usage, partitions: Sequence[Partition], settings_of: SettingsOf, now: int
) -> None:
    """Set the bytes of the logs that retention frees at its next check, and later."""
    usage.freed_now = usage.freed_later = usage.freed_odd = 0
    for partition in partitions:
        if is_in_other_form(str(partition.folder)):
            continue  # its files have other sizes
        fates = None
        with run.complaining():
            fates = fates_of(partition, settings_of, now, run.complain)
        if fates is None:
            continue
        usage.freed_odd += fates.odd
        for at, size in fates.freed(now):
            if at <= now:
                usage.freed_now += size
            else:
                usage.freed_later += size
                usage.freed_by = max(at, usage.freed_by or at)
