"""compaction: predicts one cleaning of each partition and explains why a key is still there."""

from __future__ import annotations

from dataclasses import dataclass, field

from kfmt_cli.broker.log_cleaner import CleanerSegment, CleaningCounts, compute_dirty_range
from kfmt_cli.broker.start.checkpoints import CLEANER_CHECKPOINT, LOG_START_CHECKPOINT
from kfmt_cli.broker.topic_settings import TopicSettings
from kfmt_cli.broker.transactions.transaction import Transaction
from kfmt_cli.broker.transactions.transactions import TransactionTracker
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.compaction.cleaning_run import CleanerLogFacts, CleaningSimulation
from kfmt_cli.commands.compaction.key_records import report_other_key_forms, show_key_records
from kfmt_cli.commands.compaction.lines import (
    CLEANUP_POLICY_SETTING,
    SKIPPED_REASON,
    cleaning_lines,
)
from kfmt_cli.commands.compaction.options import CompactionOptions
from kfmt_cli.commands.each_partition import for_each_partition, iter_log_blocks
from kfmt_cli.commands.retention.command import read_segment_facts
from kfmt_cli.commands.settings_resolver import (
    DEFAULT_SOURCE,
    TopicSettingsResolver,
    settings_with_sources,
)
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.times import current_time_ms
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import FindingCollector, has_errors
from kfmt_cli.options.selection import parse_bytes_pattern
from kfmt_cli.rows.documents import COMPACTION_ROW
from kfmt_cli.topics import CLUSTER_METADATA

_CLEANER_SETTING_NAMES = (
    CLEANUP_POLICY_SETTING,
    "min.cleanable.dirty.ratio",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "max.decompressed.message.bytes",
)


@dataclass(slots=True)
class CompactionCommand:
    """One call of `compaction`."""

    run: CommandRun
    options: CompactionOptions
    _n_records_of_key: int | None = None
    """Number of records of the key; None if no partition was read."""
    _now_ms: int = field(init=False)
    _settings_resolver: TopicSettingsResolver = field(init=False)
    _key: bytes | None = None
    """Show only the records of this key."""
    _cleans_only_picked: bool = field(init=False)
    """Whether to clean only partitions that the broker would pick."""

    def execute(self) -> None:
        """Show the predicted cleaning of the partitions under some paths; raises UsageError."""
        settings = self.options.topic_settings
        self._settings_resolver = TopicSettingsResolver.from_options(self.options.config, settings)
        self._cleans_only_picked = "min_cleanable_ratio" in settings
        self._now_ms = current_time_ms(self.options.now)
        if self.options.key is not None:
            self._key = parse_bytes_pattern("--key", self.options.key)
        for_each_partition(self.run, self.options.paths, self._show_partition, shows_progress=True)
        if self._n_records_of_key == 0:
            self.run.sink.write_hint("not found")
            self.run.output.raise_exit_code(ExitCode.FINDINGS)

    def _show_partition(self, partition: Partition) -> None:
        log_directory, topic_partition, settings = self._settings_resolver.read_partition_settings(
            partition, self.run.report_input_error
        )
        log_facts, options = self._read_log_facts(partition), self.options
        segment_facts, _ = read_segment_facts(partition, log_directory)
        log_facts.extend_log_end(segment_facts[-1].end_offset)
        cleaner_segments = [
            CleanerSegment(
                segment.base_offset,
                segment.size,
                segment.largest_timestamp,
                log_facts.first_timestamp_by_base_offset.get(segment.base_offset),
            )
            for segment in segment_facts
        ]
        dirty_range = compute_dirty_range(
            cleaner_segments,
            log_directory.offsets_by_checkpoint.get(CLEANER_CHECKPOINT, {}).get(topic_partition),
            max(
                log_directory.checkpoint_offset(LOG_START_CHECKPOINT, topic_partition),
                cleaner_segments[0].base_offset,
            ),
            log_facts.log_end_offset,
            log_facts.last_stable_offset,
            settings.min_compaction_lag_ms,
            settings.max_compaction_lag_ms,
            self._now_ms,
        )
        simulation = CleaningSimulation(
            *(partition, log_facts, dirty_range, settings, self._now_ms),
            *(options.offsets, options.dedupe_buffer_bytes, options.decompression_limit),
        )
        never_cleaned_reason = (
            self._never_cleaned_reason(partition, log_facts, settings)
            or simulation.find_oversized_record_reason()
        )
        is_picked = never_cleaned_reason is None and (
            dirty_range.is_forced or dirty_range.dirty_ratio > settings.min_cleanable_ratio
        )
        if self._key is not None:
            uncleaned_reason = never_cleaned_reason or (
                SKIPPED_REASON if self._cleans_only_picked and not is_picked else None
            )
            limit = options.decompression_limit
            shown = self.run, partition, self._key
            n_records = show_key_records(*shown, dirty_range, uncleaned_reason, limit)
            report_other_key_forms(*shown, limit)
            self._n_records_of_key = (self._n_records_of_key or 0) + n_records
            return
        is_cleaned = (
            never_cleaned_reason is None
            and dirty_range.dirty_bytes > 0
            and (is_picked or not self._cleans_only_picked)
        )
        cleaning_counts = (
            simulation.clean_partition() if is_cleaned else simulation.count_uncleaned_records()
        )
        self._show_cleaning(simulation, cleaning_counts, is_picked, never_cleaned_reason)

    def _never_cleaned_reason(
        self, partition: Partition, log_facts: CleanerLogFacts, settings: TopicSettings
    ) -> str | None:
        """The reason why the cleaner never cleans a partition, whatever its dirty ratio; None if it
        may clean it."""
        if partition.topic_partition[0] == CLUSTER_METADATA:
            return "the metadata log is trimmed by snapshots, never by the log cleaner"
        source_by_field = self._settings_resolver.setting_sources(partition)
        is_policy_known = (
            self._settings_resolver.has_metadata_log(partition.log_directory)
            or "cleanup_policy" in source_by_field
        )
        if is_policy_known and not settings.has_compact_policy:
            source = source_by_field.get("cleanup_policy", DEFAULT_SOURCE)
            policy = ",".join(sorted(settings.cleanup_policy))
            return (
                f"{CLEANUP_POLICY_SETTING} is {policy} ({source}): the cleaner ignores this "
                "partition"
            )
        if log_facts.is_damaged:
            return (
                "the log is damaged: the cleaner fails, marks the partition as uncleanable and "
                "removes nothing"
            )
        return None

    def _read_log_facts(self, partition: Partition) -> CleanerLogFacts:
        """Read the batch headers of all logs, reporting their findings."""
        log_facts, transaction_tracker = (
            CleanerLogFacts(),
            TransactionTracker(partition.logs, self.options.paths),
        )
        ended_transactions: list[Transaction] = []
        collector = FindingCollector(self.run.max_findings)
        for file, block in iter_log_blocks(partition.logs):
            log_facts.is_damaged |= has_errors(block.findings)
            self.run.report_findings(block.findings, collector)
            batches = block.batches
            log_facts.is_damaged |= bool((batches.crc_valid == 0).any())
            if len(batches):
                log_facts.n_records += int(batches.records_count.clip(0).sum())
                first_timestamp = int(batches.max_timestamp[0])
                log_facts.first_timestamp_by_base_offset.setdefault(
                    file.base_offset_or_zero, first_timestamp
                )
            ended_transactions += transaction_tracker.process_block(block)
        ended_transactions += transaction_tracker.finish()
        log_facts.aborted_transactions = [
            (*transaction.aborted_range, transaction.producer_id)
            for transaction in ended_transactions
            if transaction.aborted_range is not None
        ]
        log_facts.last_stable_offset = transaction_tracker.last_stable_offset
        log_facts.log_end_offset = transaction_tracker.log_end_offset
        self.run.report_suppressed_findings(partition.name, collector)
        return log_facts

    def _show_cleaning(
        self,
        simulation: CleaningSimulation,
        cleaning_counts: CleaningCounts,
        is_picked: bool,
        never_cleaned_reason: str | None,
    ) -> None:
        partition = simulation.partition
        dirty_range = simulation.dirty_range
        settings = simulation.settings
        row = FieldDict(
            file=partition.name,
            cleanup_policy=sorted(settings.cleanup_policy),
            settings=settings_with_sources(
                settings, self._settings_resolver.setting_sources(partition), _CLEANER_SETTING_NAMES
            ),
            first_dirty_offset=dirty_range.first_dirty_offset,
            first_uncleanable_offset=dirty_range.first_uncleanable_offset,
            held_by=dirty_range.uncleanable_reason,
            clean_bytes=dirty_range.clean_bytes,
            dirty_bytes=dirty_range.dirty_bytes,
            dirty_ratio=round(dirty_range.dirty_ratio, 6),
            picked=is_picked and dirty_range.dirty_bytes > 0,
            never_because=never_cleaned_reason,
            passes=simulation.n_passes,
            records_kept=cleaning_counts.n_retained,
            records_removed=cleaning_counts.n_removed,
            replaced=cleaning_counts.n_replaced,
            without_key=cleaning_counts.n_keyless,
            of_aborted_transactions=cleaning_counts.n_aborted,
            tombstones_kept=cleaning_counts.n_retained_tombstones,
            markers_kept=cleaning_counts.n_retained_markers,
            next_delete_horizon=cleaning_counts.next_delete_horizon,
            segments_before=len(partition.logs),
            segments_after=simulation.count_cleaned_segments(),
            remaining_offsets=simulation.remaining_offsets if self.options.offsets else None,
        )
        lines = cleaning_lines(row, self.run.sink.streams.theme)
        self.run.sink.write_document(COMPACTION_ROW, row, lines)
