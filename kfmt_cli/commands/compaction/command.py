"""compaction: predicts one cleaning of each partition and explains why a key is still there."""

from __future__ import annotations

from dataclasses import dataclass, field

from kfmt_cli.broker.defaults import DEFAULT_DEDUPE_BUFFER_BYTES
from kfmt_cli.broker.log_cleaner import CleanerSegment, CleaningCounts, compute_dirty_range
from kfmt_cli.broker.start.log_directory_files import CLEANER_CHECKPOINT, LOG_START_CHECKPOINT
from kfmt_cli.broker.topic_settings import TopicSettings
from kfmt_cli.broker.transactions.transactions import TransactionTracker
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.compaction.cleaning_run import CleanerHistory, CleaningRun
from kfmt_cli.commands.compaction.key_records import show_key_records
from kfmt_cli.commands.compaction.lines import CLEANUP_POLICY_PREFIX, SKIPPED_REASON, cleaning_lines
from kfmt_cli.commands.each_partition import for_each_partition, read_log_blocks
from kfmt_cli.commands.retention.command import read_segment_times
from kfmt_cli.commands.settings_resolver import (
    FROM_DEFAULT,
    TopicSettingsResolver,
    settings_with_sources,
)
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import FindingCollector, has_errors
from kfmt_cli.rows.documents import COMPACTION_ROW
from kfmt_cli.topics import CLUSTER_METADATA

_CLEANER_SETTINGS = (
    CLEANUP_POLICY_PREFIX,
    "min.cleanable.dirty.ratio",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
)


@dataclass(slots=True)
class CompactionCommand:
    """One call of `compaction`."""

    run: CommandRun
    settings_resolver: TopicSettingsResolver
    now_ms: int
    shows_offsets: bool = False
    """Whether to list the offsets that are kept."""
    key: bytes | None = None
    """Show only the records of this key."""
    only_if_picked: bool = False
    """Whether to clean only partitions that the broker would pick."""
    buffer_bytes: int = DEFAULT_DEDUPE_BUFFER_BYTES
    """Size limit of the offset map in bytes."""
    limit: DecompressionLimit = field(default_factory=DecompressionLimit)
    _n_records_of_key: int | None = None
    """Number of records of the key; None if no partition was read."""

    def show_paths(self, paths: tuple[str, ...]) -> None:
        """Show the predicted cleaning of the partitions under some paths."""
        for_each_partition(self.run, paths, self._show_partition, shows_progress=True)
        if self._n_records_of_key == 0:
            self.run.sink.write_hint("not found")
            self.run.host.raise_exit_code(ExitCode.FINDINGS)

    def _show_partition(self, partition: Partition) -> None:
        log_directory, topic_partition, settings = self.settings_resolver.resolve_partition(
            partition, self.run.report_unreadable
        )
        cleaner_history = self._read_history(partition)
        segment_times, _ = read_segment_times(partition, log_directory)
        cleaner_history.raise_log_end(segment_times[-1].end_offset)
        segments = [
            CleanerSegment(
                segment.base_offset,
                segment.size,
                segment.largest_timestamp,
                cleaner_history.first_timestamp_by_base.get(segment.base_offset),
            )
            for segment in segment_times
        ]
        dirty_range = compute_dirty_range(
            segments,
            log_directory.offsets_by_checkpoint.get(CLEANER_CHECKPOINT, {}).get(topic_partition),
            max(
                log_directory.checkpoint_offset(LOG_START_CHECKPOINT, topic_partition),
                segments[0].base_offset,
            ),
            cleaner_history.log_end_offset,
            cleaner_history.last_stable_offset,
            settings.min_compaction_lag_ms,
            settings.max_compaction_lag_ms,
            self.now_ms,
        )
        never_reason = self._never_cleaned_reason(partition, cleaner_history, settings)
        is_picked = never_reason is None and (
            dirty_range.is_forced or dirty_range.ratio > settings.min_cleanable_ratio
        )
        if self.key is not None:
            uncleaned_reason = never_reason or (
                SKIPPED_REASON if self.only_if_picked and not is_picked else None
            )
            n_records = show_key_records(
                self.run, partition, self.key, dirty_range, uncleaned_reason, self.limit
            )
            self._n_records_of_key = (self._n_records_of_key or 0) + n_records
            return
        cleaning_run = CleaningRun(
            *(partition, cleaner_history, dirty_range, settings, self.now_ms),
            *(self.shows_offsets, self.buffer_bytes, self.limit),
        )
        is_cleaned = (
            never_reason is None
            and dirty_range.dirty_bytes > 0
            and (is_picked or not self.only_if_picked)
        )
        counts = cleaning_run.clean() if is_cleaned else cleaning_run.count_only()
        self._show_cleaning(cleaning_run, counts, is_picked, never_reason)

    def _never_cleaned_reason(
        self, partition: Partition, cleaner_history: CleanerHistory, settings: TopicSettings
    ) -> str | None:
        """The reason why the cleaner never cleans a partition, whatever its dirty ratio; None if it
        may clean it."""
        if partition.topic_partition[0] == CLUSTER_METADATA:
            return "the metadata log is trimmed by snapshots, never by the log cleaner"
        sources = self.settings_resolver.setting_sources(partition)
        is_policy_known = (
            self.settings_resolver.has_metadata_log(partition.log_directory)
            or "cleanup_policy" in sources
        )
        if is_policy_known and not settings.compacts:
            source = sources.get("cleanup_policy", FROM_DEFAULT)
            policy = ",".join(sorted(settings.cleanup_policy))
            return (
                f"{CLEANUP_POLICY_PREFIX} is {policy} ({source}): the cleaner ignores this "
                "partition"
            )
        if cleaner_history.is_damaged:
            return (
                "the log is damaged: the cleaner fails, marks the partition as uncleanable and "
                "removes nothing"
            )
        return None

    def _read_history(self, partition: Partition) -> CleanerHistory:
        """Read the batch headers of all logs, reporting their findings."""
        cleaner_history, transaction_tracker = CleanerHistory(), TransactionTracker()
        collector = FindingCollector(self.run.max_findings)
        for file, block in read_log_blocks(partition.logs):
            cleaner_history.is_damaged |= has_errors(block.findings)
            self.run.report_findings(block.findings, collector)
            batches = block.batches
            cleaner_history.is_damaged |= bool((batches.crc_valid == 0).any())
            if len(batches):
                cleaner_history.n_records += int(batches.records_count.clip(0).sum())
                first_timestamp = int(batches.max_timestamp[0])
                cleaner_history.first_timestamp_by_base.setdefault(
                    file.base_or_zero, first_timestamp
                )
            for transaction in transaction_tracker.process_block(block):
                if transaction.aborted_offsets is not None:
                    cleaner_history.aborted_transactions.append(
                        (*transaction.aborted_offsets, transaction.producer_id)
                    )
        cleaner_history.last_stable_offset = transaction_tracker.last_stable_offset
        cleaner_history.log_end_offset = transaction_tracker.log_end
        self.run.report_suppressed(partition.name, collector)
        return cleaner_history

    def _show_cleaning(
        self,
        cleaning_run: CleaningRun,
        counts: CleaningCounts,
        is_picked: bool,
        never_reason: str | None,
    ) -> None:
        partition = cleaning_run.partition
        dirty_range = cleaning_run.dirty_range
        settings = cleaning_run.settings
        row = FieldDict(
            file=partition.name,
            cleanup_policy=sorted(settings.cleanup_policy),
            settings=settings_with_sources(
                settings, self.settings_resolver.setting_sources(partition), _CLEANER_SETTINGS
            ),
            first_dirty_offset=dirty_range.first_dirty_offset,
            first_uncleanable_offset=dirty_range.first_uncleanable_offset,
            held_by=dirty_range.why,
            clean_bytes=dirty_range.clean_bytes,
            dirty_bytes=dirty_range.dirty_bytes,
            dirty_ratio=round(dirty_range.ratio, 6),
            picked=is_picked and dirty_range.dirty_bytes > 0,
            never_because=never_reason,
            passes=cleaning_run.n_passes,
            records_kept=counts.retained,
            records_removed=counts.removed,
            replaced=counts.replaced,
            without_key=counts.keyless,
            of_aborted_transactions=counts.aborted,
            tombstones_kept=counts.tombstones,
            markers_kept=counts.markers,
            next_delete_horizon=counts.next_delete_horizon,
            segments_before=len(partition.logs),
            segments_after=cleaning_run.count_segments_after(),
            remaining_offsets=cleaning_run.remaining_offsets if self.shows_offsets else None,
        )
        lines = cleaning_lines(row, self.run.sink.out.theme)
        self.run.sink.write_document(COMPACTION_ROW, row, lines)
