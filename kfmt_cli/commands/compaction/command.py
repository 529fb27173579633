"""compaction: predicts one cleaning of each partition and explains why a key is still there."""

from __future__ import annotations

from dataclasses import dataclass, field

from kfmt_cli.broker.cleaning import CleanerSegment, Kept, dirty_of
from kfmt_cli.broker.defaults import DEDUPE_BUFFER_BYTES
from kfmt_cli.broker.start.own_files import CLEANER_OFFSETS, LOG_STARTS
from kfmt_cli.broker.topic_settings import TopicSettings
from kfmt_cli.broker.transactions.transactions import Transactions
from kfmt_cli.commands.compaction.cleaning import CleanerHistory, Cleaning
from kfmt_cli.commands.compaction.compaction_key import show_key
from kfmt_cli.commands.compaction.lines import POLICY, SKIPPED, cleaning_lines
from kfmt_cli.commands.each_partition import blocks_of, each_partition
from kfmt_cli.commands.log_settings import DEFAULT, SettingsOf, with_sources
from kfmt_cli.commands.retention.command import facts_of
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import Findings, has_errors
from kfmt_cli.rows.documents import COMPACTION
from kfmt_cli.topics import CLUSTER_METADATA

_DECIDING = (
    POLICY,
    "min.cleanable.dirty.ratio",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
)


@dataclass(slots=True)
class Compaction:
    """One call of `compaction`."""

    run: Run
    settings: SettingsOf
    now: int
    offsets: bool = False
    """List the offsets that are kept."""
    key: bytes | None = None
    """Show only the records of this key."""
    insists: bool = False
    """Clean only partitions that the broker would pick."""
    buffer_bytes: int = DEDUPE_BUFFER_BYTES
    """Size limit of the offset map in bytes."""
    limit: Limit = field(default_factory=Limit)
    _n_of_key: int | None = None
    """Number of records of the key; None if no partition was read."""

    def paths(self, paths: tuple[str, ...]) -> None:
        """Show the predicted cleaning of the partitions under some paths."""
        each_partition(self.run, paths, self._partition, reads_all=True)
        if self._n_of_key == 0:
            self.run.sink.remark("not found")
            self.run.host.reached(ExitCode.FINDINGS)

    def _partition(self, partition: Partition) -> None:
        directory, place, settings = self.settings.around(partition, self.run.complain)
        history = self._history(partition)
        facts, _ = facts_of(partition, directory)
        history.reaches(facts[-1].end)
        segments = [
            CleanerSegment(of.base_offset, of.size, of.largest, history.firsts.get(of.base_offset))
            for of in facts
        ]
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
        never = self._never(partition, history, settings)
        picked = never is None and (dirty.forced or dirty.ratio > settings.min_cleanable_ratio)
        if self.key is not None:
            why = never or (SKIPPED if self.insists and not picked else None)
            n_found = show_key(self.run, partition, self.key, dirty, why, self.limit)
            self._n_of_key = (self._n_of_key or 0) + n_found
            return
        cleaning = Cleaning(
            *(partition, history, dirty, settings, self.now),
            *(self.offsets, self.buffer_bytes, self.limit),
        )
        cleans = never is None and dirty.dirty_bytes > 0 and (picked or not self.insists)
        told = cleaning.clean() if cleans else cleaning.leave()
        self._show(cleaning, told, picked, never)

    def _never(
        self, partition: Partition, history: CleanerHistory, settings: TopicSettings
    ) -> str | None:
        """Why the cleaner never cleans a partition, whatever its dirty ratio; None if it may."""
        if partition.place[0] == CLUSTER_METADATA:
            return "the metadata log is trimmed by snapshots, never by the log cleaner"
        sources = self.settings.sources(partition)
        is_known = self.settings.knows(partition.log_directory) or "cleanup_policy" in sources
        if is_known and not settings.compacts:
            source = sources.get("cleanup_policy", DEFAULT)
            policy = ",".join(sorted(settings.cleanup_policy))
            return f"{POLICY} is {policy} ({source}): the cleaner ignores this partition"
        if history.is_damaged:
            return (
                "the log is damaged: the cleaner fails, marks the partition as uncleanable and "
                "removes nothing"
            )
        return None

    def _history(self, partition: Partition) -> CleanerHistory:
        """Read the batch headers of all logs, reporting their findings."""
        found, following = CleanerHistory(), Transactions()
        findings = Findings(self.run.most_findings)
        for file, block in blocks_of(partition.logs):
            found.is_damaged |= has_errors(block.findings)
            self.run.tell(block.findings, findings)
            batches = block.batches
            found.is_damaged |= bool((batches.crc_valid == 0).any())
            if len(batches):
                found.records += int(batches.records_count.clip(0).sum())
                first = int(batches.max_timestamp[0])
                found.firsts.setdefault(file.base, first)
            for transaction in following.take(block):
                if transaction.aborted is not None:
                    found.aborted.append((*transaction.aborted, transaction.producer_id))
        found.stable, found.log_end = following.last_stable_offset, following.log_end
        self.run.left_out(partition.name, findings)
        return found

    def _show(self, cleaning: Cleaning, told: Kept, picked: bool, never: str | None) -> None:
        partition, dirty, settings = cleaning.partition, cleaning.dirty, cleaning.settings
        row = Fields(
            file=partition.name,
            cleanup_policy=sorted(settings.cleanup_policy),
            settings=with_sources(settings, self.settings.sources(partition), _DECIDING),
            first_dirty_offset=dirty.first,
            first_uncleanable_offset=dirty.end,
            held_by=dirty.why,
            clean_bytes=dirty.clean_bytes,
            dirty_bytes=dirty.dirty_bytes,
            dirty_ratio=round(dirty.ratio, 6),
            picked=picked and dirty.dirty_bytes > 0,
            never_because=never,
            passes=cleaning.passes,
            records_kept=told.kept,
            records_removed=told.removed,
            replaced=told.replaced,
            without_key=told.keyless,
            of_aborted_transactions=told.aborted,
            tombstones_kept=told.tombstones,
            markers_kept=told.markers,
            next_delete_horizon=told.horizon,
            segments_before=len(partition.logs),
            segments_after=cleaning.segments_after(),
            remaining_offsets=cleaning.remaining if self.offsets else None,
        )
        lines = cleaning_lines(row, self.run.sink.out.theme)
        self.run.sink.document(COMPACTION, row, lines)
