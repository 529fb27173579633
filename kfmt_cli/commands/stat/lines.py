"""`stat` for people: a line per row, and details that do not fit in it."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.times import format_time
from kfmt_cli.log.summary.statistics import LogStatistics
from kfmt_cli.render.style import format_bytes, format_count, format_grouped
from kfmt_cli.render.tables.line_table import LineColumn

_BARS = "▁▂▃▄▅▆▇█"


def _per_batch(total: int, statistics: LogStatistics, format_spec: str) -> str:
    return format(total / statistics.batches, format_spec) if statistics.batches else "–"


def _time_or_dash(milliseconds: int | None) -> str:
    return "–" if milliseconds is None else format_time(milliseconds)[:19]


def iter_columns(
    total: int | None, *, is_sample: bool, has_old_magic: bool
) -> Iterator[LineColumn[LogStatistics]]:
    """The columns of the table. total: bytes of all rows; None to omit shares. has_old_magic: there
    are batches of magic 0 or 1."""
    yield LineColumn("size", lambda row: format_bytes(row.bytes))
    if total:
        yield LineColumn("share", lambda row: f"{row.bytes / total:.0%}", hide_rank=1)
    yield LineColumn(
        "batches",
        lambda row: format_grouped(row.batches) if row.has_sampled_bytes else "–",
        hide_rank=4,
    )
    yield LineColumn(
        "records", lambda row: format_grouped(row.records) if row.has_sampled_bytes else "–"
    )
    if is_sample:
        yield LineColumn("± (95%)", lambda row: _error_text(row.sample_error))
    yield LineColumn("rec/batch", lambda row: _per_batch(row.records, row, ".1f"), hide_rank=5)
    yield LineColumn(
        "B/batch",
        lambda row: format_grouped(row.bytes // row.batches) if row.batches else "–",
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
        lambda row: format_grouped(row.producers) if row.has_sampled_bytes else "–",
        hide_rank=8,
    )
    yield LineColumn("from (UTC)", lambda row: _time_or_dash(row.min_timestamp), hide_rank=9)
    yield LineColumn("to (UTC)", lambda row: _time_or_dash(row.max_timestamp), hide_rank=3)


def _error_text(error: float | None) -> str:
    return "?" if error is None else f"{error:.1%}"


def detail_lines(statistics: LogStatistics) -> Iterator[str]:
    """The details that do not fit in a row's line."""
    for noun, pairs in (
        ("records", statistics.records_histogram),
        ("bytes", statistics.bytes_histogram),
    ):
        if pairs:
            max_count = max(n for _, n in pairs)
            bars = "".join(_BARS[(len(_BARS) - 1) * n // max_count] for _, n in pairs)
            min_bound_text = format_grouped(pairs[0][0])
            max_bound_text = format_grouped(pairs[-1][0])
            range_text = (
                f"{min_bound_text} to {max_bound_text}" if len(pairs) > 1 else max_bound_text
            )
            yield f"   {noun} per batch  {bars}  bucket upper bounds {range_text}\n"
    if statistics.null_keys is not None:
        texts = [
            f"{format_grouped(statistics.null_keys)} null keys",
            f"{format_grouped(statistics.empty_keys or 0)} empty keys",
            format_count(statistics.tombstones or 0, "tombstone"),
        ]
        if statistics.compression_ratio is not None:
            texts.append(f"compression ratio {statistics.compression_ratio:.2f}:1")
        skew = statistics.timestamp_skew_ms
        order = f"out of order by up to {format_grouped(skew)} ms" if skew else "in order"
        texts.append(f"timestamps {order}")
        yield f"   {', '.join(texts)}\n"
