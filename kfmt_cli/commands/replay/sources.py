"""The partitions to replay, and their records in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kfmt_cli.broker.partitioners import compute_key_partitions
from kfmt_cli.broker.transactions.transactions import read_committed_records
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.commands.each_partition import iter_log_blocks
from kfmt_cli.commands.partition_selection import format_unknown_transactions
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.disk.input_paths import InputPath
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.topic_filter import matches_topic, missing_topic_error
from kfmt_cli.errors import InputError, NotFoundError, UsageError
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import NO_TIMESTAMP, Block
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.log.selection.selection import Selection

# Topics whose records are meaningful only to the cluster that wrote them.
INTERNAL_TOPICS = {
    *("__cluster_metadata", "__consumer_offsets", "__transaction_state"),
    *("__share_group_state", "__remote_log_metadata"),
}
Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """A partition to replay."""

    partition: Partition
    topic: str
    partition_index: int
    target_topic: str
    """The topic in the cluster."""

    @property
    def name(self) -> str:
        """The topic and the partition, as in the state file."""
        return f"{self.topic}-{self.partition_index}"


def find_sources(
    partitions: Sequence[Partition], topics: Sequence[str], as_topic: str | None
) -> list[ReplaySource]:
    """The partitions to replay, sorted by topic and partition.

    topics: patterns of names; empty for all topics except internal ones. as_topic: the topic in the
    cluster, by default the same. Raises UsageError for two copies of a partition, for a partition
    of unknown topic without `as_topic`, and for several topics with it; NotFoundError if there are
    no partitions.
    """
    source_by_partition: dict[tuple[str, int], ReplaySource] = {}
    for partition in partitions:
        topic, partition_index = partition.topic_partition
        if topic is None and as_topic is None:
            message = "is not in a partition's directory; name its topic with --as"
            raise UsageError(f"{partition.name}: {message}")
        topic, partition_index = topic or as_topic or "", partition_index or 0
        if topic in INTERNAL_TOPICS or not matches_topic(topic, topics):
            continue
        source = ReplaySource(partition, topic, partition_index, as_topic or topic)
        existing_source = source_by_partition.setdefault((topic, partition_index), source)
        if existing_source is not source:
            copy_names = f"{existing_source.partition.name} and {partition.name}"
            raise UsageError(f"{copy_names} are copies of {source.name}; give only one of them")
    topic_names = sorted({topic for topic, _ in source_by_partition})
    for pattern in topics:
        if not any(matches_topic(name, (pattern,)) for name in topic_names):
            raise missing_topic_error(
                (pattern,), (partition.topic_partition[0] for partition in partitions)
            )
    if not source_by_partition:
        raise NotFoundError("only internal topics found under these paths")
    if as_topic is not None and len(topic_names) > 1:
        message = f"{len(topic_names)} topics were given: {', '.join(topic_names)}"
        raise UsageError(f"--as needs a single topic, but {message}; choose one with --topic")
    return [source_by_partition[topic_partition] for topic_partition in sorted(source_by_partition)]


@dataclass(slots=True)
class RecordChunk:
    """Some records of a partition in order, as columns."""

    offsets: IntArray
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[list[Header] | None]
    target_partitions: list[int]
    """The partition in the cluster to send each record to."""
    sizes_bytes: IntArray
    """Bytes of each record's key and value."""

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def n_bytes(self) -> int:
        """The total size of keys and values in bytes."""
        return int(self.sizes_bytes.sum())

    def select_rows(self, rows: Sequence[int]) -> RecordChunk:
        """The records of some rows."""
        return RecordChunk(
            self.offsets[list(rows)],
            [self.timestamps[row] for row in rows],
            [self.keys[row] for row in rows],
            [self.values[row] for row in rows],
            [self.headers[row] for row in rows],
            [self.target_partitions[row] for row in rows],
            self.sizes_bytes[list(rows)],
        )

    def select_row_range(self, first_row: int, end_row: int) -> RecordChunk:
        """The records of rows first..end-1."""
        row_slice = slice(first_row, end_row)
        return RecordChunk(
            self.offsets[row_slice],
            self.timestamps[row_slice],
            self.keys[row_slice],
            self.values[row_slice],
            self.headers[row_slice],
            self.target_partitions[row_slice],
            self.sizes_bytes[row_slice],
        )


@dataclass(slots=True)
class ReplaySourceReader:
    """Reads the records of one partition that are to be sent.

    n_partitions_for_keys: the number of partitions from which keys select; None to keep the
    partition. not_committed, timestamps_changed: numbers of records, as in `REPLAYED_ROW`.
    """

    source: ReplaySource
    selection: Selection
    decompression_limit: DecompressionLimit
    n_partitions_for_keys: int | None
    on_finding: Callable[[Finding], None]
    on_note: Callable[[str], None]
    user_paths: Sequence[InputPath | str]
    """Where coordinators' logs may be that show how transactions ended."""
    commits_unknown: bool = False
    """Whether transactions whose outcome damage hides count as committed."""
    not_committed: int = 0
    timestamps_changed: int = 0

    def iter_chunks(self, next_offset: int) -> Iterator[RecordChunk]:
        """The committed records, starting at an offset; raises InputError."""
        partition = self.source.partition
        committed_records = read_committed_records(
            partition.logs,
            (block for _, block in iter_log_blocks(partition.logs)),
            user_paths=self.user_paths,
            aborts_open_transactions=True,
            commits_unknown=self.commits_unknown,
        )
        if committed_records.unknown_transactions:
            self.on_note(
                format_unknown_transactions(
                    partition.logs, committed_records.unknown_transactions, self.commits_unknown
                )
            )
        remaining_selection = self.selection.starting_at(next_offset)
        for log_file in remaining_selection.select_logs(partition.logs):
            with open_checked_log(log_file, read_ahead=True) as opened_log:
                for block in opened_log.blocks:
                    for finding in block.findings:
                        self.on_finding(finding)
                    batches = block.batches
                    valid_mask = (batches.crc_valid == 1) & (batches.control == 0)
                    committed_mask = committed_records.delivered_mask(batches)
                    uncommitted_mask = self._narrow_mask_to_bounds(
                        block, valid_mask & ~committed_mask
                    )
                    self.not_committed += int(batches.record_counts[uncommitted_mask].sum())
                    committed_batches = batches.select_rows(valid_mask & committed_mask)
                    committed_block = replace(
                        block, batches=committed_batches, findings=[], decompressed=None
                    )
                    yield from self._iter_block_chunks(committed_block, remaining_selection)

    def _narrow_mask_to_bounds(self, block: Block, batch_mask: IntArray) -> IntArray:
        batches = block.batches
        first_offset, last_offset = self.selection.first_offset, self.selection.last_offset
        if first_offset is not None:
            batch_mask = batch_mask & (batches.last_offset >= first_offset)
        return (
            batch_mask if last_offset is None else batch_mask & (batches.base_offset <= last_offset)
        )

    def _iter_block_chunks(self, block: Block, selection: Selection) -> Iterator[RecordChunk]:
        for batch_run, records in selection.iter_candidate_runs(block, self.decompression_limit):
            for finding in (*batch_run.findings, *records.findings):
                self.on_finding(finding)
            selected_rows = np.flatnonzero(selection.record_mask(batch_run, records))
            if len(selected_rows):
                yield self._create_chunk(records, selected_rows)

    def _create_chunk(self, records: RecordColumns, selected_rows: IntArray) -> RecordChunk:
        record_rows, block_bytes = records.rows, records.data
        timestamps = np.where(
            record_rows.has_timestamp[selected_rows] == 1,
            record_rows.timestamp[selected_rows],
            NO_TIMESTAMP,
        )
        # librdkafka sends a timestamp of 0 as the current time.
        self.timestamps_changed += int((timestamps == 0).sum())
        timestamps = np.where(timestamps == 0, 1, timestamps)
        offsets = record_rows.offset[selected_rows]
        key_starts, key_sizes = record_rows.key[selected_rows], record_rows.key_size[selected_rows]
        return RecordChunk(
            offsets,
            timestamps.tolist(),
            _slice_values(block_bytes, key_starts, key_sizes),
            _slice_values(
                block_bytes, record_rows.value[selected_rows], record_rows.value_size[selected_rows]
            ),
            self._decode_headers(records, selected_rows),
            self._choose_target_partitions(block_bytes, key_starts, key_sizes),
            key_sizes.clip(0) + record_rows.value_size[selected_rows].clip(0),
        )

    def _choose_target_partitions(
        self, block_bytes: bytes, key_starts: IntArray, key_sizes: IntArray
    ) -> list[int]:
        """The partition of each record in the cluster. If keys select it, a record without a key
        keeps its own, modulo the number of partitions."""
        n_partitions, source_partition = self.n_partitions_for_keys, self.source.partition_index
        if n_partitions is None:
            return [source_partition] * len(key_starts)
        partition_column = np.full(len(key_starts), source_partition % n_partitions)
        rows_with_key = np.flatnonzero(key_sizes >= 0)
        partition_column[rows_with_key] = compute_key_partitions(
            block_bytes, key_starts[rows_with_key], key_sizes[rows_with_key], n_partitions
        )
        partitions: list[int] = partition_column.tolist()
        return partitions

    def _decode_headers(
        self, records: RecordColumns, selected_rows: IntArray
    ) -> list[list[Header] | None]:
        """The headers of records; raises InputError for one that librdkafka cannot send."""
        record_rows, block_bytes = records.rows, records.data
        if (
            "headers" not in record_rows.index_by_name
            or not (record_rows.headers[selected_rows] > 0).any()
        ):
            return [None] * len(selected_rows)
        header_counts = record_rows.headers[selected_rows].clip(0)
        first_header_indexes = np.where(
            header_counts > 0, record_rows.headers_first[selected_rows], 0
        )
        header_rows = records.headers[:, : int((first_header_indexes + header_counts).max())]
        name_by_bytes: dict[bytes, str | None] = {}
        decoded_headers: list[Any] = []
        for name_start, name_size, value_start, value_size in zip(
            *header_rows.tolist(), strict=True
        ):
            name = block_bytes[name_start : name_start + name_size]
            if name not in name_by_bytes:
                name_by_bytes[name] = _decode_header_name(name)
            header_value = (
                None if value_size < 0 else block_bytes[value_start : value_start + value_size]
            )
            decoded_headers.append((name_by_bytes[name], header_value))
        header_ranges = zip(first_header_indexes.tolist(), header_counts.tolist(), strict=True)
        headers_by_row = [
            decoded_headers[first : first + count] or None for first, count in header_ranges
        ]
        if None in name_by_bytes.values():
            for row, headers in zip(selected_rows.tolist(), headers_by_row, strict=True):
                if any(name is None for name, _ in headers or ()):
                    location = f"{self.source.partition.name} offset {record_rows.offset[row]}"
                    message = "a header's name has a zero byte or is not UTF-8"
                    raise InputError(f"{location}: {message}; librdkafka cannot send it")
        return headers_by_row


def _decode_header_name(encoded_name: bytes) -> str | None:
    """The name of a header as librdkafka accepts it; None if it cannot send it."""
    try:
        decoded_name = encoded_name.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in decoded_name else decoded_name


def _slice_values(block_bytes: bytes, starts: IntArray, sizes: IntArray) -> list[bytes | None]:
    starts_and_sizes = zip(starts.tolist(), sizes.tolist(), strict=True)
    return [
        block_bytes[start : start + size] if size >= 0 else None for start, size in starts_and_sizes
    ]


def split_chunks(chunks: Iterable[RecordChunk], max_records: int) -> Iterator[RecordChunk]:
    """Chunks of at most this many records."""
    for chunk in chunks:
        for first_row in range(0, len(chunk), max_records):
            is_small_enough = len(chunk) <= max_records
            yield (
                chunk
                if is_small_enough
                else chunk.select_row_range(first_row, first_row + max_records)
            )
