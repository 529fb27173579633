"""replay: sends the records of partitions on disks to a live cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.each_partition import LogStartReporter, show_read_progress
from kfmt_cli.commands.replay.groups import read_committed_offsets
from kfmt_cli.commands.replay.lines import format_group_line, format_partition_line
from kfmt_cli.commands.replay.options import ReplayOptions
from kfmt_cli.commands.replay.sources import (
    RecordChunk,
    ReplaySource,
    ReplaySourceReader,
    find_sources,
    split_chunks,
)
from kfmt_cli.commands.replay.state_file import ReplaySourceState, ReplayState, load_replay_state
from kfmt_cli.commands.replay.topic_plans import (
    DEFAULT_REPLICATION_FACTOR,
    TopicPlan,
    create_topic_plans,
)
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.disk.partitions import Partition, find_partitions
from kfmt_cli.errors import InputError, OutputError
from kfmt_cli.findings.finding import FindingCollector
from kfmt_cli.render.style import escape_unprintable, format_count
from kfmt_cli.rows.documents import REPLAYED_GROUP_ROW, REPLAYED_ROW

if TYPE_CHECKING:
    from kfmt_cli.commands.replay.cluster import ClusterClient
    from kfmt_cli.commands.replay.sender import GroupOffsetTranslator, ReplaySender

# After this time or this many records, wait for acknowledgements and write the state file.
SAVE_INTERVAL_SECONDS, MAX_PENDING_RECORDS = 2.0, 100_000
MAX_CHUNK_RECORDS = 20_000  # records between two checks of these limits


@dataclass(slots=True)
class _PartitionProgress:
    """The progress of this run with one partition."""

    reader: ReplaySourceReader
    source_state: ReplaySourceState
    """The acknowledged progress of the partition over all runs."""
    resumed_at: int
    """The offset at which this run began."""
    finding_collector: FindingCollector
    records: int = 0
    bytes: int = 0
    already_there: int = 0
    first_offset: int | None = None
    last_offset: int | None = None

    def count_chunk(self, chunk: RecordChunk, n_arrived_records: int) -> None:
        """Count the records of a chunk. n_arrived_records: records of it that had arrived
        before."""
        self.records += len(chunk) - n_arrived_records
        self.already_there += n_arrived_records
        self.bytes += chunk.n_bytes
        if self.first_offset is None:
            self.first_offset = int(chunk.offsets[0])
        self.last_offset = int(chunk.offsets[-1])


@dataclass(slots=True)
class ReplayCommand:
    """One run of `kfmt replay`."""

    run: CommandRun
    options: ReplayOptions
    _n_reported_records: int = 0
    _completed_source_names: set[str] = field(default_factory=set)
    _start_notes: LogStartReporter = field(init=False)
    _sources: list[ReplaySource] = field(default_factory=list)
    _topic_by_source: dict[str, str] = field(default_factory=dict)
    """The topic in the cluster, by the name of the source."""
    _group_commits: list[FieldDict] = field(default_factory=list)
    """Offsets that groups had committed in the partitions to replay."""
    _state: ReplayState = field(init=False)
    _cluster: ClusterClient = field(init=False)

    def execute(self) -> None:
        """Replay the partitions under some paths; raises UsageError, NotFoundError, OutputError."""
        run = self.run
        self._start_notes = LogStartReporter(run)
        partitions = find_partitions(
            self.options.paths, run.report_input_error, run.sink.write_to_stderr
        )
        if not partitions:
            return
        self._sources = find_sources(partitions, self.options.topic, self.options.as_topic)
        self._topic_by_source = {source.name: source.target_topic for source in self._sources}
        plan_by_topic = create_topic_plans(self._sources, partitions, run.report_input_error)
        self._group_commits = self._find_group_commits(partitions)
        start_seconds = time.monotonic()
        logs = [log for source in self._sources for log in source.partition.logs]
        with show_read_progress(run, [*logs, *logs]):  # transactions first, then records
            if self.options.dry_run:
                self._preview_sources(plan_by_topic)
            else:
                self._replay_to_cluster(plan_by_topic)
        count_text = format_count(self._n_reported_records, "record")
        if self.options.dry_run:
            run.sink.write_hint(f"{count_text} to be sent; nothing was sent")
        else:
            seconds = time.monotonic() - start_seconds
            run.sink.write_hint(f"{count_text} sent and acknowledged in {seconds:.1f} s")

    def _find_group_commits(self, partitions: Iterable[Partition]) -> list[FieldDict]:
        """The offsets that groups had committed in the partitions to replay."""
        if not self.options.groups:
            return []
        commits = read_committed_offsets(self.run, partitions, self.options.decompression_limit)
        if not commits:
            message = "no group has committed offsets in __consumer_offsets here"
            self.run.sink.write_to_stderr(f"{message}\n")
        return [commit for commit in commits if commit.source_name in self._topic_by_source]

    # Without a cluster.

    def _preview_sources(self, plan_by_topic: dict[str, TopicPlan]) -> None:
        replay_state = load_replay_state(self.options.state, "", self.options.resume_options)
        for source in self._sources:
            self._start_notes.report_partition_start(source.partition)
            source_state = replay_state.sources.get(source.name, ReplaySourceState())
            n_partitions = plan_by_topic[source.target_topic].n_partitions
            progress = self._create_progress(source, source_state, n_partitions)
            with self.run.catch_input_errors():
                for chunk in progress.reader.iter_chunks(progress.resumed_at):
                    progress.count_chunk(chunk, 0)
            self._report_partition(progress)
        for commit in self._group_commits:
            self._report_group_offset(commit, None, None)

    # With a cluster.

    def _replay_to_cluster(self, plan_by_topic: dict[str, TopicPlan]) -> None:
        from kfmt_cli.commands.replay.cluster import ClusterClient, read_client_settings

        client_settings = read_client_settings(self.options.producer_config)
        self._cluster = cluster = ClusterClient(
            self.options.bootstrap_server or "", client_settings
        )
        cluster.connect()
        self._state = load_replay_state(
            self.options.state, cluster.cluster_id, self.options.resume_options
        )
        for plan in plan_by_topic.values():
            self._ensure_topic(plan)
        end_offsets_by_topic = {name: self._state.targets.get(name, {}) for name in plan_by_topic}
        topic_partitions = [
            (topic, partition)
            for topic, partitions in end_offsets_by_topic.items()
            for partition in partitions
        ]
        log_end_offsets = (
            cluster.read_stable_log_end_offsets(topic_partitions) if topic_partitions else {}
        )
        for topic, topic_sources in groupby(self._sources, key=lambda source: source.target_topic):
            sender = self._create_sender(topic)
            try:
                self._send_topic(sender, list(topic_sources), log_end_offsets)
            finally:
                sender.discard_unsent_records()
        self._commit_group_offsets()

    def _ensure_topic(self, plan: TopicPlan) -> None:
        """Create a topic that is missing from the cluster; raises OutputError if an existing topic
        has too few partitions."""
        cluster = self._cluster
        n_existing_partitions = cluster.n_partitions_by_topic.get(plan.name)
        if n_existing_partitions is None:
            plan.adapt_to_brokers(cluster.n_brokers)
            cluster.create_topic(plan)
            message = f"created with {format_count(plan.n_partitions, 'partition')}"
            if plan.replication_factor != DEFAULT_REPLICATION_FACTOR:
                message += f", replication factor {plan.replication_factor}"
            message += "".join(f"; {difference}" for difference in plan.differences)
            self.run.sink.write_to_stderr(f"{escape_unprintable(plan.name)}: {message}\n")
            return
        max_partition = max(
            source.partition_index for source in self._sources if source.target_topic == plan.name
        )
        if max_partition >= n_existing_partitions and not self.options.by_key:
            message = (
                f"has {format_count(n_existing_partitions, 'partition')}, so partition "
                f"{max_partition} cannot be kept"
            )
            raise OutputError(
                f"{cluster.bootstrap_servers}: {plan.name}: {message}; add partitions or --by-key"
            )

    def _create_sender(self, topic: str) -> ReplaySender:
        from kfmt_cli.commands.replay.sender import ReplaySender

        cluster = self._cluster
        limits = cluster.read_topic_limits(topic)
        if not limits.keeps_timestamps:
            message = "message.timestamp.type is LogAppendTime, so timestamps are not kept"
            self.run.sink.write_to_stderr(f"{escape_unprintable(topic)}: {message}\n")
        return ReplaySender(
            cluster, topic, limits, cluster.create_producer(limits), self.options.rate
        )

    def _send_topic(
        self,
        sender: ReplaySender,
        sources: list[ReplaySource],
        log_end_offsets: Mapping[tuple[str, int], int],
    ) -> None:
        """Send the records of a topic, and report partitions that cannot be read. log_end_offsets:
        log end offsets of the partitions to which an earlier run has sent records."""
        self._record_log_end_offsets(sender, sources, log_end_offsets)
        for source in sources:
            self._start_notes.report_partition_start(source.partition)
            group_offsets = sorted(
                {
                    commit.offset
                    for commit in self._group_commits
                    if commit.source_name == source.name
                }
            )
            with self.run.catch_input_errors():
                self._send_source(source, sender, group_offsets)
                self._completed_source_names.add(source.name)

    def _record_log_end_offsets(
        self,
        sender: ReplaySender,
        sources: list[ReplaySource],
        log_end_offsets: Mapping[tuple[str, int], int],
    ) -> None:
        """Write the topic's log end offsets to the state file before anything is sent; after an
        earlier run, read back the records that have arrived without being acknowledged."""
        topic, cluster, state = sender.topic, self._cluster, self._state
        partitions = {source.partition_index for source in sources}
        if self.options.by_key:
            partitions = set(range(cluster.n_partitions_by_topic[topic]))
        known_end_offsets = state.targets.setdefault(topic, {})
        if self.options.by_key and known_end_offsets and set(known_end_offsets) != partitions:
            message = (
                f"has {format_count(len(partitions), 'partition')}, but an earlier run "
                f"saw {len(known_end_offsets)}"
            )
            raise OutputError(
                f"{cluster.bootstrap_servers}: {topic}: {message}; keys would change partitions"
            )
        for partition, known_end in known_end_offsets.items():
            log_end = log_end_offsets[topic, partition]
            if log_end < known_end:
                message = f"ends at offset {log_end}, before {known_end} of the state file"
                message += "; was the topic recreated?"
                raise OutputError(f"{cluster.bootstrap_servers}: {topic}-{partition}: {message}")
            sender.read_arrived_records(partition, known_end, log_end, 2 * MAX_PENDING_RECORDS)
        new_partitions = [
            (topic, partition) for partition in sorted(partitions - set(known_end_offsets))
        ]
        known_end_offsets |= {
            partition: end
            for (_, partition), end in cluster.read_log_end_offsets(new_partitions).items()
        }
        state.write_file()

    def _send_source(
        self, source: ReplaySource, sender: ReplaySender, group_offsets: list[int]
    ) -> None:
        """Send the records of a partition, continuing after an earlier run. Raises InputError once
        the records before the unreadable ones are acknowledged, OutputError."""
        from kfmt_cli.commands.replay.sender import GroupOffsetTranslator

        source_state = self._state.sources.setdefault(source.name, ReplaySourceState())
        is_first_run = source_state.target_offset is None
        remaining_group_offsets = [
            offset for offset in group_offsets if is_first_run or offset >= source_state.next_offset
        ]
        translator = GroupOffsetTranslator(
            [offset for offset in remaining_group_offsets if offset not in source_state.points],
            source_state.points,
        )
        progress = self._create_progress(
            source, source_state, self._cluster.n_partitions_by_topic[source.target_topic]
        )
        try:
            self._send_chunks(progress, sender, translator)
        except InputError:
            self._save_progress(progress, sender)
            self._report_partition(progress)
            raise
        except OutputError as error:
            position_text = (
                f"acknowledged before offset {source_state.next_offset} of {source.partition.name}"
            )
            raise OutputError(f"{error}; {position_text}") from None
        self._report_partition(progress)

    def _send_chunks(
        self, progress: _PartitionProgress, sender: ReplaySender, translator: GroupOffsetTranslator
    ) -> None:
        n_pending_records, last_save_seconds = 0, time.monotonic()
        rate = self.options.rate
        max_records = (
            MAX_CHUNK_RECORDS if rate is None else max(min(MAX_CHUNK_RECORDS, rate // 2), 1)
        )
        for chunk in split_chunks(progress.reader.iter_chunks(progress.resumed_at), max_records):
            first_offset = int(chunk.offsets[0])
            if progress.first_offset is None and first_offset not in [
                *translator.target_by_offset,
                *translator.pending_offsets,
            ]:
                translator.pending_offsets.insert(0, first_offset)
                translator.pending_offsets.sort()
            progress.count_chunk(chunk, sender.send_chunk(chunk, translator))
            n_pending_records += len(chunk)
            if (
                n_pending_records >= MAX_PENDING_RECORDS
                or time.monotonic() - last_save_seconds >= SAVE_INTERVAL_SECONDS
            ):
                self._save_progress(progress, sender)
                n_pending_records, last_save_seconds = 0, time.monotonic()
        self._save_progress(progress, sender)

    def _save_progress(self, progress: _PartitionProgress, sender: ReplaySender) -> None:
        """Wait until all records are acknowledged, and write the state file."""
        last_offset_by_partition = sender.await_acknowledgements()
        if progress.last_offset is None:
            return
        source, source_state = progress.reader.source, progress.source_state
        source_state.next_offset = progress.last_offset + 1
        if not self.options.by_key:
            source_state.target_offset = last_offset_by_partition.get(
                source.partition_index, source_state.target_offset
            )
        end_offset_by_partition = self._state.targets[source.target_topic]
        end_offset_by_partition.update(
            {
                partition: max(last_offset + 1, end_offset_by_partition[partition])
                for partition, last_offset in last_offset_by_partition.items()
            }
        )
        self._state.write_file()

    def _create_progress(
        self, source: ReplaySource, source_state: ReplaySourceState, n_target_partitions: int
    ) -> _PartitionProgress:
        """The progress of a partition from which this run has sent nothing yet.
        n_target_partitions: number of partitions of the topic in the cluster."""
        collector = FindingCollector(self.run.max_findings)
        n_partitions_for_keys = n_target_partitions if self.options.by_key else None
        reader = ReplaySourceReader(
            source,
            self.options.bounds,
            self.options.decompression_limit,
            n_partitions_for_keys,
            lambda finding: self.run.report_findings([finding], collector),
            self.run.sink.write_to_stderr,
            self.options.paths,
            self.options.commit_unknown,
        )
        return _PartitionProgress(reader, source_state, source_state.next_offset, collector)

    # Output.

    def _report_partition(self, progress: _PartitionProgress) -> None:
        """Report what has been sent from a partition."""
        reader, source_state = progress.reader, progress.source_state
        source, options = reader.source, self.options
        self._n_reported_records += progress.records
        has_target_offsets = not (
            options.dry_run or options.by_key or progress.first_offset is None
        )
        row: dict[str, object] = {
            **REPLAYED_ROW.members_from(progress, reader, options),
            "file": source.partition.name,
            "target_topic": source.target_topic,
            "target_partition": None if options.by_key else source.partition_index,
            "target_first_offset": source_state.points.get(progress.first_offset or 0)
            if has_target_offsets
            else None,
            "target_last_offset": source_state.target_offset if has_target_offsets else None,
            "resumed_at": progress.resumed_at or None,
        }
        self.run.report_suppressed_findings(source.partition.name, progress.finding_collector)
        sink = self.run.sink
        sink.write_document(
            REPLAYED_ROW,
            row,
            [format_partition_line(source.name, FieldDict(row), sink.streams.theme)],
        )

    def _commit_group_offsets(self) -> None:
        """Commit the translated offsets of groups, and report active groups, whose offsets are not
        committed."""
        state_by_active_group = self._cluster.read_active_group_states(
            {commit.group for commit in self._group_commits}
        )
        for group, commits in groupby(self._group_commits, key=lambda commit: commit.group):
            commits_and_targets = [(commit, self._find_target_offset(commit)) for commit in commits]
            committable = [
                (commit, target) for commit, target in commits_and_targets if target is not None
            ]
            reason, group_state = None, state_by_active_group.get(group)
            if group_state is not None:
                reason = f"the group is {group_state} in the cluster; stop its members"
            elif committable:
                try:
                    self._cluster.commit_offsets(
                        group,
                        [
                            (
                                self._topic_by_source[commit.source_name],
                                commit.partition,
                                target,
                                commit.metadata,
                            )
                            for commit, target in committable
                        ],
                    )
                except OutputError as error:
                    reason = str(error)
            if reason is not None:
                self.run.report_input_error(f"group {group}: offsets not committed: {reason}")
            for commit, target_offset in commits_and_targets:
                self._report_group_offset(commit, target_offset, reason)

    def _find_target_offset(self, commit: FieldDict) -> int | None:
        """The offset at which a group continues in the cluster; None if that is unknown."""
        if commit.source_name not in self._completed_source_names:
            return None
        source_state = self._state.sources[commit.source_name]
        if commit.offset in source_state.points:
            return source_state.points[commit.offset]
        if commit.offset < source_state.next_offset:
            return None
        if source_state.target_offset is not None:
            return source_state.target_offset + 1
        return self._state.targets[self._topic_by_source[commit.source_name]][commit.partition]

    def _report_group_offset(
        self, commit: FieldDict, target_offset: int | None, reason: str | None
    ) -> None:
        if self.options.dry_run:
            reason = "dry run"
        elif (
            reason is None
            and target_offset is None
            and commit.source_name not in self._completed_source_names
        ):
            reason = "its partition could not be read to the end"
        elif reason is None and target_offset is None:
            reason = "its records were sent by a run without --groups"
            message = f"offset {commit.offset} of {commit.source_name} not committed: {reason}"
            self.run.report_input_error(f"group {commit.group}: {message}")
        row: dict[str, object] = {
            **REPLAYED_GROUP_ROW.members_from(commit),
            "target_topic": self._topic_by_source[commit.source_name],
            "target_offset": target_offset,
            "committed": reason is None,
            "reason": reason,
        }
        sink = self.run.sink
        sink.write_document(
            REPLAYED_GROUP_ROW, row, [format_group_line(FieldDict(row), sink.streams.theme)]
        )
