"""Describes the available records if a selection finds none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.core.times import format_time
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.options.selection import RecordSelectionOptions
from kfmt_cli.render.style import format_count

MAX_DESCRIBED_BYTES = 1 << 30  # logs of more bytes are not read again


@dataclass(slots=True)
class LogContents:
    """The offsets and times of some logs' batches that pass their checksums."""

    n_records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    oldest_ms: int | None = None
    newest_ms: int | None = None

    def add_log(self, file: InputFile) -> None:
        """Add a log; raises InputError."""
        with open_checked_log(file, read_ahead=True) as log:
            for block in log.blocks:
                batches = block.batches.select_rows(block.batches.crc_valid == 1)
                if not len(batches):
                    continue
                self.n_records += int(np.maximum(batches.records_count, 0).sum())
                first_offset, last_offset = (
                    int(batches.base_offset[0]),
                    int(batches.last_offset.max()),
                )
                times = batches.max_timestamp[batches.max_timestamp >= 0]
                self._widen(first_offset, last_offset, times.tolist())

    def _widen(self, first_offset: int, last_offset: int, times: list[int]) -> None:
        known_offsets = [
            offset for offset in (self.first_offset, self.last_offset) if offset is not None
        ]
        self.first_offset = min([first_offset, *known_offsets])
        self.last_offset = max([last_offset, *known_offsets])
        known_times = [*times, *(t for t in (self.oldest_ms, self.newest_ms) if t is not None)]
        if known_times:
            self.oldest_ms, self.newest_ms = min(known_times), max(known_times)


def describe_empty_answer(logs: Iterable[InputFile], options: RecordSelectionOptions) -> str:
    """Why a selection matches no record in some logs, and what these logs contain; empty if
    unknown."""
    distinct_logs = list({log.path: log for log in logs if log.kind is LOG_KIND}.values())
    if not distinct_logs or sum(map(file_size, distinct_logs)) > MAX_DESCRIBED_BYTES:
        return ""
    contents = LogContents()
    try:
        for log in distinct_logs:
            contents.add_log(log)
    except InputError:
        return ""
    subject = "this log has" if len(distinct_logs) == 1 else "these logs have"
    if contents.first_offset is None:
        return f"no record: {subject} none"
    selection = options.selection_options.selection
    offsets_text = f"{subject} offsets {contents.first_offset}–{contents.last_offset}"
    reason = (
        _describe_bounds(contents, selection, offsets_text)
        or _describe_pattern("key", options.key)
        or _describe_pattern("value", options.value)
    )
    if reason:
        return reason
    offsets_range = f"{contents.first_offset}–{contents.last_offset}"
    records_text = format_count(contents.n_records, "record")
    return f"none of {records_text}, offsets {offsets_range}, is selected"


def _describe_bounds(contents: LogContents, selection: Selection, offsets_text: str) -> str:
    assert contents.first_offset is not None
    assert contents.last_offset is not None
    first_offset, last_offset = selection.first_offset, selection.last_offset
    if first_offset is not None and first_offset > contents.last_offset:
        return f"no record from offset {first_offset} on; {offsets_text}"
    if last_offset is not None and last_offset < contents.first_offset:
        return f"no record up to offset {last_offset}; {offsets_text}"
    if contents.oldest_ms is None or contents.newest_ms is None:
        return ""
    records_text = f"0 of {format_count(contents.n_records, 'record')} are"
    first_ms, last_ms = selection.first_time, selection.last_time
    if first_ms is not None and first_ms > contents.newest_ms:
        newest = format_time(contents.newest_ms)[:19]
        return f"{records_text} from {format_time(first_ms)[:19]} on; the newest is of {newest}"
    if last_ms is not None and last_ms < contents.oldest_ms:
        oldest = format_time(contents.oldest_ms)[:19]
        return f"{records_text} up to {format_time(last_ms)[:19]}; the oldest batch is of {oldest}"
    return ""


def _describe_pattern(name: str, pattern: str | None) -> str:
    """A message that a shell pattern was taken as text; empty for any other pattern."""
    if pattern is None or pattern.startswith("~") or not set("*?%") & set(pattern):
        return ""
    fixed_text = pattern.rstrip("*?%")
    expression = f"~^{fixed_text}" if fixed_text and not set("*?%") & set(fixed_text) else "~REGEX"
    return f"no {name} is {pattern!r}; for a pattern: --{name} '{expression}'"
