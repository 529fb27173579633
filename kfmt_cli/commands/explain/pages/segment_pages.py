"""Pages about segments: indexes, lookups, rolling, retention, compaction, epochs, recovery."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kfmt_cli.broker.defaults import (
    DEFAULT_DEDUPE_BUFFER_BYTES,
    DEFAULT_INDEX_INTERVAL_BYTES,
    DEFAULT_SEGMENT_BYTES,
    DEFAULT_SEGMENT_INDEX_BYTES,
)
from kfmt_cli.broker.log_reading.lookup import OFFSET_COLUMN, choose_segment, lookup_in_segment
from kfmt_cli.broker.log_reading.offset_map import ENTRY_BYTES, LOAD_FACTOR
from kfmt_cli.broker.version import NEWEST_VERSION
from kfmt_cli.commands.explain.pages.page import PageFacts, PageSection
from kfmt_cli.core.times import format_time
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND, TIME_INDEX_KIND
from kfmt_cli.log.log_opening import open_log
from kfmt_cli.render.style import format_count

_MAX_SHOWN_ROWS = 5


def offset_index_page(facts: PageFacts) -> Iterator[PageSection]:
    """The first entries of a real offset index."""
    yield (
        f"An .index has one entry for about every {DEFAULT_INDEX_INTERVAL_BYTES} bytes of its "
        "log: an "
        "offset relative to the segment's base offset, and the position of a batch from which "
        "that offset can be found. Each entry takes eight bytes; there is no header and no "
        "checksum. The index is sparse by design: it fits in memory, and the last few kilobytes "
        "are scanned."
    )
    file_and_entries = facts.find_index(OFFSET_INDEX_KIND)
    if file_and_entries is not None:
        file, entries = file_and_entries
        yield f"{file.name.rpartition('/')[2]} of {facts.source_label}, {len(entries)} entries:"
        lines = ["offset   byte in the log"]
        offsets_and_positions = zip(
            entries.offset.tolist(), entries.log_position.tolist(), strict=True
        )
        lines += [
            f"{offset:>6}   {position:>8}"
            for offset, position in islice(offsets_and_positions, _MAX_SHOWN_ROWS)
        ]
        yield lines
    yield (
        "The active segment's index is preallocated at its maximum size and filled from the "
        "front; when the segment is closed, the zeros after the last entry are trimmed. In a "
        "closed segment, trailing zeros are damage."
    )
    yield "Kafka: org.apache.kafka.storage.internals.log.OffsetIndex. kfmt index-check checks it."


def time_index_page(facts: PageFacts) -> Iterator[PageSection]:
    """The first entries of a real time index."""
    yield (
        "When a broker adds an offset index entry, it also adds twelve bytes to the .timeindex if "
        "the largest timestamp has grown since: that timestamp, and the offset up to which no "
        "record is newer. So the timestamps only increase, even "
        "if records arrive out of order. When a segment is closed, its largest timestamp is added "
        "as the last entry; retention uses that one."
    )
    file_and_entries = facts.find_index(TIME_INDEX_KIND)
    if file_and_entries is not None:
        file, entries = file_and_entries
        yield f"{file.name.rpartition('/')[2]} of {facts.source_label}, {len(entries)} entries:"
        yield [
            f"{format_time(int(entries.timestamp[i]))}   offset {entries.offset[i]}"
            for i in range(min(_MAX_SHOWN_ROWS, len(entries)))
        ]
    yield (
        "A lookup by timestamp picks the first segment whose last entry is not older, then the "
        "last entry at or below the timestamp, and scans from there. An empty time index, or one "
        "with a wrong last entry, misdirects every lookup for later segments."
    )
    yield "Kafka: org.apache.kafka.storage.internals.log.TimeIndex. kfmt index-check checks it."


def _choose_lookup_offset(facts: PageFacts) -> int:
    """An offset in the middle of the first index; without one, the first offset of the logs."""
    file_and_entries = facts.find_index(OFFSET_INDEX_KIND)
    if file_and_entries is None:
        return facts.logs[0].base_offset_or_zero
    offsets = file_and_entries[1].offset
    return int(offsets[len(offsets) // 2]) + 3


def _lookup_lines(facts: PageFacts, offset: int) -> list[str]:
    """Lines: the comparisons of the binary search, and the start and end of the scan."""
    segment = choose_segment(facts.partition_listing.segments, OFFSET_COLUMN, offset)
    lookup = lookup_in_segment(segment, OFFSET_COLUMN, offset, NEWEST_VERSION)
    lines = [f"1  segment    {lookup.log.rpartition('/')[2]}: the last whose name is not above"]
    for search in lookup.searches:
        lines.append(f"2  {search.entries} entries")
        lines += [
            f"     {step.low:>4} … {step.high:<4}  look at {step.middle}: "
            f"{step.value}, {step.verdict}"
            for step in search.steps
        ]
    skipped_text = f"{format_count(lookup.n_scanned, 'batch', 'batches')} skipped"
    lines.append(f"3  scan       from byte {lookup.scan_from}, {skipped_text}")
    if lookup.batch is not None:
        lines.append(
            f"4  found      byte {lookup.batch.position}, offsets {lookup.batch.base_offset}–"
            f"{lookup.batch.last_offset}"
        )
    return lines


def lookup_page(facts: PageFacts) -> Iterator[PageSection]:
    """A lookup by offset, step by step."""
    offset = _choose_lookup_offset(facts)
    yield (
        "When a consumer fetches an offset, the broker picks the segment by its name, searches "
        "its index for the greatest entry not above the offset, and scans batches from there "
        "until it has found the one with the offset. The end of the index is searched first and "
        "stays in memory, because most consumers read the newest records."
    )
    yield (
        "Kafka 3.9 and 4.0 take the first batch that ends at or after the offset. Since 4.1, the "
        "broker compares base offsets: it takes the batch before the first one that begins after "
        "the offset. If zeros follow a batch, 3.9 and 4.0 still return it; in 4.1 and 4.2, a "
        "fetch of any offset after its first one fails. To know the base offset of a compressed "
        "batch of magic 0 or 1, 4.0 and later decompress it."
    )
    yield f"Offset {offset} in {facts.source_label}:"
    yield _lookup_lines(facts, offset)
    yield (
        "Kafka: LogSegment.translateOffset, FileRecords, AbstractIndex. "
        "kfmt index-check --lookup-offset."
    )


def rolling_page(facts: PageFacts) -> Iterator[PageSection]:
    """The four reasons to roll, with the sizes of real segments."""
    yield (
        "Records are only ever appended to the last segment of a partition. Before each append, "
        "the broker checks whether to roll a new segment:"
    )
    yield [
        f"size     it would grow beyond segment.bytes ({DEFAULT_SEGMENT_BYTES >> 30} GiB)",
        "time     the batch is more than segment.ms (7 days) newer than the first",
        f"index    an index is full: segment.index.bytes ({DEFAULT_SEGMENT_INDEX_BYTES >> 20} MiB)",
        "offset   an offset is more than 2^31 - 1 above the segment's base offset",
    ]
    yield f"The segments of {facts.source_label}:"
    yield [
        f"{log.name.rpartition('/')[2]}  {file_size(log):>9} bytes"
        for log in facts.logs[:_MAX_SHOWN_ROWS]
    ]
    yield (
        "The new segment is named after its base offset, in 20 digits. Time means record time: an "
        "idle partition does not roll, however old it gets, until retention finds that everything "
        "in it has expired."
    )
    yield "Kafka: LogSegment.shouldRoll. kfmt retention shows what rolls the active segment next."


def retention_page(facts: PageFacts) -> Iterator[PageSection]:
    """Which segments are deleted, with the timestamps of real ones."""
    yield (
        "Every five minutes, a broker checks each partition with cleanup.policy=delete, oldest "
        "segment first, and stops at the first segment to keep; with compact,delete, the cleaner "
        "does so every 15 seconds. Only whole segments are deleted, and with compact alone only "
        "those before the log start offset:"
    )
    yield [
        "start    all of it is before the log start offset",
        "size     without it, the partition is still at least retention.bytes",
        "time     its largest timestamp is older than retention.ms",
    ]
    segment_lines = []
    for segment in facts.partition_listing.segments[:_MAX_SHOWN_ROWS]:
        if segment.log is None:
            continue
        with open_log(segment.log, read_ahead=False) as log:
            max_timestamps = [
                int(block.batches.max_timestamp.max()) for block in log.blocks if len(block.batches)
            ]
        if max_timestamps:
            log_name = segment.log.name.rpartition("/")[2]
            segment_lines.append(
                f"{log_name}  newest record {format_time(max(max_timestamps))[:19]}"
            )
    yield f"The segments of {facts.source_label}:"
    yield segment_lines
    yield (
        "The largest timestamp is the last time index entry. Without entries, the file's "
        "modification time counts; if the index ends in zeros, it is 1970 and the segment is "
        "deleted. A single record with a timestamp in the future keeps its segment and all later "
        "ones. When everything has expired, the active segment is rolled and deleted as well."
    )
    yield "Kafka: UnifiedLog.deleteOldSegments. kfmt retention shows this for each segment."


def compaction_page(facts: PageFacts) -> Iterator[PageSection]:
    """A cleaning, step by step."""
    n_keys_per_pass = int(DEFAULT_DEDUPE_BUFFER_BYTES // ENTRY_BYTES * LOAD_FACTOR)
    yield (
        "A compacted partition keeps the latest record per key. The log cleaner works on closed "
        "segments in two steps: it records the latest offset of each key in the dirty part, then "
        "rewrites everything up to the end of that part without the superseded records."
    )
    yield [
        "offset    0    1    2    3  |  4    5    6    7  |  8",
        "key       a    b    a    c  |  b    a    d    c  |  a",
        "          clean             |  dirty             |  active",
        "map                            b 4  a 5  d 6  c 7",
        "kept                           b    a    d    c     a",
    ]
    yield (
        "Records without a key are removed. A null value is a tombstone: it is kept for another "
        "delete.retention.ms so that consumers see the deletion. Records of aborted transactions "
        "are removed, and so is a marker once nothing of its transaction is left. The active "
        "segment, records newer than min.compaction.lag.ms and everything from the first open "
        "transaction onward are not cleaned."
    )
    yield (
        f"The map uses {ENTRY_BYTES} bytes per key: with the default buffer of "
        f"{DEFAULT_DEDUPE_BUFFER_BYTES >> 20} MiB, {n_keys_per_pass} keys per pass. A partition is "
        "picked when more "
        "than half of its bytes are dirty (min.cleanable.dirty.ratio), or when a dirty record is "
        "older than max.compaction.lag.ms."
    )
    shown_path = facts.partition_listing.path if not facts.is_sample else "PATH"
    yield f"kfmt compaction {shown_path} shows what is kept."
    yield "Kafka: kafka.log.LogCleaner, SkimpyOffsetMap."


def leader_epochs_page(facts: PageFacts) -> Iterator[PageSection]:
    """The epochs of a real partition."""
    yield (
        "Each time a partition gets a new leader, its leader epoch increases by one, and the "
        "leader writes the epoch into every batch. leader-epoch-checkpoint lists the start offset "
        "of each epoch. A returning follower asks the leader where its last epoch ended and "
        "truncates its log there: anything beyond is unknown to later leaders."
    )
    start_offset_by_epoch: dict[int, int] = {}
    for block in facts.iter_blocks():
        epoch_and_offset_columns = (
            block.batches[column_name].tolist()
            for column_name in ("partition_leader_epoch", "base_offset")
        )
        for epoch, offset in zip(*epoch_and_offset_columns, strict=True):
            start_offset_by_epoch.setdefault(epoch, offset)
    yield f"{facts.source_label}:"
    yield [
        f"epoch {epoch:>3} from offset {offset}"
        for epoch, offset in sorted(start_offset_by_epoch.items())[:_MAX_SHOWN_ROWS]
    ]
    yield (
        "Before KIP-101, followers truncated to the high watermark and could lose records or "
        "diverge from their leader permanently. kfmt diff uses epochs to show where two replicas "
        "diverged."
    )
    yield "Kafka: LeaderEpochFileCache."


def recovery_page(facts: PageFacts) -> Iterator[PageSection]:
    """What a broker does when it starts, and what that depends on."""
    yield (
        "After a clean shutdown, a broker leaves .kafka_cleanshutdown. A broker that finds this "
        "file trusts its logs: it derives each log end offset from the last entry of the last "
        "index, opens the indexes, and loads producer state from the newest snapshot. Without the "
        "file, it recovers every segment from the recovery point onward:"
    )
    yield [
        "for each batch of the segment",
        "    size valid, checksum correct?         no: truncate the log here,",
        "                                              delete all later segments",
        "    offsets within the segment's range?   no: split it, or fail to start",
        "    update the indexes and producer state",
    ]
    last_log = facts.logs[-1]
    yield (
        f"{facts.source_label} has {len(facts.logs)} segments; with the recovery point at its end "
        f"only {last_log.name.rpartition('/')[2]} would be recovered, {file_size(last_log)} bytes."
    )
    yield (
        "So one flipped bit in an old segment costs everything after it if that segment is "
        "recovered; after a clean shutdown, it costs consumers that one batch. kfmt check "
        "predicts both starts for each partition."
    )
    yield "Kafka: LogLoader, LogSegment.recover."
