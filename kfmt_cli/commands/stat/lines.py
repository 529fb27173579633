"""`stat` for people: a line per row, and details that do not fit in it."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.times import time_text
from kfmt_cli.log.summary.statistics import Statistics
from kfmt_cli.render.style import count, grouped, human
from kfmt_cli.render.tables.line_table import LineColumn

_BARS = "▁▂▃▄▅▆▇█"


def _of_batch(number: int, of: Statistics, digits: str) -> str:
    return format(number / of.batches, digits) if of.batches else "–"


def _time(milliseconds: int | None) -> str:
    return "–" if milliseconds is None else time_text(milliseconds)[:19]


def columns(
    total: int | None, *, is_sample: bool, is_old: bool
) -> Iterator[LineColumn[Statistics]]:
    """The columns of the table. total: bytes of all rows; None to omit shares. is_old: there are
    batches of magic 0 or 1."""
    yield LineColumn("size", lambda of: human(of.bytes))
    if total:
        yield LineColumn("share", lambda of: f"{of.bytes / total:.0%}", keep=1)
    yield LineColumn("batches", lambda of: grouped(of.batches) if of.is_known else "–", keep=4)
    yield LineColumn("records", lambda of: grouped(of.records) if of.is_known else "–")
    if is_sample:
        yield LineColumn("± (95%)", lambda of: _error(of.sample_error))
    yield LineColumn("rec/batch", lambda of: _of_batch(of.records, of, ".1f"), keep=5)
    yield LineColumn(
        "B/batch", lambda of: grouped(of.bytes // of.batches) if of.batches else "–", keep=6
    )
    yield LineColumn(
        "codecs",
        lambda of: ", ".join(sorted(of.codecs, key=lambda name: -of.codecs[name])) or "–",
        keep=2,
    )
    if is_old:
        yield LineColumn("magic", lambda of: ", ".join(sorted(of.magics)) or "–")
    yield LineColumn(
        "dense", lambda of: "–" if of.offset_density is None else f"{of.offset_density:.0%}", keep=7
    )
    yield LineColumn("producers", lambda of: grouped(of.producers) if of.is_known else "–", keep=8)
    yield LineColumn("from (UTC)", lambda of: _time(of.min_timestamp), keep=9)
    yield LineColumn("to (UTC)", lambda of: _time(of.max_timestamp), keep=3)


def _error(error: float | None) -> str:
    return "?" if error is None else f"{error:.1%}"


def more_lines(of: Statistics) -> Iterator[str]:
    """The details that do not fit in a row's line."""
    for words, pairs in (("records", of.records_histogram), ("bytes", of.bytes_histogram)):
        if pairs:
            most = max(n for _, n in pairs)
            bars = "".join(_BARS[(len(_BARS) - 1) * n // most] for _, n in pairs)
            least, largest = grouped(pairs[0][0]), grouped(pairs[-1][0])
            ends = f"{least} to {largest}" if len(pairs) > 1 else largest
            yield f"   {words} per batch  {bars}  bucket upper bounds {ends}\n"
    if of.null_keys is not None:
        parts = [
            f"{grouped(of.null_keys)} null keys",
            f"{grouped(of.empty_keys or 0)} empty keys",
            count(of.tombstones or 0, "tombstone"),
        ]
        if of.compression_ratio is not None:
            parts.append(f"compression ratio {of.compression_ratio:.2f}:1")
        skew = of.timestamp_skew_ms
        order = f"out of order by up to {grouped(skew)} ms" if skew else "in order"
        parts.append(f"timestamps {order}")
        yield f"   {', '.join(parts)}\n"
