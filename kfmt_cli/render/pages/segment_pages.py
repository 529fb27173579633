"""Pages about segments: indexes, look-ups, rolling, retention, compaction, epochs, recovery."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kfmt_cli.broker.defaults import (
    DEDUPE_BUFFER_BYTES,
    INDEX_INTERVAL_BYTES,
    SEGMENT_BYTES,
    SEGMENT_INDEX_BYTES,
)
from kfmt_cli.broker.lookup import choose, look_up
from kfmt_cli.broker.offset_map import ENTRY, LOAD
from kfmt_cli.core.times import time_text
from kfmt_cli.disk.tree import size_of
from kfmt_cli.log.open_log import open_log
from kfmt_cli.render.pages.page import PageFacts, Part
from kfmt_cli.render.style import count

_ROWS = 5


def offset_index(facts: PageFacts) -> Iterator[Part]:
    """The first entries of a real offset index."""
    yield (
        "An .index has an entry for about every "
        f"{INDEX_INTERVAL_BYTES} bytes of its log: an offset, counted from the segment's base, and "
        "the byte where a batch begins from which that offset can be found. Eight bytes an entry, "
        "no header, no checksum. It is sparse on purpose: it fits into memory, and the last few "
        "kilobytes are found by reading on."
    )
    found = facts.offset_index
    if found is not None:
        file, table = found
        yield f"{file.name.rpartition('/')[2]} of {facts.words}, {len(table)} entries:"
        lines = ["offset   byte in the log"]
        pairs = zip(table["offset"].tolist(), table["log_position"].tolist(), strict=True)
        lines += [f"{offset:>6}   {position:>8}" for offset, position in islice(pairs, _ROWS)]
        yield lines
    yield (
        "The active segment's index is made as large as it may become and filled from the front; "
        "the zeros after the last entry are cut when the segment is closed. In a closed segment "
        "zeros are damage."
    )
    yield "Kafka: org.apache.kafka.storage.internals.log.OffsetIndex. kfmt index-check checks it."


def time_index(facts: PageFacts) -> Iterator[Part]:
    """The first entries of a real time index."""
    yield (
        "A .timeindex has an entry for each entry of the offset index, twelve bytes: the largest "
        "timestamp so far, and the offset up to which nothing is younger. Timestamps only grow in "
        "it, though records come in any order. When a segment is closed, its largest timestamp is "
        "the last entry: retention goes by that one."
    )
    found = facts.time_index
    if found is not None:
        file, table = found
        yield f"{file.name.rpartition('/')[2]} of {facts.words}, {len(table)} entries:"
        yield [
            f"{time_text(int(table['timestamp'][i]))}   offset {table['offset'][i]}"
            for i in range(min(_ROWS, len(table)))
        ]
    yield (
        "A look-up by time takes the first segment whose last entry is not older, then the entry "
        "below the time, then reads on. A time index that is empty, or whose last entry is wrong, "
        "sends every look-up for later segments astray."
    )
    yield "Kafka: org.apache.kafka.storage.internals.log.TimeIndex. kfmt index-check checks it."


def _target(facts: PageFacts) -> int:
    """An offset in the middle of the first segment's index."""
    found = facts.offset_index
    return int(found[1]["offset"][len(found[1]) // 2]) + 3 if found is not None else 0


def _steps(facts: PageFacts, offset: int) -> list[str]:
    """The comparisons of the binary search, and where the scan begins and ends."""
    segment = choose(
        [segment for segment in facts.folder.segments if segment.log is not None], offset, None
    )
    done = look_up(segment, offset, None)
    lines = [f"1  segment    {done.log.rpartition('/')[2]}: the last whose name is not above"]
    for search in done.searches:
        lines.append(f"2  {search.entries} entries")
        lines += [
            f"     {step.low:>4} … {step.high:<4}  look at {step.middle}: "
            f"{step.value}, {step.verdict}"
            for step in search.steps
        ]
    passed = f"{count(done.n_scanned, 'batch', 'batches')} passed over"
    lines.append(f"3  scan       from byte {done.scan_from}, {passed}")
    if done.batch is not None:
        lines.append(
            f"4  found      byte {done.batch['position']}, offsets {done.batch['base_offset']}–"
            f"{done.batch['last_offset']}"
        )
    return lines


def finding_an_offset(facts: PageFacts) -> Iterator[Part]:
    """A look-up of an offset, step by step."""
    offset = _target(facts)
    yield (
        "A consumer asks for an offset. The broker takes the segment by its name, searches that "
        "segment's index for the greatest entry that is not above the offset, and reads batches "
        "from there on until one ends at the offset or after it. The end of an index, which "
        "stays in memory, is tried first, as most consumers read what is new."
    )
    yield f"Offset {offset} in {facts.words}:"
    yield _steps(facts, offset)
    yield "Kafka: LogSegment.translateOffset, AbstractIndex. kfmt index-check --lookup-offset."


def rolling(facts: PageFacts) -> Iterator[Part]:
    """The four reasons, with the sizes of real segments."""
    yield (
        "Records are only ever appended to the last segment of a partition. An append first asks "
        "whether a new segment has to begin:"
    )
    yield [
        f"size     it would grow beyond segment.bytes ({SEGMENT_BYTES >> 30} GiB)",
        "time     the batch is more than segment.ms (7 days) younger than the first",
        f"index    an index is full: segment.index.bytes ({SEGMENT_INDEX_BYTES >> 20} MiB)",
        "offset   an offset is more than 2^31 - 1 above the segment's base offset",
    ]
    yield f"The segments of {facts.words}:"
    yield [f"{log.name.rpartition('/')[2]}  {size_of(log):>9} bytes" for log in facts.logs[:_ROWS]]
    yield (
        "The new segment is named for the next offset, in 20 digits. Time is that of the records: "
        "a partition to which nothing is written does not roll, however old it becomes, until "
        "retention finds all of it expired."
    )
    yield "Kafka: LogSegment.shouldRoll. kfmt retention says what rolls the active segment next."


def retention(facts: PageFacts) -> Iterator[Part]:
    """Which segments go, by the times of real ones."""
    yield (
        "Every five minutes a broker looks at each partition whose cleanup.policy has delete, "
        "oldest segment first, and stops at the first that stays. Whole segments go, never parts:"
    )
    yield [
        "start    everything in it lies before the log start offset",
        "size     without it the partition is still as large as retention.bytes",
        "time     its largest timestamp is more than retention.ms ago",
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
            lines.append(f"{name}  youngest record {time_text(max(times))[:19]}")
    yield f"The segments of {facts.words}:"
    yield lines
    yield (
        "The largest timestamp is the last entry of the time index. Without an entry it is the "
        "file's time; if the index ends in zeros it is 1970, and the segment goes. One record with "
        "a timestamp in the future keeps its segment and all after it. When everything has "
        "expired, the active segment is rolled and goes as well."
    )
    yield "Kafka: UnifiedLog.deleteOldSegments. kfmt retention says it of each segment."


def compaction(facts: PageFacts) -> Iterator[Part]:
    """What a cleaning does, step by step."""
    keys = int(DEDUPE_BUFFER_BYTES // ENTRY * LOAD)
    yield (
        "A compacted partition keeps the latest record of each key. The cleaner goes over closed "
        "segments in two rounds: it notes the latest offset of each key of the dirty part, then "
        "writes everything before that anew, without what has a later one."
    )
    yield [
        "offset    0    1    2    3  |  4    5    6    7  |  8",
        "key       a    b    a    c  |  b    a    d    c  |  a",
        "          clean             |  dirty             |  active",
        "map                            b 4  a 5  d 6  c 7",
        "stays                          b    a    d    c     a",
    ]
    yield (
        "A record without a key is removed. A null value is a tombstone: it stays for another "
        "delete.retention.ms, so that consumers see that the key is gone. Records of aborted "
        "transactions go, and a marker when nothing of its transaction is left. The active "
        "segment, what is younger than min.compaction.lag.ms, and everything from the first open "
        "transaction on is left alone."
    )
    yield (
        f"The map takes {ENTRY} bytes a key: with the default buffer of "
        f"{DEDUPE_BUFFER_BYTES >> 20} MiB, "
        f"{keys} keys a pass. A partition is picked when more than half of its bytes are dirty "
        "(min.cleanable.dirty.ratio), or something is older than max.compaction.lag.ms."
    )
    yield f"kfmt compaction {facts.folder.path if not facts.is_sample else 'PATH'} says what stays."
    yield "Kafka: kafka.log.LogCleaner, SkimpyOffsetMap."


def leader_epochs(facts: PageFacts) -> Iterator[Part]:
    """The epochs of a real partition."""
    yield (
        "Each time a partition gets a leader, its epoch goes up by one, and the leader writes the "
        "epoch into every batch. leader-epoch-checkpoint lists where each began. A follower that "
        "comes back asks the leader where its last epoch ended, and cuts its log there: what it "
        "has beyond that no leader of a later epoch has."
    )
    seen: dict[int, int] = {}
    for file in facts.logs:
        with open_log(file, read_ahead=False) as log:
            for block in log.blocks:
                pairs = (
                    block.batches[name].tolist()
                    for name in ("partition_leader_epoch", "base_offset")
                )
                for epoch, offset in zip(*pairs, strict=True):
                    seen.setdefault(epoch, offset)
    yield f"{facts.words}:"
    yield [
        f"epoch {epoch:>3} from offset {offset}" for epoch, offset in sorted(seen.items())[:_ROWS]
    ]
    yield (
        "Before KIP-101 followers went by the high watermark, and could lose records or part from "
        "their leader for good. kfmt diff shows where two replicas parted, by epochs."
    )
    yield "Kafka: LeaderEpochFileCache."


def recovery(facts: PageFacts) -> Iterator[Part]:
    """What a start does, and what decides."""
    yield (
        "A broker that is stopped in an orderly way leaves .kafka_cleanshutdown. One that finds "
        "it believes its logs: it takes the end of each from the last entry of the last index, "
        "opens the indexes, and reads the state of producers from the newest snapshot. One that "
        "does not find it recovers every segment from the recovery point on:"
    )
    yield [
        "for each batch of the segment",
        "    is its size possible, its checksum right?   no: cut the log here,",
        "                                                delete every later segment",
        "    do its offsets fit the segment?             no: split it, or do not start",
        "    add to the indexes, to the state of producers",
    ]
    last = facts.logs[-1]
    yield (
        f"{facts.words} has {len(facts.logs)} segments; with the recovery point at its end only "
        f"{last.name.rpartition('/')[2]} would be recovered, {size_of(last)} bytes."
    )
    yield (
        "So one flipped bit in an old segment costs everything after it, where it is recovered; "
        "after a clean shutdown it costs consumers that one batch. kfmt check says for each "
        "partition what either start would make of it."
    )
    yield "Kafka: LogLoader, LogSegment.recover."
