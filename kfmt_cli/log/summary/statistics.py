"""Statistics of a log, from its batch headers and, on request, its records."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.log.block import BATCH_HEADER_BYTES, Block, split_runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.decompression import decompress_ahead
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.offset_order import in_order_mask

N_HISTOGRAM_BUCKETS = 41  # powers of two
N_CODEC_OR_MAGIC_VALUES = 8  # codecs and magics that a batch can name
MIN_SAMPLE_SLICES = 10  # the fewest for an error estimate
Z_SCORE_95 = 1.96  # standard errors to each side, for 95 % confidence
_MERGE_BY_FIELD: dict[str, Callable[..., object]] = {
    **dict.fromkeys(
        (
            *("segments", "damaged", "bytes", "batches", "in_batches", "records", "span", "hidden"),
            *("transactional_batches", "control_batches", "codecs", "magics"),
            *("record_buckets", "byte_buckets", "packed", "unpacked"),
            *("null_keys", "empty_keys", "tombstones", "of_bytes", "slices"),
        ),
        operator.add,
    ),
    **dict.fromkeys(("first_known_offset", "first_wrapper_offset"), min),
    **dict.fromkeys(("min_timestamp", "min_batch_timestamp"), min),
    **dict.fromkeys(("last_offset", "max_timestamp", "timestamp_skew_ms"), max),
    "producer_ids": operator.ior,
}
"""By field, how to merge the values of two logs if both have one."""


@dataclass(slots=True)
class LogStatistics:
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
    record_buckets: IntArray = field(
        default_factory=lambda: np.zeros(N_HISTOGRAM_BUCKETS, np.int64)
    )
    """Batches by number of records, in buckets that end at powers of two."""
    byte_buckets: IntArray = field(default_factory=lambda: np.zeros(N_HISTOGRAM_BUCKETS, np.int64))
    """Batches by size in bytes, in the same buckets."""
    first_known_offset: int | None = None
    """The smallest first offset that a header or a decompressed wrapper states."""
    first_wrapper_offset: int | None = None
    """The smallest last offset of wrappers of magic 0 and 1, whose headers state no first one."""
    last_offset: int | None = None
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    min_batch_timestamp: int | None = None
    """The smallest timestamp of a batch, which is its largest record's."""
    span: int = 0
    """Offsets from the first to the last of each log, in total."""
    hidden: int = 0
    """Wrappers of magic 0 and 1 with an unknown number of records."""
    timestamp_skew_ms: int = 0
    """The largest amount by which a batch's timestamp was below the largest one so far."""
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

    def add_block(self, block: Block, *, has_wrapper_counts: bool = False) -> None:
        """Add the next block, by its headers. has_wrapper_counts: `records_count` is valid for
        wrappers as well."""
        batches = block.batches
        if len(batches):
            log_of_batch = np.zeros(len(batches), np.int64)
            previous_max_timestamp = -1 if self.max_timestamp is None else self.max_timestamp
            self.merge(
                *compute_statistics(
                    batches,
                    log_of_batch,
                    1,
                    has_wrapper_counts=has_wrapper_counts,
                    previous_max_timestamp=previous_max_timestamp,
                )
            )

    def add_records(self, block: Block, limit: DecompressionLimit, findings: list[Finding]) -> None:
        """Add the same block's records. findings: receives the findings about batches that cannot
        be decoded."""
        is_undamaged = block.batches.crc_valid == 1
        undamaged_block = Block(
            block.file_name,
            block.data,
            block.data_position,
            block.batches.select_rows(is_undamaged),
        )
        for run in (
            run
            for decompressed_block in decompress_ahead(undamaged_block, limit)
            for run in split_runs(decompressed_block)
        ):
            records = read_records(run, limit)
            findings += [*run.findings, *records.findings]
            rows, batches, batch_of_row = records.rows, run.batches, records.batch_of_row
            is_data_record = (batches.control[batch_of_row] == 0) | (
                batches.is_v2[batch_of_row] == 0
            )
            key_sizes = rows.key_size[is_data_record]
            record_statistics = LogStatistics(
                null_keys=int((key_sizes < 0).sum()),
                empty_keys=int((key_sizes == 0).sum()),
                tombstones=int((rows.value_size[is_data_record] < 0).sum()),
            )
            if not batches.is_v2.all():
                # In the headers each wrapper counted as one.
                record_statistics.records = len(rows) - len(batches)
                record_statistics.hidden = -int(
                    ((batches.is_v2 == 0) & (batches.compression != 0)).sum()
                )
                if len(rows):
                    record_statistics.first_known_offset = int(rows.offset.min())
                    record_statistics.last_offset = int(rows.offset.max())
            timestamps = rows.timestamp[(rows.has_timestamp == 1) & (rows.timestamp >= 0)]
            if len(timestamps) and self.min_timestamp is not None:
                record_statistics.min_timestamp = int(timestamps.min())
            is_compressed = batches.compression != 0
            if run.decompressed is not None and is_compressed.any():
                _, starts, ends = run.decompressed
                record_statistics.unpacked = int((ends - starts)[is_compressed].sum())
                record_statistics.packed = int(
                    (batches.size[is_compressed] - BATCH_HEADER_BYTES).sum()
                )
            self.merge(record_statistics)

    def set_size_and_span(self, n_bytes: int) -> None:
        """Finish the log. n_bytes: its size."""
        self.bytes = n_bytes
        if self.first_offset is not None and self.last_offset is not None:
            self.span = self.last_offset - self.first_offset + 1

    def merge_later(self, later: LogStatistics) -> None:
        """Add the statistics of a later log of the same partition."""
        if later.min_batch_timestamp is not None and self.max_timestamp is not None:
            self.timestamp_skew_ms = max(
                self.timestamp_skew_ms, self.max_timestamp - later.min_batch_timestamp
            )
        self.merge(later)

    def merge(self, other: LogStatistics) -> None:
        """Add the statistics of other logs; their order does not matter."""
        for field_name, merge_values in _MERGE_BY_FIELD.items():
            field_values = getattr(self, field_name), getattr(other, field_name)
            present_values = [
                field_value for field_value in field_values if field_value is not None
            ]
            setattr(
                self, field_name, reduce(merge_values, present_values) if present_values else None
            )
        self._merge_sample_errors(other)

    def total_estimate(self) -> LogStatistics:
        """The estimate of the total from a sample; the same object if it is not a sample. Offsets,
        times and producers are only the ones in the sample."""
        if self.of_bytes is None:
            return self
        scale_factor = self.of_bytes / self.bytes if self.bytes else 0.0
        estimate = replace(self, bytes=self.of_bytes, sampled_bytes=self.bytes)
        estimate.codecs = Counter(
            {name: round(scale_factor * n) for name, n in self.codecs.items()}
        )
        estimate.magics = Counter(
            {name: round(scale_factor * n) for name, n in self.magics.items()}
        )
        estimate.of_bytes, estimate.slices = None, []
        for name in (
            "batches",
            "in_batches",
            "records",
            "transactional_batches",
            "control_batches",
        ):
            setattr(estimate, name, round(scale_factor * getattr(self, name)))
        estimate.record_buckets = np.rint(scale_factor * self.record_buckets).astype(np.int64)
        estimate.byte_buckets = np.rint(scale_factor * self.byte_buckets).astype(np.int64)
        estimate.span = 0  # the offsets between the slices are unknown
        estimate.sample_error = self._relative_sample_error()
        return estimate

    def _relative_sample_error(self) -> float | None:
        """The relative error of the estimated records: the error of a ratio estimate. None if
        unknown."""
        sampled_fraction = self.bytes / self.of_bytes if self.of_bytes else 1.0
        if sampled_fraction >= 1:
            return 0.0
        n_slices = len(self.slices)
        if n_slices < MIN_SAMPLE_SLICES or not self.records:
            return None
        records_by_slice, bytes_by_slice = np.array(self.slices, np.float64).T
        residuals = records_by_slice - self.records / self.bytes * bytes_by_slice
        standard_error = np.sqrt(
            (residuals**2).sum() / (n_slices - 1) * n_slices * (1 - sampled_fraction)
        )
        return round(float(Z_SCORE_95 * standard_error / self.records), 4)

    def _merge_sample_errors(self, other: LogStatistics) -> None:
        """Add the errors of separate samples, whose records are already summed."""
        if other.sampled_bytes is None:
            return
        if self.sampled_bytes is None:
            self.sampled_bytes, self.sample_error = 0, 0.0
        self.sampled_bytes += other.sampled_bytes
        if self.sample_error is None or other.sample_error is None:
            self.sample_error = None
        elif self.records:
            earlier_error = self.sample_error * (self.records - other.records)
            combined_error = np.hypot(earlier_error, other.sample_error * other.records)
            self.sample_error = round(float(combined_error / self.records), 4)

    @property
    def has_read_sample(self) -> bool:
        """Whether a sample has read any bytes, if there are any."""
        if self.of_bytes is not None:
            return self.bytes > 0 or self.of_bytes == 0
        return self.sampled_bytes != 0 or self.bytes == 0

    # Names of the JSON contract, like the fields above.

    @property
    def first_offset(self) -> int | None:
        """The first offset; None if it is inside a wrapper that has not been decompressed."""
        return first_offset_or_none(self.first_known_offset, self.first_wrapper_offset)

    @property
    def producers(self) -> int:
        """The number of producer ids."""
        return len(self.producer_ids)

    @property
    def records_per_batch(self) -> float | None:
        """Average records per batch."""
        return _rounded_ratio(self.records, self.batches, 2)

    @property
    def bytes_per_batch(self) -> float | None:
        """Average bytes per batch."""
        return _rounded_ratio(self.in_batches, self.batches, 2)

    @property
    def bytes_per_record(self) -> float | None:
        """Average stored bytes per record."""
        return _rounded_ratio(self.in_batches, self.records, 2)

    @property
    def offset_density(self) -> float | None:
        """The fraction of offsets with a record, from the first to the last of each log."""
        return None if self.hidden else _rounded_ratio(self.records, self.span, 4)

    @property
    def compression_ratio(self) -> float | None:
        """Decompressed bytes per stored byte, for the records of compressed batches."""
        return self.unpacked / self.packed if self.packed and self.unpacked else None

    @property
    def records_histogram(self) -> list[list[int]]:
        """Batches by number of records: each bucket's largest value and its batches."""
        return _histogram_pairs(self.record_buckets)

    @property
    def bytes_histogram(self) -> list[list[int]]:
        """Batches by size in bytes: each bucket's largest value and its batches."""
        return _histogram_pairs(self.byte_buckets)


def first_offset_or_none(known_offset: int | None, wrapper_offset: int | None) -> int | None:
    """The first of some offsets; None if it is unknown.

    known_offset: the smallest known one. wrapper_offset: the smallest last offset of wrappers that
    may begin anywhere below it.
    """
    if known_offset is None or wrapper_offset is None or known_offset <= wrapper_offset:
        return known_offset
    return None


def codec_name(codec: int) -> str:
    """The name of a codec; `codec N` for an unknown number."""
    return CODECS[codec] if codec < len(CODECS) else f"codec {codec}"


def _rounded_ratio(numerator: int, denominator: int, digits: int) -> float | None:
    return round(numerator / denominator, digits) if denominator else None


def compute_statistics(
    batches: BatchTable,
    log_of_batch: IntArray,
    n_logs: int,
    *,
    has_wrapper_counts: bool = False,
    previous_max_timestamp: int = -1,
) -> list[LogStatistics]:
    """The statistics of the batches of each of several logs, by their headers.

    log_of_batch: each batch's log, in order. has_wrapper_counts: `records_count` is valid for
    wrappers as well. previous_max_timestamp: the largest timestamp before these batches.
    """
    is_v2 = batches.is_v2 == 1
    record_counts = (
        np.maximum(batches.records_count, 0) if has_wrapper_counts else batches.record_counts
    )
    has_unknown_count = (
        np.zeros_like(is_v2) if has_wrapper_counts else ~is_v2 & (batches.compression != 0)
    )
    amounts_by_field = {
        "batches": None,
        "in_batches": batches.size,
        "records": record_counts,
        "hidden": has_unknown_count,
        "transactional_batches": batches.transactional * is_v2,
        "control_batches": batches.control * is_v2,
    }
    totals = (
        np.bincount(log_of_batch, field_amounts, n_logs).astype(np.int64).tolist()
        for field_amounts in amounts_by_field.values()
    )
    statistics = [
        LogStatistics(**dict(zip(amounts_by_field, log_totals, strict=True)))
        for log_totals in zip(*totals, strict=True)
    ]

    _set_value_counts(statistics, batches, log_of_batch, record_counts)
    _set_offsets(statistics, batches, log_of_batch)
    has_time = (batches.has_timestamp == 1) & (batches.max_timestamp >= 0)
    max_times, first_times = batches.max_timestamp[has_time], batches.first_timestamps[has_time]
    for log_index, log_rows in _iter_log_slices(log_of_batch[has_time]):
        running_max_times = np.maximum(
            np.maximum.accumulate(max_times[log_rows]), previous_max_timestamp
        )
        statistics[log_index].timestamp_skew_ms = int(
            (running_max_times - max_times[log_rows]).max()
        )
        statistics[log_index].min_timestamp = int(first_times[log_rows].min())
        statistics[log_index].min_batch_timestamp = int(max_times[log_rows].min())
        statistics[log_index].max_timestamp = int(running_max_times[-1])
    has_producer = is_v2 & (batches.producer_id >= 0)
    producer_ids = batches.producer_id[has_producer]
    for log_index, log_rows in _iter_log_slices(log_of_batch[has_producer]):
        statistics[log_index].producer_ids = set(producer_ids[log_rows].tolist())
    return statistics


def _set_offsets(
    statistics: Sequence[LogStatistics], batches: BatchTable, log_of_batch: IntArray
) -> None:
    """Set the first and last offsets of each log; only undamaged batches show them."""
    is_irregular = (batches.crc_valid != 1) | (batches.last_offset < batches.base_offset)
    is_irregular[1:] |= (batches.base_offset[1:] <= batches.last_offset[:-1]) & (
        np.diff(log_of_batch) == 0
    )
    is_in_order = np.ones(len(batches), np.bool_)
    for _, log_rows in _iter_log_slices(log_of_batch) if is_irregular.any() else ():
        if is_irregular[log_rows].any():
            is_in_order[log_rows] = in_order_mask(batches.select_rows(log_rows))
    batches, log_of_batch = batches.select_rows(is_in_order), log_of_batch[is_in_order]
    has_base_offset = batches.has_base_offset == 1
    for field_name, offsets, is_selected in (
        ("first_known_offset", batches.base_offset, has_base_offset),
        ("first_wrapper_offset", batches.last_offset, ~has_base_offset),
    ):
        selected_offsets = offsets[is_selected]
        for log_index, log_rows in _iter_log_slices(log_of_batch[is_selected]):
            setattr(statistics[log_index], field_name, int(selected_offsets[log_rows].min()))
    for log_index, log_rows in _iter_log_slices(log_of_batch):
        statistics[log_index].last_offset = int(batches.last_offset[log_rows].max())


def _set_value_counts(
    statistics: Sequence[LogStatistics],
    batches: BatchTable,
    log_of_batch: IntArray,
    record_counts: IntArray,
) -> None:
    """Set how often each codec, magic and size is in each log."""
    n_logs = len(statistics)

    def value_counts_by_log(values: IntArray, n_values: int) -> IntArray:
        """How often each value below `n_values` is in each log."""
        log_and_value_keys = log_of_batch * n_values + values
        return np.bincount(log_and_value_keys, minlength=n_logs * n_values).reshape(
            n_logs, n_values
        )

    codec_counts = value_counts_by_log(batches.compression, N_CODEC_OR_MAGIC_VALUES)
    magic_counts = value_counts_by_log(batches.magic, N_CODEC_OR_MAGIC_VALUES)
    record_bucket_counts = value_counts_by_log(_bucket_numbers(record_counts), N_HISTOGRAM_BUCKETS)
    byte_bucket_counts = value_counts_by_log(_bucket_numbers(batches.size), N_HISTOGRAM_BUCKETS)
    for log_index, log_statistics in enumerate(statistics):
        log_statistics.codecs = Counter(
            {
                codec_name(codec): n_batches
                for codec, n_batches in _iter_nonzero_counts(codec_counts[log_index])
            }
        )
        log_statistics.magics = Counter(
            {
                str(magic): n_batches
                for magic, n_batches in _iter_nonzero_counts(magic_counts[log_index])
            }
        )
        log_statistics.record_buckets = record_bucket_counts[log_index]
        log_statistics.byte_buckets = byte_bucket_counts[log_index]


def _iter_log_slices(log_of_row: IntArray) -> Iterator[tuple[int, slice]]:
    """Each log with rows, and the slice of its rows."""
    slice_ends = [*(np.flatnonzero(np.diff(log_of_row)) + 1).tolist(), len(log_of_row)]
    for slice_start, slice_end in pairwise([0, *slice_ends]) if len(log_of_row) else ():
        yield int(log_of_row[slice_start]), slice(slice_start, slice_end)


def _iter_nonzero_counts(count_by_value: IntArray) -> Iterator[tuple[int, int]]:
    """The values with a count above zero, and their counts."""
    for value in np.flatnonzero(count_by_value).tolist():
        yield value, int(count_by_value[value])


def _bucket_numbers(values: IntArray) -> IntArray:
    """The bucket of each value: 0, 1, 2, 3–4, 5–8, …"""
    bucket_numbers = np.ceil(np.log2(np.maximum(values, 1))).astype(np.int64) + (values > 0)
    clipped_numbers: IntArray = bucket_numbers.clip(0, N_HISTOGRAM_BUCKETS - 1)
    return clipped_numbers


def _histogram_pairs(bucket_counts: IntArray) -> list[list[int]]:
    """The largest value and the count of each bucket that is not empty."""
    return [
        [0 if bucket == 0 else 1 << (bucket - 1), int(bucket_counts[bucket])]
        for bucket in np.flatnonzero(bucket_counts).tolist()
    ]
