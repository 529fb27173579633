"""Statistics of a log, from its batch headers and, on request, its records."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.log.block import HEADER_SIZE, Block, runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.decompress import decompress_ahead
from kfmt_cli.rows.log_tables import BatchTable

BUCKETS = 41  # powers of two
MOST_CODES = 8  # codecs and magics that a batch can name
LEAST_SLICES = 10  # the fewest for an error estimate
SURE = 1.96  # standard errors to each side, for 95 % confidence
_MERGED: dict[str, Callable[..., object]] = {
    **dict.fromkeys(
        (
            *("segments", "damaged", "bytes", "batches", "in_batches", "records", "span", "hidden"),
            *("transactional_batches", "control_batches", "codecs", "magics"),
            *("record_buckets", "byte_buckets", "packed", "unpacked"),
            *("null_keys", "empty_keys", "tombstones", "of_bytes", "slices"),
        ),
        operator.add,
    ),
    **dict.fromkeys(("first_offset", "min_timestamp"), min),
    **dict.fromkeys(("last_offset", "max_timestamp", "timestamp_skew_ms"), max),
    "producer_ids": operator.ior,
}
"""How the numbers of two logs become those of both, where both are known."""


@dataclass(slots=True)
class Statistics:
    """Statistics of one or several logs."""

    segments: int = 0
    damaged: int = 0
    """Batches that fail their checksums, if these were checked."""
    bytes: int = 0
    batches: int = 0
    in_batches: int = 0
    """Bytes of the batches; a preallocated log has more."""
    records: int = 0
    codecs: Counter[str] = field(default_factory=Counter)
    """Batches of each codec."""
    magics: Counter[str] = field(default_factory=Counter)
    """Batches of each magic."""
    record_buckets: IntArray = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))
    """Batches by number of records, in buckets that end at powers of two."""
    byte_buckets: IntArray = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))
    """Batches by size in bytes, in the same buckets."""
    first_offset: int | None = None
    last_offset: int | None = None
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    span: int = 0
    """Offsets from the first to the last of each log, in total."""
    hidden: int = 0
    """Wrappers of magic 0 and 1 with an unknown number of records."""
    timestamp_skew_ms: int = 0
    """The most by which a batch's timestamp was below the largest so far."""
    producer_ids: set[int] = field(default_factory=set)
    transactional_batches: int = 0
    control_batches: int = 0
    packed: int | None = None
    """Bytes of the records of compressed batches, as stored."""
    unpacked: int | None = None
    """Bytes of the records of compressed batches, decompressed."""
    null_keys: int | None = None
    """Records without a key. This and the next two are None if records were not read."""
    empty_keys: int | None = None
    tombstones: int | None = None
    of_bytes: int | None = None
    """For a sample: the total bytes."""
    slices: list[tuple[int, int]] = field(default_factory=list)
    """For a sample: records and bytes of each slice."""
    sampled_bytes: int | None = None
    """For an estimate from a sample: the bytes read."""
    sample_error: float | None = None
    """For an estimate: the relative error of the records, with 95 % confidence; None if
    unknown."""

    def take(self, block: Block, *, is_counted: bool = False) -> None:
        """Add the next block, by its headers. is_counted: `records_count` is valid for wrappers as
        well."""
        batches = block.batches
        if len(batches):
            owner = np.zeros(len(batches), np.int64)
            before = -1 if self.max_timestamp is None else self.max_timestamp
            self._join(*statistics_of(batches, owner, 1, is_counted=is_counted, before=before))

    def look_inside(self, block: Block, limit: Limit, findings: list[Finding]) -> None:
        """Add the same block's records. findings: gets those about batches that cannot be
        decoded."""
        sound = block.batches.crc_valid == 1
        part = Block(block.name, block.data, block.position, block.batches.select(sound))
        for run in (run for piece in decompress_ahead(part, limit) for run in runs(piece)):
            records = read_records(run, limit)
            findings += [*run.findings, *records.findings]
            rows, batches, owner = records.rows, run.batches, records.owner
            data = (batches.control[owner] == 0) | (batches.is_v2[owner] == 0)
            sizes = rows.key_size[data]
            found = Statistics(
                null_keys=int((sizes < 0).sum()),
                empty_keys=int((sizes == 0).sum()),
                tombstones=int((rows.value_size[data] < 0).sum()),
            )
            if not batches.is_v2.all():
                # In the headers each wrapper counted as one.
                found.records = len(rows) - len(batches)
                found.hidden = -int(((batches.is_v2 == 0) & (batches.compression != 0)).sum())
                if len(rows):
                    found.first_offset = int(rows.offset.min())
                    found.last_offset = int(rows.offset.max())
            timed = rows.timestamp[(rows.has_timestamp == 1) & (rows.timestamp >= 0)]
            if len(timed) and self.min_timestamp is not None:
                found.min_timestamp = int(timed.min())
            compressed = batches.compression != 0
            if run.decompressed is not None and compressed.any():
                _, starts, ends = run.decompressed
                found.unpacked = int((ends - starts)[compressed].sum())
                found.packed = int((batches.size[compressed] - HEADER_SIZE).sum())
            self._join(found)

    def finish(self, n_bytes: int) -> None:
        """Finish the log. n_bytes: its size."""
        self.bytes = n_bytes
        if self.first_offset is not None and self.last_offset is not None:
            self.span = self.last_offset - self.first_offset + 1

    def add(self, later: Statistics) -> None:
        """Add the statistics of later logs."""
        if later.min_timestamp is not None and self.max_timestamp is not None:
            self.timestamp_skew_ms = max(
                self.timestamp_skew_ms, self.max_timestamp - later.min_timestamp
            )
        self._join(later)

    def _join(self, later: Statistics) -> None:
        for name, merge in _MERGED.items():
            both = getattr(self, name), getattr(later, name)
            known = [value for value in both if value is not None]
            setattr(self, name, reduce(merge, known) if known else None)
        self._add_errors(later)

    def of_all(self) -> Statistics:
        """The estimate for everything from a sample; itself if it is not one. Offsets, times and
        producers are only the ones in the sample."""
        if self.of_bytes is None:
            return self
        by = self.of_bytes / self.bytes if self.bytes else 0.0
        made = replace(self, bytes=self.of_bytes, sampled_bytes=self.bytes)
        made.codecs = Counter({name: round(by * n) for name, n in self.codecs.items()})
        made.magics = Counter({name: round(by * n) for name, n in self.magics.items()})
        made.of_bytes, made.slices = None, []
        for name in (
            "batches",
            "in_batches",
            "records",
            "transactional_batches",
            "control_batches",
        ):
            setattr(made, name, round(by * getattr(self, name)))
        made.record_buckets = np.rint(by * self.record_buckets).astype(np.int64)
        made.byte_buckets = np.rint(by * self.byte_buckets).astype(np.int64)
        made.span = 0  # the offsets between the slices are unknown
        made.sample_error = self._error()
        return made

    def _error(self) -> float | None:
        """The relative error of the estimated records: the error of a ratio estimate. None if
        unknown."""
        part = self.bytes / self.of_bytes if self.of_bytes else 1.0
        if part >= 1:
            return 0.0
        n = len(self.slices)
        if n < LEAST_SLICES or not self.records:
            return None
        records, sizes = np.array(self.slices, np.float64).T
        rest = records - self.records / self.bytes * sizes
        spread = np.sqrt((rest**2).sum() / (n - 1) * n * (1 - part))
        return round(float(SURE * spread / self.records), 4)

    def _add_errors(self, later: Statistics) -> None:
        """Add the errors of separate samples, whose records are already summed."""
        if later.sampled_bytes is None:
            return
        if self.sampled_bytes is None:
            self.sampled_bytes, self.sample_error = 0, 0.0
        self.sampled_bytes += later.sampled_bytes
        if self.sample_error is None or later.sample_error is None:
            self.sample_error = None
        elif self.records:
            before = self.sample_error * (self.records - later.records)
            both = np.hypot(before, later.sample_error * later.records)
            self.sample_error = round(float(both / self.records), 4)

    @property
    def is_known(self) -> bool:
        """Whether a sample has read any bytes, if there are any."""
        if self.of_bytes is not None:
            return self.bytes > 0 or self.of_bytes == 0
        return self.sampled_bytes != 0 or self.bytes == 0

    # Names of the JSON contract, like the fields above.

    @property
    def producers(self) -> int:
        """The number of producer ids."""
        return len(self.producer_ids)

    @property
    def records_per_batch(self) -> float | None:
        """Average records per batch."""
        return _per(self.records, self.batches, 2)

    @property
    def bytes_per_batch(self) -> float | None:
        """Average bytes per batch."""
        return _per(self.in_batches, self.batches, 2)

    @property
    def bytes_per_record(self) -> float | None:
        """Average stored bytes per record."""
        return _per(self.in_batches, self.records, 2)

    @property
    def offset_density(self) -> float | None:
        """The fraction of offsets with a record, from the first to the last of each log."""
        return None if self.hidden else _per(self.records, self.span, 4)

    @property
    def compression_ratio(self) -> float | None:
        """Decompressed bytes per stored byte, for the records of compressed batches."""
        return self.unpacked / self.packed if self.packed and self.unpacked else None

    @property
    def records_histogram(self) -> list[list[int]]:
        """Batches by number of records: each bucket's largest value and its batches."""
        return _filled(self.record_buckets)

    @property
    def bytes_histogram(self) -> list[list[int]]:
        """Batches by size in bytes: each bucket's largest value and its batches."""
        return _filled(self.byte_buckets)


def codec_name(number: int) -> str:
    """The name of a codec; `codec N` for an unknown number."""
    return CODECS[number] if number < len(CODECS) else f"codec {number}"


def _per(number: int, of: int, digits: int) -> float | None:
    return round(number / of, digits) if of else None


def statistics_of(
    batches: BatchTable,
    owner: IntArray,
    n_logs: int,
    *,
    is_counted: bool = False,
    before: int = -1,
) -> list[Statistics]:
    """The statistics of the batches of each of several logs, by their headers.

    owner: each batch's log, in order. is_counted: `records_count` is valid for wrappers as well.
    before: the largest timestamp before these.
    """
    is_v2 = batches.is_v2 == 1
    counts = np.maximum(batches.records_count, 0) if is_counted else batches.counted_records
    hidden = np.zeros_like(is_v2) if is_counted else ~is_v2 & (batches.compression != 0)
    each = {
        "batches": None,
        "in_batches": batches.size,
        "records": counts,
        "hidden": hidden,
        "transactional_batches": batches.transactional * is_v2,
        "control_batches": batches.control * is_v2,
    }
    sums = (
        np.bincount(owner, values, n_logs).astype(np.int64).tolist() for values in each.values()
    )
    found = [Statistics(**dict(zip(each, own, strict=True))) for own in zip(*sums, strict=True)]

    def counted(values: IntArray, most: int) -> IntArray:
        """How often each value below `most` is in each log."""
        return np.bincount(owner * most + values, minlength=n_logs * most).reshape(n_logs, most)

    codecs, magics = counted(batches.compression, MOST_CODES), counted(batches.magic, MOST_CODES)
    by_records, by_bytes = (counted(_buckets(values), BUCKETS) for values in (counts, batches.size))
    for i, log in enumerate(found):
        log.codecs = Counter({codec_name(number): n for number, n in _nonzero(codecs[i])})
        log.magics = Counter({str(number): n for number, n in _nonzero(magics[i])})
        log.record_buckets, log.byte_buckets = by_records[i], by_bytes[i]
    base = np.where(batches.has_base_offset == 1, batches.base_offset, batches.last_offset)
    for i, part in _parts(owner):
        found[i].first_offset = int(base[part].min())
        found[i].last_offset = int(batches.last_offset[part].max())
    timed = (batches.has_timestamp == 1) & (batches.max_timestamp >= 0)
    times, firsts = batches.max_timestamp[timed], batches.first_times[timed]
    for i, part in _parts(owner[timed]):
        largest = np.maximum(np.maximum.accumulate(times[part]), before)
        found[i].timestamp_skew_ms = int((largest - times[part]).max())
        found[i].min_timestamp, found[i].max_timestamp = int(firsts[part].min()), int(largest[-1])
    produced = is_v2 & (batches.producer_id >= 0)
    ids = batches.producer_id[produced]
    for i, part in _parts(owner[produced]):
        found[i].producer_ids = set(ids[part].tolist())
    return found


def _parts(owner: IntArray) -> Iterator[tuple[int, slice]]:
    """Each log with rows, and the slice of its rows."""
    ends = [*(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
    for first, end in pairwise([0, *ends]) if len(owner) else ():
        yield int(owner[first]), slice(first, end)


def _nonzero(counts: IntArray) -> Iterator[tuple[int, int]]:
    """The numbers with a count, and their counts."""
    for number in np.flatnonzero(counts).tolist():
        yield number, int(counts[number])


def _buckets(values: IntArray) -> IntArray:
    """The bucket of each value: 0, 1, 2, 3–4, 5–8, …"""
    places = np.ceil(np.log2(np.maximum(values, 1))).astype(np.int64) + (values > 0)
    found: IntArray = places.clip(0, BUCKETS - 1)
    return found


def _filled(counts: IntArray) -> list[list[int]]:
    """The largest value and the count of each bucket that is not empty."""
    return [
        [0 if place == 0 else 1 << (place - 1), int(counts[place])]
        for place in np.flatnonzero(counts).tolist()
    ]
