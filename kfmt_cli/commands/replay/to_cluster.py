"""replay: sends the records of partitions on disks to a live cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kfmt_cli.commands.each_partition import LogStarts, reading
from kfmt_cli.commands.replay.groups import committed_offsets
from kfmt_cli.commands.replay.lines import group_line, replayed_line
from kfmt_cli.commands.replay.sources import Chunk, ReplaySource, SourceReader, sources_of
from kfmt_cli.commands.replay.state_file import ReplayState, SourceState, state_at
from kfmt_cli.commands.replay.topic_plans import BROKERS_DEFAULT, TopicPlan, plans_of
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.disk.partitions import Partition, partitions_below
from kfmt_cli.errors import InputError, OutputError, UsageError
from kfmt_cli.findings.finding import Findings
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.render.style import count, safe
from kfmt_cli.rows.types.replayed import REPLAYED, REPLAYED_GROUP

if TYPE_CHECKING:
    from kfmt_cli.commands.replay.cluster import LiveCluster
    from kfmt_cli.commands.replay.sender import Points, Sender

# Seconds and records after which all is acknowledged and the state file written.
INTERVAL, MOST_PENDING = 2.0, 100_000
AT_ONCE = 20_000  # records between two looks at these


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What to replay, where and how."""

    bootstrap_server: str
    """Empty with dry_run."""
    topics: tuple[str, ...] = ()
    as_topic: str | None = None
    by_key: bool = False
    wanted: Selection = field(default_factory=Selection)
    groups: bool = False
    state: Path | None = None
    rate: int | None = None
    dry_run: bool = False
    producer_config: Path | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for options that exclude each other."""
        if self.groups and self.by_key:
            words = "--by-key spreads a partition's records, so its offsets have no counterpart"
            raise UsageError(f"--groups cannot be combined with --by-key: {words}")

    @property
    def lasting(self) -> dict[str, Any]:
        """Those that must be the same when a replay is resumed."""
        bounds = {
            name.replace("first", "from").replace("last", "to"): getattr(self.wanted, name)
            for name in ("first_offset", "last_offset", "first_time", "last_time")
        }
        return {"as": self.as_topic, "by_key": self.by_key, **bounds}


@dataclass(slots=True)
class _Sent:
    """What has happened to the records of a partition in this run."""

    reader: SourceReader
    at: SourceState
    """How far it has been acknowledged."""
    resumed_at: int
    """Where this run began."""
    findings: Findings
    records: int = 0
    bytes: int = 0
    already_there: int = 0
    first_offset: int | None = None
    last_offset: int | None = None

    def take(self, chunk: Chunk, n_arrived: int) -> None:
        """Count the records of a chunk."""
        self.records += len(chunk) - n_arrived
        self.already_there += n_arrived
        self.bytes += chunk.n_bytes
        if self.first_offset is None:
            self.first_offset = int(chunk.offsets[0])
        self.last_offset = int(chunk.offsets[-1])


@dataclass(slots=True)
class ReplayToCluster:
    """One call of `replay`."""

    run: Run
    options: ReplayOptions
    limit: Limit
    _n_records: int = 0
    _complete: set[str] = field(default_factory=set)
    _starts: LogStarts = field(init=False)
    _sources: list[ReplaySource] = field(default_factory=list)
    _targets: dict[str, str] = field(default_factory=dict)
    """The topic in the cluster of each of these, by its name."""
    _offsets: list[Fields] = field(default_factory=list)
    """Of groups, in the same partitions."""
    _state: ReplayState = field(init=False)
    _cluster: LiveCluster = field(init=False)

    def paths(self, paths: tuple[str, ...]) -> None:
        """Replay the partitions under some paths; raises UsageError, NotFoundError, OutputError."""
        run = self.run
        self._starts = LogStarts(run)
        partitions = partitions_below(paths, run.complain, run.sink.note)
        if not partitions:
            return
        self._sources = sources_of(partitions, self.options.topics, self.options.as_topic)
        self._targets = {source.name: source.target for source in self._sources}
        plans = plans_of(self._sources, partitions, run.complain)
        self._offsets = self._group_offsets(partitions)
        began = time.monotonic()
        logs = [log for source in self._sources for log in source.partition.logs]
        with reading(run, [*logs, *logs]):  # transactions first, then records
            if self.options.dry_run:
                self._preview(plans)
            else:
                self._replay(plans)
        words = count(self._n_records, "record")
        if self.options.dry_run:
            run.sink.remark(f"{words} to be sent; nothing was sent")
        else:
            seconds = time.monotonic() - began
            run.sink.remark(f"{words} sent and acknowledged in {seconds:.1f} s")

    def _group_offsets(self, partitions: Iterable[Partition]) -> list[Fields]:
        """The offsets that groups had committed in the partitions to replay."""
        if not self.options.groups:
            return []
        found = committed_offsets(self.run, partitions, self.limit)
        if not found:
            self.run.sink.note("no group has committed offsets in __consumer_offsets here\n")
        return [offset for offset in found if offset.place in self._targets]

    # Without a cluster.

    def _preview(self, plans: dict[str, TopicPlan]) -> None:
        state = state_at(self.options.state, "", self.options.lasting)
        for source in self._sources:
            self._starts.of(source.partition)
            at = state.sources.get(source.name, SourceState())
            sent = self._begun(source, at, plans[source.target].partitions)
            with self.run.complaining():
                for chunk in sent.reader.chunks(sent.resumed_at):
                    sent.take(chunk, 0)
            self._tell(sent)
        for offset in self._offsets:
            self._tell_group(offset, None, None)

    # With one.

    def _replay(self, plans: dict[str, TopicPlan]) -> None:
        from kfmt_cli.commands.replay.cluster import LiveCluster, producer_settings

        settings = producer_settings(self.options.producer_config)
        self._cluster = cluster = LiveCluster(self.options.bootstrap_server, settings)
        cluster.connect()
        self._state = state_at(self.options.state, cluster.cluster_id, self.options.lasting)
        for plan in plans.values():
            self._prepare(plan)
        known = {name: self._state.targets.get(name, {}) for name in plans}
        places = [(topic, number) for topic, numbers in known.items() for number in numbers]
        ends = cluster.settled_ends(places) if places else {}
        for topic, of_topic in groupby(self._sources, key=lambda source: source.target):
            sender = self._sender(topic)
            try:
                self._topic(sender, list(of_topic), ends)
            finally:
                sender.abandon()
        self._groups()

    def _prepare(self, plan: TopicPlan) -> None:
        """Create a topic that the cluster lacks; raises OutputError if it cannot take all
        partitions."""
        cluster = self._cluster
        has = cluster.partitions.get(plan.name)
        if has is None:
            plan.limit(cluster.brokers)
            cluster.create(plan)
            words = f"created with {count(plan.partitions, 'partition')}"
            if plan.replication_factor != BROKERS_DEFAULT:
                words += f", replication factor {plan.replication_factor}"
            words += "".join(f"; {change}" for change in plan.changes)
            self.run.sink.note(f"{safe(plan.name)}: {words}\n")
            return
        most = max(source.number for source in self._sources if source.target == plan.name)
        if most >= has and not self.options.by_key:
            words = f"has {count(has, 'partition')}, so partition {most} cannot be kept"
            raise OutputError(
                f"{cluster.address}: {plan.name}: {words}; add partitions or --by-key"
            )

    def _sender(self, topic: str) -> Sender:
        from kfmt_cli.commands.replay.sender import Sender

        cluster = self._cluster
        limits = cluster.limits(topic)
        if not limits.keeps_timestamps:
            words = "message.timestamp.type is LogAppendTime, so timestamps are not kept"
            self.run.sink.note(f"{safe(topic)}: {words}\n")
        return Sender(cluster, topic, limits, cluster.producer(limits), self.options.rate)

    def _topic(
        self, sender: Sender, sources: list[ReplaySource], ends: Mapping[tuple[str, int], int]
    ) -> None:
        """Send the records of a topic; complains about partitions that cannot be read. ends: where
        the partitions end that an earlier run has sent to."""
        self._find_arrived(sender, sources, ends)
        for source in sources:
            self._starts.of(source.partition)
            wanted = sorted({each.offset for each in self._offsets if each.place == source.name})
            with self.run.complaining():
                self._source(source, sender, wanted)
                self._complete.add(source.name)

    def _find_arrived(
        self, sender: Sender, sources: list[ReplaySource], ends: Mapping[tuple[str, int], int]
    ) -> None:
        """Keep where the topic ends before anything is sent; after an earlier run, read what has
        arrived without being acknowledged."""
        topic, cluster, state = sender.topic, self._cluster, self._state
        numbers = {source.number for source in sources}
        if self.options.by_key:
            numbers = set(range(cluster.partitions[topic]))
        known = state.targets.setdefault(topic, {})
        if self.options.by_key and known and set(known) != numbers:
            words = f"has {count(len(numbers), 'partition')}, but an earlier run saw {len(known)}"
            raise OutputError(f"{cluster.address}: {topic}: {words}; keys would change partitions")
        for number, begin in known.items():
            end = ends[topic, number]
            if end < begin:
                words = f"ends at offset {end}, before {begin} of the state file"
                words += "; was the topic recreated?"
                raise OutputError(f"{cluster.address}: {topic}-{number}: {words}")
            sender.expect(number, begin, end, 2 * MOST_PENDING)
        new = [(topic, number) for number in sorted(numbers - set(known))]
        known |= {number: end for (_, number), end in cluster.ends(new).items()}
        state.save()

    def _source(self, source: ReplaySource, sender: Sender, wanted: list[int]) -> None:
        """Send the records of a partition from where an earlier run got; raises InputError after
        those before it are acknowledged, OutputError."""
        from kfmt_cli.commands.replay.sender import Points

        at = self._state.sources.setdefault(source.name, SourceState())
        is_new = at.target_offset is None
        to_come = [each for each in wanted if is_new or each >= at.next_offset]
        points = Points([each for each in to_come if each not in at.points], at.points)
        sent = self._begun(source, at, self._cluster.partitions[source.target])
        try:
            self._send_all(sent, sender, points)
        except InputError:
            self._settle(sent, sender)
            self._tell(sent)
            raise
        except OutputError as error:
            words = f"acknowledged before offset {at.next_offset} of {source.partition.name}"
            raise OutputError(f"{error}; {words}") from None
        self._tell(sent)

    def _send_all(self, sent: _Sent, sender: Sender, points: Points) -> None:
        n_pending, since = 0, time.monotonic()
        rate = self.options.rate
        most = AT_ONCE if rate is None else max(min(AT_ONCE, rate // 2), 1)
        for chunk in _parts(sent.reader.chunks(sent.resumed_at), most):
            first = int(chunk.offsets[0])
            if sent.first_offset is None and first not in [*points.found, *points.wanted]:
                points.wanted.insert(0, first)
                points.wanted.sort()
            sent.take(chunk, sender.send(chunk, points))
            n_pending += len(chunk)
            if n_pending >= MOST_PENDING or time.monotonic() - since >= INTERVAL:
                self._settle(sent, sender)
                n_pending, since = 0, time.monotonic()
        self._settle(sent, sender)

    def _settle(self, sent: _Sent, sender: Sender) -> None:
        """Wait until all records are acknowledged, and keep that."""
        last = sender.settle()
        if sent.last_offset is None:
            return
        source, at = sent.reader.source, sent.at
        at.next_offset = sent.last_offset + 1
        if not self.options.by_key:
            at.target_offset = last.get(source.number, at.target_offset)
        ends = self._state.targets[source.target]
        ends.update({number: max(offset + 1, ends[number]) for number, offset in last.items()})
        self._state.save()

    def _begun(self, source: ReplaySource, at: SourceState, n_partitions: int) -> _Sent:
        """A partition of which nothing is sent yet. n_partitions: of its topic in the cluster."""
        findings = Findings(self.run.most_findings)
        by_key = n_partitions if self.options.by_key else None
        reader = SourceReader(
            source,
            self.options.wanted,
            self.limit,
            by_key,
            lambda finding: self.run.tell([finding], findings),
        )
        return _Sent(reader, at, at.next_offset, findings)

    # Output.

    def _tell(self, sent: _Sent) -> None:
        """Show what has been sent of a partition."""
        reader, at = sent.reader, sent.at
        source, options = reader.source, self.options
        self._n_records += sent.records
        is_placed = not (options.dry_run or options.by_key or sent.first_offset is None)
        row: dict[str, object] = {
            **REPLAYED.members_of(sent, reader, options),
            "file": source.partition.name,
            "target_topic": source.target,
            "target_partition": None if options.by_key else source.number,
            "target_first_offset": at.points.get(sent.first_offset or 0) if is_placed else None,
            "target_last_offset": at.target_offset if is_placed else None,
            "resumed_at": sent.resumed_at or None,
        }
        self.run.left_out(source.partition.name, sent.findings)
        sink = self.run.sink
        sink.document(REPLAYED, row, [replayed_line(source.name, Fields(row), sink.out.theme)])

    def _groups(self) -> None:
        """Commit the offsets of groups, translated; complains about groups that are active."""
        active = self._cluster.active_groups({offset.group for offset in self._offsets})
        for group, its in groupby(self._offsets, key=lambda offset: offset.group):
            found = [(offset, self._target_offset(offset)) for offset in its]
            known = [(offset, target) for offset, target in found if target is not None]
            reason = None
            if group in active:
                reason = f"the group is {active[group]} in the cluster; stop its members"
            elif known:
                try:
                    self._cluster.commit(
                        group,
                        [
                            (self._targets[offset.place], offset.partition, target, offset.metadata)
                            for offset, target in known
                        ],
                    )
                except OutputError as error:
                    reason = str(error)
            if reason is not None:
                self.run.complain(f"group {group}: offsets not committed: {reason}")
            for offset, target in found:
                self._tell_group(offset, target, reason)

    def _target_offset(self, offset: Fields) -> int | None:
        """Where a group continues in the cluster; None if that is unknown."""
        if offset.place not in self._complete:
            return None
        at = self._state.sources[offset.place]
        if offset.offset in at.points:
            return at.points[offset.offset]
        if offset.offset < at.next_offset:
            return None
        if at.target_offset is not None:
            return at.target_offset + 1
        return self._state.targets[self._targets[offset.place]][offset.partition]

    def _tell_group(self, offset: Fields, target: int | None, reason: str | None) -> None:
        if self.options.dry_run:
            reason = "dry run"
        elif reason is None and target is None and offset.place not in self._complete:
            reason = "its partition could not be read to the end"
        elif reason is None and target is None:
            reason = "its records were sent by a run without --groups"
            words = f"offset {offset.offset} of {offset.place} not committed: {reason}"
            self.run.complain(f"group {offset.group}: {words}")
        row: dict[str, object] = {
            **REPLAYED_GROUP.members_of(offset),
            "target_topic": self._targets[offset.place],
            "target_offset": target,
            "committed": reason is None,
            "reason": reason,
        }
        sink = self.run.sink
        sink.document(REPLAYED_GROUP, row, [group_line(Fields(row), sink.out.theme)])


def _parts(chunks: Iterable[Chunk], most: int) -> Iterator[Chunk]:
    """Chunks of at most this many records."""
    for chunk in chunks:
        for first in range(0, len(chunk), most):
            yield chunk if len(chunk) <= most else chunk.between(first, first + most)
