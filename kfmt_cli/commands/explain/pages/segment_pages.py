"""Pages about segments: indexes, lookups, rolling, retention, compaction, epochs, recovery."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kfmt_cli.broker.defaults import (
    DEDUPE_BUFFER_BYTES,
    INDEX_INTERVAL_BYTES,
    SEGMENT_BYTES,
    SEGMENT_INDEX_BYTES,
)
from kfmt_cli.broker.offsets.lookup import OFFSET, choose, look_up
from kfmt_cli.broker.offsets.offset_map import ENTRY, LOAD
from kfmt_cli.broker.version import NEWEST
from kfmt_cli.commands.explain.pages.page import PageFacts, Part
from kfmt_cli.core.times import time_text
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX
from kfmt_cli.disk.tree import size_of
from kfmt_cli.log.open_log import open_log
from kfmt_cli.render.style import count

_ROWS = 5


def offset_index(facts: PageFacts) -> Iterator[Part]:
    """The first entries of a real offset index."""
    yield (
        f"An .index has one entry for about every {INDEX_INTERVAL_BYTES} bytes of its log: an "
        "offset relative to the segment's base offset, and the position of a batch from which "
        "that offset can be found. Each entry takes eight bytes; there is no header and no "
        "checksum. The index is sparse by design: it fits in memory, and the last few kilobytes "
        "are scanned."
    )
    found = facts.index(OFFSET_INDEX)
    if found is not None:
        file, table = found
        yield f"{file.name.rpartition('/')[2]} of {facts.words}, {len(table)} entries:"
        lines = ["offset   byte in the log"]
        pairs = zip(table.offset.tolist(), table.log_position.tolist(), strict=True)
        lines += [f"{offset:>6}   {position:>8}" for offset, position in islice(pairs, _ROWS)]
        yield lines
    yield (
        "The active segment's index is preallocated at its maximum size and filled from the "
        "front; when the segment is closed, the zeros after the last entry are trimmed. In a "
        "closed segment, trailing zeros are damage."
    )
    yield "Kafka: org.apache.kafka.storage.internals.log.OffsetIndex. kfmt index-check checks it."


def time_index(facts: PageFacts) -> Iterator[Part]:
    """The first entries of a real time index."""
    yield (
        "When a broker adds an offset index entry, it also adds twelve bytes to the .timeindex if "
        "the largest timestamp has grown since: that timestamp, and the offset up to which no "
        "record is newer. So the timestamps only increase, even "
        "if records arrive out of order. When a segment is closed, its largest timestamp is added "
        "as the last entry; retention uses that one."
    )
    found = facts.index(TIME_INDEX)
    if found is not None:
        file, table = found
        yield f"{file.name.rpartition('/')[2]} of {facts.words}, {len(table)} entries:"
        yield [
            f"{time_text(int(table.timestamp[i]))}   offset {table.offset[i]}"
            for i in range(min(_ROWS, len(table)))
        ]
    yield (
        "A lookup by timestamp picks the first segment whose last entry is not older, then the "
        "last entry at or below the timestamp, and scans from there. An empty time index, or one "
        "with a wrong last entry, misdirects every lookup for later segments."
    )
    yield "Kafka: org.apache.kafka.storage.internals.log.TimeIndex. kfmt index-check checks it."


def _target(facts: PageFacts) -> int:
    """An offset in the middle of the first segment's index."""
    found = facts.index(OFFSET_INDEX)
    return int(found[1].offset[len(found[1]) // 2]) + 3 if found is not None else 0


def _steps(facts: PageFacts, offset: int) -> list[str]:
    """The comparisons of the binary search, and the start and end of the scan."""
    segment = choose(facts.folder.segments, OFFSET, offset)
    done = look_up(segment, OFFSET, offset, NEWEST)
    lines = [f"1  segment    {done.log.rpartition('/')[2]}: the last whose name is not above"]
    for search in done.searches:
        lines.append(f"2  {search.entries} entries")
        lines += [
            f"     {step.low:>4} … {step.high:<4}  look at {step.middle}: "
            f"{step.value}, {step.verdict}"
            for step in search.steps
        ]
    passed = f"{count(done.n_scanned, 'batch', 'batches')} skipped"
    lines.append(f"3  scan       from byte {done.scan_from}, {passed}")
    if done.batch is not None:
        lines.append(
            f"4  found      byte {done.batch.position}, offsets {done.batch.base_offset}–"
            f"{done.batch.last_offset}"
        )
    return lines


def finding_an_offset(facts: PageFacts) -> Iterator[Part]:
    """A lookup by offset, step by step."""
    offset = _target(facts)
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
    yield f"Offset {offset} in {facts.words}:"
    yield _steps(facts, offset)
    yield (
        "Kafka: LogSegment.translateOffset, FileRecords, AbstractIndex. "
        "kfmt index-check --lookup-offset."
    )


def rolling(facts: PageFacts) -> Iterator[Part]:
    """The four reasons to roll, with the sizes of real segments."""
    yield (
        "Records are only ever appended to the last segment of a partition. Before each append, "
        "the broker checks whether to roll a new segment:"
    )
    yield [
        f"size     it would grow beyond segment.bytes ({SEGMENT_BYTES >> 30} GiB)",
        "time     the batch is more than segment.ms (7 days) newer than the first",
        f"index    an index is full: segment.index.bytes ({SEGMENT_INDEX_BYTES >> 20} MiB)",
        "offset   an offset is more than 2^31 - 1 above the segment's base offset",
    ]
    yield f"The segments of {facts.words}:"
    yield [f"{log.name.rpartition('/')[2]}  {size_of(log):>9} bytes" for log in facts.logs[:_ROWS]]
    yield (
        "The new segment is named after its base offset, in 20 digits. Time means record time: an "
        "idle partition does not roll, however old it gets, until retention finds that everything "
        "in it has expired."
    )
    yield "Kafka: LogSegment.shouldRoll. kfmt retention shows what rolls the active segment next."


def retention(facts: PageFacts) -> Iterator[Part]:
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
    lines = []
    for segment in facts.folder.segments[:_ROWS]:
        if segment.log is None:
            continue
        with open_log(segment.log, read_ahead=False) as log:
            times = [
                int(block.batches.max_timestamp.max()) for block in log.blocks if len(block.batches)
            ]
        if times:
            name = segment.log.name.rpartition("/")[2]
            lines.append(f"{name}  newest record {time_text(max(times))[:19]}")
    yield f"The segments of {facts.words}:"
    yield lines
    yield (
        "The largest timestamp is the last time index entry. Without entries, the file's "
        "modification time counts; if the index ends in zeros, it is 1970 and the segment is "
        "deleted. A single record with a timestamp in the future keeps its segment and all later "
        "ones. When everything has expired, the active segment is rolled and deleted as well."
    )
    yield "Kafka: UnifiedLog.deleteOldSegments. kfmt retention shows this for each segment."


def compaction(facts: PageFacts) -> Iterator[Part]:
    """A cleaning, step by step."""
    keys = int(DEDUPE_BUFFER_BYTES // ENTRY * LOAD)
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
        f"The map uses {ENTRY} bytes per key: with the default buffer of "
        f"{DEDUPE_BUFFER_BYTES >> 20} MiB, {keys} keys per pass. A partition is picked when more "
        "than half of its bytes are dirty (min.cleanable.dirty.ratio), or when a dirty record is "
        "older than max.compaction.lag.ms."
    )
    path = facts.folder.path if not facts.is_sample else "PATH"
    yield f"kfmt compaction {path} shows what is kept."
    yield "Kafka: kafka.log.LogCleaner, SkimpyOffsetMap."


def leader_epochs(facts: PageFacts) -> Iterator[Part]:
    """The epochs of a real partition."""
    yield (
        "Each time a partition gets a new leader, its leader epoch increases by one, and the "
        "leader writes the epoch into every batch. leader-epoch-checkpoint lists the start offset "
        "of each epoch. A returning follower asks the leader where its last epoch ended and "
        "truncates its log there: anything beyond is unknown to later leaders."
    )
    seen: dict[int, int] = {}
    for block in facts.blocks():
        pairs = (block.batches[name].tolist() for name in ("partition_leader_epoch", "base_offset"))
        for epoch, offset in zip(*pairs, strict=True):
            seen.setdefault(epoch, offset)
    yield f"{facts.words}:"
    yield [
        f"epoch {epoch:>3} from offset {offset}" for epoch, offset in sorted(seen.items())[:_ROWS]
    ]
    yield (
        "Before KIP-101, followers truncated to the high watermark and could lose records or "
        "diverge from their leader permanently. kfmt diff uses epochs to show where two replicas "
        "diverged."
    )
    yield "Kafka: LeaderEpochFileCache."


def recovery(facts: PageFacts) -> Iterator[Part]:
    """What a broker does at a start, and what that depends on."""
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
    last = facts.logs[-1]
    yield (
        f"{facts.words} has {len(facts.logs)} segments; with the recovery point at its end only "
        f"{last.name.rpartition('/')[2]} would be recovered, {size_of(last)} bytes."
    )
    yield (
        "So one flipped bit in an old segment costs everything after it if that segment is "
        "recovered; after a clean shutdown, it costs consumers that one batch. kfmt check "
        "predicts both starts for each partition."
    )
    yield "Kafka: LogLoader, LogSegment.recover."
