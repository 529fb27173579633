"""stat: what topics, partitions or segments hold, in numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from kfmt_cli.broker.seek import blocks_from
from kfmt_cli.commands.log_files import LogFiles, partitions_below, tell_log_start
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.compress import compress
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.source import open_source
from kfmt_cli.core.times import time_text
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.names import partition_of
from kfmt_cli.disk.tree import size_of
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import HEADER_SIZE
from kfmt_cli.log.decompress import decompress_ahead
from kfmt_cli.log.reader import BLOCK, LogReader
from kfmt_cli.log.statistics import Statistics, buckets_of
from kfmt_cli.render.style import clip_left, count, grouped, safe
from kfmt_cli.rows.documents import STATISTICS, WHAT_IF
from kfmt_cli.sharing.processes import MANY_BYTES, at_once, map_processes

SAMPLE = 8 << 20  # bytes of records that another codec is tried on, of each partition
TOPIC, PARTITION, SEGMENT = "topic", "partition", "segment"
_BARS = "▁▂▃▄▅▆▇█"
_HEADS = (
    *("bytes", "batches", "records", "rec/batch", "B/batch", "codecs", "dense", "producers"),
    *("from", "to"),
)


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec to try."""

    name: str
    level: int | None = None
    """None for the producer's own."""

    @property
    def words(self) -> str:
        """As it is asked for."""
        return self.name if self.level is None else f"{self.name}:{self.level}"


@dataclass(slots=True)
class Trial:
    """What a codec makes of a sample."""

    plain: int = 0
    """Bytes of records."""
    before: int = 0
    """In batches as they are stored, and as they would be."""
    after: int = 0
    """In batches as they are stored, and as they would be."""
    seconds: float = 0.0
    """Seconds that compressing took."""

    def add(self, other: Trial) -> None:
        """Another sample."""
        self.plain += other.plain
        self.before += other.before
        self.after += other.after
        self.seconds += other.seconds


@dataclass(slots=True)
class Stat:
    """One call of `stat`."""

    run: Run
    by: str = PARTITION
    """What a row is."""
    deep: bool = False
    """Records are read, too."""
    what_if: tuple[Codec, ...] = ()
    """Codecs to try."""
    histogram: bool = False
    """People are shown how batches are spread, too."""
    jobs: int = 1
    limit: Limit = field(default_factory=Limit)

    def paths(self, paths: tuple[str, ...]) -> None:
        """Show the numbers of everything below some paths."""
        partitions = partitions_below(paths, self.run.complain)
        for partition in partitions:
            tell_log_start(self.run, partition)
        logs = [(partition, file) for partition in partitions for file in partition.logs]
        total = sum(size_of(file) for _, file in logs)
        work = partial(look, deep=self.deep, limit=self.limit)
        files = [file for _, file in logs]
        jobs = self.jobs if total >= MANY_BYTES else 1
        outcomes = map_processes(work, files, jobs, at_once(len(files), jobs))
        rows: dict[str, Statistics] = {}
        with self.run.host.progress(total) as progress:
            for (partition, file), found in zip(logs, outcomes, strict=True):
                progress.advance(size_of(file))
                if isinstance(found, str):
                    self.run.complain(found)
                    continue
                rows.setdefault(self._name(partition, file), Statistics()).add(found)
        self._show(rows)
        for codec in self.what_if:
            self._try(codec, partitions)
        self.run.sink.flush()

    def _name(self, partition: LogFiles, file: Input) -> str:
        """The row that a log belongs to."""
        if self.by == SEGMENT:
            return file.name
        topic = partition_of(file.path)[0]
        return topic if self.by == TOPIC and topic is not None else partition.name

    def _show(self, rows: dict[str, Statistics]) -> None:
        sink = self.run.sink
        if len(rows) > 1 and sink.for_people:
            everything = Statistics()
            for it in rows.values():
                everything.add(it)
            rows = {**rows, "all": everything}
        cells = [[safe(name), *_cells(row)] for name, row in rows.items()]
        heads = [self.by, *_HEADS]
        widths = [max(len(row[i]) for row in [heads, *cells]) for i in range(len(heads))]
        room = sink.out.width or 1 << 20
        shown = list(range(len(heads)))
        # What matters less goes first.
        for column in (10, 9, 8, 7, 5, 4):
            if sink.look.wide or sum(widths[i] + 2 for i in shown) <= room:
                break
            shown.remove(column)
        widths[0] = max(min(widths[0], room - sum(widths[i] + 2 for i in shown[1:]) - 1), 8)
        for i, (name, row) in enumerate(zip(rows, cells, strict=True)):
            it = rows[name]
            lines = [sink.out.theme.paint("bold", _line(heads, widths, shown))] if i == 0 else []
            lines.append(_line(row, widths, shown))
            lines += _more(it) if self.deep or self.histogram else []
            sink.document(STATISTICS, {"file": name, **stat_row(it)}, lines)

    def _try(self, codec: Codec, partitions: list[LogFiles]) -> None:
        """What another codec would make of a sample of each partition."""
        total = Trial()
        for partition in partitions:
            try:
                total.add(trial(partition, codec, self.limit))
            except InputError as error:
                self.run.complain(str(error))
        saved = 1 - total.after / total.before if total.before else 0.0
        row: dict[str, object] = {
            "codec": codec.words,
            "sample_bytes": total.plain,
            "stored_bytes": total.before,
            "would_be_bytes": total.after,
            "saved": round(saved, 4),
            "seconds": round(total.seconds, 3),
        }
        words = "smaller" if saved >= 0 else "larger"
        line = (
            f"{codec.words}: {grouped(total.after)} bytes instead of {grouped(total.before)} in a "
            f"sample, {abs(saved):.1%} {words}"
        )
        if total.seconds:
            line += f"; compresses {total.plain / total.seconds / 1e6:.0f} MB/s"
        self.run.sink.document(WHAT_IF, row, [f"{line}\n"])


def look(file: Input, deep: bool, limit: Limit) -> Statistics | str:
    """The numbers of a log, or why it cannot be read."""
    found = Statistics(segments=1)
    try:
        source = open_source(file.path, file.name)
    except InputError as error:
        return str(error)
    try:
        reader = LogReader(source, file.base_offset, checked=deep, first_block=BLOCK)
        for block in reader.blocks():
            found.take(block)
            if deep:
                found.look_inside(block, limit)
        found.finish(reader.bytes_read)
    except InputError as error:
        return str(error)
    finally:
        source.close()
    return found


def trial(partition: LogFiles, codec: Codec, limit: Limit) -> Trial:
    """What a codec makes of the first records of each of a partition's logs; raises InputError."""
    found = Trial()
    share = SAMPLE // max(len(partition.logs), 1)
    for file in partition.logs:
        found.add(_trial(file, codec, limit, max(share, 1 << 20)))
        if found.plain >= SAMPLE:
            break
    return found


def _trial(file: Input, codec: Codec, limit: Limit, most: int) -> Trial:
    found = Trial()
    for block in blocks_from(file):
        sound = (block.batches.crc_valid == 1) & (block.batches.is_v2 == 1)
        block.batches = block.batches.select(sound & (block.batches.control == 0))
        for part in decompress_ahead(block, limit):
            data, starts, ends = part.decompressed or (
                part.data,
                part.batches.start + HEADER_SIZE,
                part.batches.end,
            )
            began = time.perf_counter()
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                plain = data[start:end]
                made = compress(codec.name, plain, 2, codec.level)
                found.after += HEADER_SIZE + len(made)
                found.plain += len(plain)
            found.seconds += time.perf_counter() - began
            found.before += int(part.batches.size.sum())
        if found.plain >= most:
            break
    return found


def stat_row(it: Statistics) -> dict[str, object]:
    """The numbers for programs."""
    return {
        "segments": it.segments,
        "bytes": it.bytes,
        "batches": it.batches,
        "records": it.records,
        "records_per_batch": _per(it.records, it.batches),
        "bytes_per_batch": _per(it.bytes, it.batches),
        "bytes_per_record": _per(it.bytes, it.records),
        "codecs": it.codecs,
        "compression_ratio": None if it.ratio is None else round(it.ratio, 3),
        "first_offset": it.first_offset,
        "last_offset": it.last_offset,
        "offset_density": None if it.density is None else round(it.density, 4),
        "min_timestamp": it.min_timestamp,
        "max_timestamp": it.max_timestamp,
        "timestamp_skew_ms": it.skew,
        "producers": len(it.producers),
        "transactional_batches": it.transactional,
        "control_batches": it.control,
        "null_keys": it.null_keys,
        "empty_keys": it.empty_keys,
        "tombstones": it.tombstones,
        "records_histogram": [list(pair) for pair in buckets_of(it.record_buckets)],
        "bytes_histogram": [list(pair) for pair in buckets_of(it.byte_buckets)],
    }


def _per(number: int, of: int) -> float | None:
    return round(number / of, 2) if of else None


def _cells(it: Statistics) -> list[str]:
    codecs = ", ".join(sorted(it.codecs, key=lambda name: -it.codecs[name])) or "–"
    times = (it.min_timestamp, it.max_timestamp)
    return [
        grouped(it.bytes),
        grouped(it.batches),
        grouped(it.records),
        f"{it.records / it.batches:.1f}" if it.batches else "–",
        grouped(it.bytes // it.batches) if it.batches else "–",
        codecs,
        "–" if it.density is None else f"{it.density:.0%}",
        grouped(len(it.producers)),
        *("–" if at is None else time_text(at)[:19] for at in times),
    ]


def _line(cells: list[str], widths: list[int], shown: list[int]) -> str:
    parts = [f" {clip_left(cells[0], widths[0]):<{widths[0]}}"]
    parts += [f"{cells[i]:>{widths[i]}}" for i in shown[1:]]
    return "  ".join(parts) + "\n"


def _more(it: Statistics) -> Iterator[str]:
    """What does not fit into a line."""
    for words, counts in (("records", it.record_buckets), ("bytes", it.byte_buckets)):
        pairs = list(buckets_of(counts))
        if pairs:
            most = max(n for _, n in pairs)
            bars = "".join(_BARS[(len(_BARS) - 1) * n // most] for _, n in pairs)
            least, largest = grouped(pairs[0][0]), grouped(pairs[-1][0])
            ends = f"{least} to {largest}" if len(pairs) > 1 else largest
            yield f"   {words} a batch  {bars}  in buckets up to {ends}\n"
    if it.null_keys is not None:
        parts = [
            f"{grouped(it.null_keys)} null keys",
            f"{grouped(it.empty_keys or 0)} empty keys",
            count(it.tombstones or 0, "tombstone"),
        ]
        if it.ratio is not None:
            parts.append(f"compressed {it.ratio:.2f} to 1")
        parts.append(f"timestamps up to {grouped(it.skew)} ms behind")
        yield f"   {', '.join(parts)}\n"
