"""`stat` for people: a line per row, and details that do not fit in it."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.times import format_time
from kfmt_cli.log.summary.statistics import LogStatistics
from kfmt_cli.render.style import format_bytes, format_count, format_thousands
from kfmt_cli.render.tables.line_table import LineColumn

_BAR_CHARACTERS = "▁▂▃▄▅▆▇█"


def _format_per_batch(total_amount: int, statistics: LogStatistics, format_spec: str) -> str:
    return format(total_amount / statistics.batches, format_spec) if statistics.batches else "–"


def _time_or_dash(time_ms: int | None) -> str:
    return "–" if time_ms is None else format_time(time_ms)[:19]


def iter_statistics_columns(
    total_bytes: int | None, *, is_sample: bool, has_old_magic: bool
) -> Iterator[LineColumn[LogStatistics]]:
    """The columns of the table. total_bytes: bytes of all rows; None to omit shares. has_old_magic:
    whether there are batches of magic 0 or 1."""
    yield LineColumn("size", lambda row: format_bytes(row.bytes))
    if total_bytes:
        yield LineColumn("share", lambda row: f"{row.bytes / total_bytes:.0%}", hide_rank=1)
    yield LineColumn(
        "batches",
        lambda row: format_thousands(row.batches) if row.has_read_sample else "–",
        hide_rank=4,
    )
    yield LineColumn(
        "records", lambda row: format_thousands(row.records) if row.has_read_sample else "–"
    )
    if is_sample:
        yield LineColumn("± (95%)", lambda row: _sample_error_text(row.sample_error))
    yield LineColumn(
        "rec/batch", lambda row: _format_per_batch(row.records, row, ".1f"), hide_rank=5
    )
    yield LineColumn(
        "B/batch",
        lambda row: format_thousands(row.in_batches // row.batches) if row.batches else "–",
        hide_rank=6,
    )
    yield LineColumn(
        "codecs",
        lambda row: ", ".join(sorted(row.codecs, key=lambda name: -row.codecs[name])) or "–",
        hide_rank=2,
    )
    if has_old_magic:
        yield LineColumn("magic", lambda row: ", ".join(sorted(row.magics)) or "–")
    yield LineColumn(
        "dense",
        lambda row: "–" if row.offset_density is None else f"{row.offset_density:.0%}",
        hide_rank=7,
    )
    yield LineColumn(
        "producers",
        lambda row: format_thousands(row.producers) if row.has_read_sample else "–",
        hide_rank=8,
    )
    yield LineColumn("from (UTC)", lambda row: _time_or_dash(row.min_timestamp), hide_rank=9)
    yield LineColumn("to (UTC)", lambda row: _time_or_dash(row.max_timestamp), hide_rank=3)


def _sample_error_text(error_fraction: float | None) -> str:
    return "?" if error_fraction is None else f"{error_fraction:.1%}"


def detail_lines(statistics: LogStatistics) -> Iterator[str]:
    """The details that do not fit in a row's line."""
    for histogram_unit, buckets in (
        ("records", statistics.records_histogram),
        ("bytes", statistics.bytes_histogram),
    ):
        if buckets:
            max_count = max(n_batches for _, n_batches in buckets)
            bars = "".join(
                _BAR_CHARACTERS[(len(_BAR_CHARACTERS) - 1) * n_batches // max_count]
                for _, n_batches in buckets
            )
            min_bound_text = format_thousands(buckets[0][0])
            max_bound_text = format_thousands(buckets[-1][0])
            range_text = (
                f"{min_bound_text} to {max_bound_text}" if len(buckets) > 1 else max_bound_text
            )
            yield f"   {histogram_unit} per batch  {bars}  bucket upper bounds {range_text}\n"
    if statistics.null_keys is not None:
        record_texts = [
            f"{format_thousands(statistics.null_keys)} null keys",
            f"{format_thousands(statistics.empty_keys or 0)} empty keys",
            format_count(statistics.tombstones or 0, "tombstone"),
        ]
        if statistics.compression_ratio is not None:
            record_texts.append(f"compression ratio {statistics.compression_ratio:.2f}:1")
        skew_ms = statistics.timestamp_skew_ms
        order_text = (
            f"out of order by up to {format_thousands(skew_ms)} ms" if skew_ms else "in order"
        )
        record_texts.append(f"timestamps {order_text}")
        yield f"   {', '.join(record_texts)}\n"
