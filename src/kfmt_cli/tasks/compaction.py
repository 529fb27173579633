"""compaction: what one cleaning of each partition would keep, and why a key is still here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kfmt_cli.broker.cleaning import (
    Aborted,
    CleanerSegment,
    Dirty,
    Kept,
    Rules,
    TransactionsSeen,
    dirty_of,
    fill,
    keeps,
)
from kfmt_cli.broker.offset_map import DEDUPE_BUFFER, OffsetMap
from kfmt_cli.broker.start.checkpoints import LOG_STARTS
from kfmt_cli.broker.start.directory import CLEANER_OFFSETS, LogDirectory, directory_at
from kfmt_cli.broker.topic_settings import TopicSettings
from kfmt_cli.broker.transactions import Transactions
from kfmt_cli.checks.log.opened import open_checked
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.finding import Findings
from kfmt_cli.core.layout import IntArray
from kfmt_cli.core.source import open_source
from kfmt_cli.core.table import BoolArray
from kfmt_cli.core.times import time_text
from kfmt_cli.errors import InputError
from kfmt_cli.files.block import Block, runs
from kfmt_cli.files.decoding import read_records
from kfmt_cli.files.decompress import decompress_ahead
from kfmt_cli.files.kinds.kind import Input
from kfmt_cli.files.log import LogReader
from kfmt_cli.files.names import place_of
from kfmt_cli.files.records import Records
from kfmt_cli.files.shown import complete
from kfmt_cli.render.style import count, grouped, safe
from kfmt_cli.tasks.compaction_key import show_key
from kfmt_cli.tasks.log_settings import SettingsOf
from kfmt_cli.tasks.partitions import LogFiles, partitions_below
from kfmt_cli.tasks.retention import active_of, facts_of
from kfmt_cli.tasks.run import Run

Ranges = list[list[int]]


@dataclass(slots=True)
class History:
    """What the batches of a partition tell: aborted transactions, the last stable offset and the
    log's end, and the timestamp of each log's first batch."""

    aborted: list[Aborted] = field(default_factory=list)
    stable: int = 0
    log_end: int = 0
    firsts: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Compaction:
    """One call of `compaction`. offsets: what stays is listed. key: only its records are shown.
    insists: a partition that the broker would not pick is not cleaned. buffer_bytes: of the map."""

    run: Run
    settings: SettingsOf
    now: int
    offsets: bool = False
    key: bytes | None = None
    insists: bool = False
    buffer_bytes: int = DEDUPE_BUFFER
    limit: Limit = field(default_factory=Limit)
    _directories: dict[Path, LogDirectory] = field(default_factory=dict)

    def paths(self, paths: tuple[str, ...]) -> None:
        """Show what the cleaner would make of the partitions below some paths."""
        for partition in partitions_below(paths, self.run.complain):
            try:
                self._partition(partition)
            except InputError as error:
                self.run.complain(str(error))
        self.run.sink.flush()

    def _partition(self, partition: LogFiles) -> None:
        beside = partition.folder.parent
        if beside not in self._directories:
            self._directories[beside] = directory_at(beside)
        directory = self._directories[beside]
        topic, number = place_of(partition.folder.name)
        settings = self.settings.of(topic, beside)
        place = (topic or "", number or 0)
        history = self._history(partition)
        active, end = active_of(partition.logs[-1])
        segments = []
        for i, file in enumerate(partition.logs):
            facts = facts_of(file, partition.logs[i + 1 :], end, active, directory)
            base = file.base_offset or 0
            segments.append(
                CleanerSegment(base, facts.size, facts.largest, history.firsts.get(base))
            )
        dirty = dirty_of(
            segments,
            directory.offsets.get(CLEANER_OFFSETS, {}).get(place),
            max(directory.offset(LOG_STARTS, place), segments[0].base),
            history.log_end,
            history.stable,
            settings.min_compaction_lag_ms,
            settings.max_compaction_lag_ms,
            self.now,
        )
        if self.key is not None:
            show_key(self.run, partition, self.key, dirty, self.limit)
            return
        cleaning = Cleaning(self, partition, history, dirty, settings)
        picked = dirty.forced or dirty.ratio > settings.min_cleanable_ratio
        cleans = dirty.dirty_bytes > 0 and (picked or not self.insists)
        told = cleaning.clean() if cleans else cleaning.leave()
        self._show(partition, dirty, told, cleaning, picked, settings)

    def _history(self, partition: LogFiles) -> History:
        """One look at the headers of all logs."""
        found, following = History(), Transactions()
        findings = Findings(self.run.most_findings)
        for file in partition.logs:
            with open_checked(file, read_ahead=True) as log:
                for block in log.blocks:
                    for finding in block.findings:
                        self.run.tell(finding, findings)
                    batches = block.batches
                    if len(batches):
                        first = int(batches["max_timestamp"][0])
                        found.firsts.setdefault(file.base_offset or 0, first)
                    for it in following.take(block):
                        if it.outcome == "aborted" and None not in (it.first_offset, it.marker):
                            aborted = it.first_offset or 0, it.marker or 0, it.producer_id
                            found.aborted.append(aborted)
        found.stable, found.log_end = following.last_stable_offset, following.log_end
        self.run.left_out(partition.name, findings)
        return found

    def _show(
        self,
        partition: LogFiles,
        dirty: Dirty,
        told: Kept,
        cleaning: Cleaning,
        picked: bool,
        settings: TopicSettings,
    ) -> None:
        row: dict[str, object] = {
            "file": partition.name,
            "cleanup_policy": sorted(settings.policy),
            "first_dirty_offset": dirty.first,
            "first_uncleanable_offset": dirty.end,
            "held_by": dirty.why,
            "clean_bytes": dirty.clean_bytes,
            "dirty_bytes": dirty.dirty_bytes,
            "dirty_ratio": round(dirty.ratio, 6),
            "picked": picked and dirty.dirty_bytes > 0,
            "passes": cleaning.passes,
            "records_kept": told.kept,
            "records_removed": told.removed,
            "replaced": told.replaced,
            "without_key": told.keyless,
            "of_aborted_transactions": told.aborted,
            "tombstones_kept": told.tombstones,
            "markers_kept": told.markers,
            "next_delete_horizon": told.horizon,
            "segments_before": len(partition.logs),
            "segments_after": cleaning.segments_after(settings),
            "remaining_offsets": cleaning.remaining if self.offsets else None,
        }
        self.run.sink.document("compaction", row, self._lines(partition, dirty, told, row))

    def _lines(
        self, partition: LogFiles, dirty: Dirty, told: Kept, row: dict[str, object]
    ) -> Iterator[str]:
        theme = self.run.sink.out.theme
        yield f"{theme.paint('bold', safe(partition.name))}   clean up to offset {dirty.first}, "
        yield f"dirty up to {dirty.end}: {dirty.why} holds what follows\n"
        total = dirty.clean_bytes + dirty.dirty_bytes
        will = "the broker would pick it" if row["picked"] else "the broker leaves it alone for now"
        yield (
            f"   {grouped(dirty.dirty_bytes)} of {grouped(total)} bytes are dirty, "
            f"ratio {dirty.ratio:.2f}: {will}\n"
        )
        kept = count(told.kept, "record")
        yield (
            f"   a cleaning keeps {kept} and removes {grouped(told.removed)}: "
            f"{grouped(told.replaced)} replaced or deleted, {grouped(told.keyless)} without a key, "
            f"{grouped(told.aborted)} of aborted transactions\n"
        )
        if told.tombstones or told.markers:
            when = "a delete horizon is set by the next cleaning"
            if told.horizon is not None:
                when = f"the first may go at {time_text(told.horizon)[:19]}"
            tombstones = count(told.tombstones, "tombstone")
            yield f"   {tombstones} and {count(told.markers, 'marker')} stay; {when}\n"
        yield (
            f"   {count(len(partition.logs), 'segment')} become {row['segments_after']}, "
            f"in {count(int(str(row['passes'])), 'pass', 'passes')}\n"
        )
        if self.offsets:
            remaining = row["remaining_offsets"]
            assert isinstance(remaining, list)
            for first, last in remaining:
                yield f"   {first}\n" if first == last else f"   {first}–{last}\n"


@dataclass(slots=True)
class Cleaning:
    """A cleaning of one partition, which changes nothing. passes: that it took."""

    task: Compaction
    partition: LogFiles
    history: History
    dirty: Dirty
    settings: TopicSettings
    passes: int = 0
    remaining: Ranges = field(default_factory=list)
    _sizes: dict[int, int] = field(default_factory=dict)

    def leave(self) -> Kept:
        """Nothing is cleaned."""
        told = Kept()
        for file in self.partition.logs:
            self._whole(file, told)
        return told

    def clean(self) -> Kept:
        """Clean up to where that can be done, in as many passes as the map of keys makes it."""
        start, end = self.dirty.first, self.dirty.end
        masks: dict[int, BoolArray] = {}
        told = Kept()
        while True:
            self.passes += 1
            map_ = self._map(start, end)
            reached = min(map_.latest_offset + 1, end)
            is_last = reached >= end or reached <= start
            told = Kept()
            self.remaining = []
            seen = TransactionsSeen(())
            waiting = sorted(self.history.aborted)
            for i, file in enumerate(self.partition.logs):
                base = file.base_offset or 0
                if base >= reached:
                    if is_last:
                        self._whole(file, told)
                    continue
                upper = self._next_base(i)
                while waiting and waiting[0][0] < upper:
                    seen.expect(waiting.pop(0))
                rules = Rules(map_, self.task.now, self._keeps_legacy(file))
                masks[base] = self._filter(file, rules, seen, told, masks.get(base), is_last)
            if is_last:
                return told
            start = reached

    def _next_base(self, i: int) -> int:
        logs = self.partition.logs
        return (logs[i + 1].base_offset or 0) if i + 1 < len(logs) else 1 << 62

    def _keeps_legacy(self, file: Input) -> bool:
        """Whether tombstones of magic 0 and 1 in a log are not due."""
        clean = [it for it in self.partition.logs if (it.base_offset or 0) < self.dirty.first]
        horizon = 0
        if clean and self.dirty.first > 0:
            horizon = _modified(clean[-1]) - self.settings.delete_retention_ms
        return _modified(file) > horizon

    def _map(self, start: int, end: int) -> OffsetMap:
        """The latest offset of each key in the dirty part, as far as there is room."""
        map_ = OffsetMap(self.task.buffer_bytes)
        seen = TransactionsSeen(it for it in self.history.aborted if it[1] >= start)
        logs = self.partition.logs
        for i, file in enumerate(logs):
            base = file.base_offset or 0
            if base >= end or self._next_base(i) <= start:
                continue
            for run, records in self._records(file):
                if not fill(map_, run, records, seen.discards(run), start):
                    return map_
            map_.latest_offset = max(map_.latest_offset, min(self._next_base(i), end) - 1)
        return map_

    def _filter(
        self,
        file: Input,
        rules: Rules,
        seen: TransactionsSeen,
        told: Kept,
        before: BoolArray | None,
        is_last: bool,
    ) -> BoolArray:
        """Which records of a log stay after this pass and those before it."""
        masks: list[BoolArray] = []
        at = 0
        for run, records in self._records(file):
            stays = keeps(run, records, seen.discards(run), rules, told)
            if before is not None:
                held = before[at : at + len(stays)]
                told.kept -= int((stays & ~held).sum())
                told.removed += int((stays & ~held).sum())
                stays &= held
            at += len(stays)
            masks.append(stays)
            if is_last:
                self._note(file, records, stays)
        return np.concatenate(masks) if masks else np.zeros(0, np.bool_)

    def _whole(self, file: Input, told: Kept) -> None:
        """A log that is left alone."""
        if not self.task.offsets:
            source = open_source(file.path, file.name)
            try:
                for block in LogReader(source, file.base_offset, checked=False).blocks():
                    batches = block.batches
                    v2 = batches["is_v2"] == 1
                    told.kept += int(np.where(v2, batches["records_count"], 1).sum())
            finally:
                source.close()
            return
        for _, records in self._records(file):
            told.kept += len(records.rows)
            self._note(file, records, np.ones(len(records.rows), np.bool_))

    def _note(self, file: Input, records: Records, stays: BoolArray) -> None:
        """Note what stays: its offsets, and about how many bytes."""
        base = file.base_offset or 0
        sizes = records.rows["key_size"].clip(0) + records.rows["value_size"].clip(0) + 10
        self._sizes[base] = self._sizes.get(base, 0) + int(sizes[stays].sum())
        if not self.task.offsets:
            return
        offsets: IntArray = records.rows["offset"][stays]
        if not len(offsets):
            return
        breaks = np.flatnonzero(np.diff(offsets) != 1)
        firsts = np.concatenate([offsets[:1], offsets[breaks + 1]]).tolist()
        lasts = np.concatenate([offsets[breaks], offsets[-1:]]).tolist()
        for first, last in zip(firsts, lasts, strict=True):
            if self.remaining and first == self.remaining[-1][1] + 1:
                self.remaining[-1][1] = last
            else:
                self.remaining.append([first, last])

    def _records(self, file: Input) -> Iterator[tuple[Block, Records]]:
        """The records of a log, undamaged batches only."""
        source = open_source(file.path, file.name)
        try:
            for block in LogReader(source, file.base_offset, True, checked=False).blocks():
                for part in decompress_ahead(block, self.task.limit):
                    for run in runs(part):
                        records = read_records(run, self.task.limit)
                        if not run.batches["is_v2"].all():
                            complete(run, records)
                        yield run, records
        finally:
            source.close()

    def segments_after(self, settings: TopicSettings) -> int:
        """How many segments are left: cleaned ones that fit together become one.

        Source: `kafka.log.Cleaner.groupSegmentsBySize`, which goes by the sizes before.
        """
        if not self.passes:
            return len(self.partition.logs)
        n, size, first = 0, 0, None
        for file in self.partition.logs:
            base, n_bytes = file.base_offset or 0, os.stat(file.path).st_size  # noqa: PTH116
            if base >= self.dirty.end:
                n, size, first = n + 1, 0, None
                continue
            fits = size + n_bytes <= settings.segment_bytes
            if first is None or not fits or base - first >= 1 << 31:
                n, size, first = n + 1, 0, base
            size += n_bytes
        return n


def _modified(file: Input) -> int:
    """When a file was last changed, in milliseconds."""
    with suppress(OSError):
        return os.stat(file.path).st_mtime_ns // 1_000_000  # noqa: PTH116 (many)
    return 0
