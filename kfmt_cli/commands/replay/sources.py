"""The partitions to replay, and their records in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kfmt_cli.broker.partitioners import partitions_of_keys
from kfmt_cli.broker.transactions.committed import committed_of
from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.commands.each_partition import blocks_of
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import InputError, NotFoundError, UsageError
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import NO_TIMESTAMP, Block
from kfmt_cli.log.records import Records
from kfmt_cli.log.selection.select import Selection

# Topics whose records mean something only to the cluster that wrote them.
OF_THE_CLUSTER = {
    *("__cluster_metadata", "__consumer_offsets", "__transaction_state"),
    *("__share_group_state", "__remote_log_metadata"),
}
Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """A partition to replay."""

    partition: Partition
    topic: str
    number: int
    target: str
    """The topic in the cluster."""

    @property
    def name(self) -> str:
        """Topic and partition, as in the state file."""
        return f"{self.topic}-{self.number}"


def sources_of(
    partitions: Sequence[Partition], topics: Sequence[str], as_topic: str | None
) -> list[ReplaySource]:
    """The partitions to replay, by topic and number, each once.

    topics: only these; empty for all but those of the cluster itself. as_topic: the name in the
    cluster. Raises UsageError for a partition that is there twice or has no name, NotFoundError
    if there are none.
    """
    found: dict[tuple[str, int], ReplaySource] = {}
    for partition in partitions:
        topic, number = partition.place
        if topic is None and as_topic is None:
            words = "is not in a partition's directory; name its topic with --as"
            raise UsageError(f"{partition.name}: {words}")
        topic, number = topic or as_topic or "", number or 0
        if topic in OF_THE_CLUSTER or (topics and topic not in topics):
            continue
        source = ReplaySource(partition, topic, number, as_topic or topic)
        other = found.setdefault((topic, number), source)
        if other is not source:
            names = f"{other.partition.name} and {partition.name}"
            raise UsageError(f"{names} are copies of {source.name}; give only one of them")
    given = sorted({topic for topic, _ in found})
    if missing := [topic for topic in topics if topic not in given]:
        raise NotFoundError(f"no partition of topic {' or '.join(missing)} under these paths")
    if not found:
        raise NotFoundError("only internal topics found under these paths")
    if as_topic is not None and len(given) > 1:
        words = f"{len(given)} topics were given: {', '.join(given)}"
        raise UsageError(f"--as needs a single topic, but {words}; choose one with --topic")
    return [found[place] for place in sorted(found)]


@dataclass(slots=True)
class Chunk:
    """Some records of a partition in order, column by column."""

    offsets: IntArray
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[list[Header] | None]
    partitions: list[int]
    """The partition that each goes to."""
    sizes: IntArray
    """Bytes of key and value."""

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def n_bytes(self) -> int:
        """The bytes of keys and values."""
        return int(self.sizes.sum())

    def part(self, rows: Sequence[int]) -> Chunk:
        """Some of the records."""
        return Chunk(
            self.offsets[list(rows)],
            [self.timestamps[row] for row in rows],
            [self.keys[row] for row in rows],
            [self.values[row] for row in rows],
            [self.headers[row] for row in rows],
            [self.partitions[row] for row in rows],
            self.sizes[list(rows)],
        )

    def between(self, first: int, end: int) -> Chunk:
        """The records of some rows that follow each other."""
        rows = slice(first, end)
        return Chunk(
            self.offsets[rows],
            self.timestamps[rows],
            self.keys[rows],
            self.values[rows],
            self.headers[rows],
            self.partitions[rows],
            self.sizes[rows],
        )


@dataclass(slots=True)
class SourceReader:
    """Reads the records of one partition that are to be sent.

    not_committed, timestamps_changed: counts of records, see the rows. by_key: the number of
    partitions among which keys decide, None to keep the partition.
    """

    source: ReplaySource
    wanted: Selection
    limit: Limit
    by_key: int | None
    tell: Callable[[Finding], None]
    not_committed: int = 0
    timestamps_changed: int = 0

    def chunks(self, next_offset: int) -> Iterator[Chunk]:
        """The committed records from an offset on; raises InputError."""
        partition = self.source.partition
        committed = committed_of((block for _, block in blocks_of(partition.logs)), ends_open=True)
        wanted = self.wanted.beginning(next_offset)
        for file in wanted.logs(partition.logs):
            with open_checked(file, read_ahead=True) as log:
                for block in log.blocks:
                    for finding in block.findings:
                        self.tell(finding)
                    batches = block.batches
                    sound = (batches.crc_valid == 1) & (batches.control == 0)
                    given = committed.of_batches(batches)
                    aborted = self._in_bounds(block, sound & ~given)
                    self.not_committed += int(batches.counted_records[aborted].sum())
                    kept = batches.select(sound & given)
                    plain = replace(block, batches=kept, findings=[], decompressed=None)
                    yield from self._of_block(plain, wanted)

    def _in_bounds(self, block: Block, rows: IntArray) -> IntArray:
        batches = block.batches
        first, last = self.wanted.first_offset, self.wanted.last_offset
        if first is not None:
            rows = rows & (batches.last_offset >= first)
        return rows if last is None else rows & (batches.base_offset <= last)

    def _of_block(self, block: Block, wanted: Selection) -> Iterator[Chunk]:
        for run, records in wanted.near(block, self.limit):
            for finding in (*run.findings, *records.findings):
                self.tell(finding)
            rows = np.flatnonzero(wanted.of_records(run, records))
            if len(rows):
                yield self._chunk(records, rows)

    def _chunk(self, records: Records, chosen: IntArray) -> Chunk:
        rows, data = records.rows, records.data
        times = np.where(rows.has_timestamp[chosen] == 1, rows.timestamp[chosen], NO_TIMESTAMP)
        # librdkafka takes 0 for "now".
        self.timestamps_changed += int((times == 0).sum())
        times = np.where(times == 0, 1, times)
        offsets = rows.offset[chosen]
        starts, sizes = rows.key[chosen], rows.key_size[chosen]
        return Chunk(
            offsets,
            times.tolist(),
            _parts(data, starts, sizes),
            _parts(data, rows.value[chosen], rows.value_size[chosen]),
            self._headers(records, chosen),
            self._partitions(data, starts, sizes),
            sizes.clip(0) + rows.value_size[chosen].clip(0),
        )

    def _partitions(self, data: bytes, starts: IntArray, sizes: IntArray) -> list[int]:
        """Where records go: a record without a key keeps its partition if the target has it."""
        n, own = self.by_key, self.source.number
        if n is None:
            return [own] * len(starts)
        found = np.full(len(starts), own % n)
        keyed = np.flatnonzero(sizes >= 0)
        found[keyed] = partitions_of_keys(data, starts[keyed], sizes[keyed], n)
        partitions: list[int] = found.tolist()
        return partitions

    def _headers(self, records: Records, chosen: IntArray) -> list[list[Header] | None]:
        """The headers of records; raises InputError for one that librdkafka cannot send."""
        rows, data = records.rows, records.data
        if "headers" not in rows.names or not (rows.headers[chosen] > 0).any():
            return [None] * len(chosen)
        counts = rows.headers[chosen].clip(0)
        firsts = np.where(counts > 0, rows.headers_first[chosen], 0)
        used = records.headers[:, : int((firsts + counts).max())]
        names: dict[bytes, str | None] = {}
        pairs: list[Any] = []
        for start, size, value, value_size in zip(*used.tolist(), strict=True):
            name = data[start : start + size]
            if name not in names:
                names[name] = _sendable(name)
            content = None if value_size < 0 else data[value : value + value_size]
            pairs.append((names[name], content))
        places = zip(firsts.tolist(), counts.tolist(), strict=True)
        found = [pairs[first : first + count] or None for first, count in places]
        if None in names.values():
            for row, headers in zip(chosen.tolist(), found, strict=True):
                if any(name is None for name, _ in headers or ()):
                    place = f"{self.source.partition.name} offset {rows.offset[row]}"
                    words = "a header's name has a zero byte or is not UTF-8"
                    raise InputError(f"{place}: {words}; librdkafka cannot send it")
        return found


def _sendable(name: bytes) -> str | None:
    """The name of a header as librdkafka takes it; None if it cannot."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _parts(data: bytes, starts: IntArray, sizes: IntArray) -> list[bytes | None]:
    pairs = zip(starts.tolist(), sizes.tolist(), strict=True)
    return [data[start : start + size] if size >= 0 else None for start, size in pairs]
