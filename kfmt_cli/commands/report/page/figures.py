"""The figures of a page: its charts, their rows and their captions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from kfmt_cli.commands.report.page.page_data import PageData, PageRow, row_label
from kfmt_cli.core.times import YEAR_10000_MS, format_duration, format_interval_end
from kfmt_cli.log.summary.shape import DAY_MS, SegmentMapCell, TimeBuckets
from kfmt_cli.render.style import format_bytes, format_count, format_thousands

Row = dict[str, Any]
MAX_SERIES = 7  # topics with a colour of their own over time
OTHER_TOPICS = "other topics"
MAX_INTERVALS = 150
MAX_LAGS = 20
MAX_TRANSACTIONS = 400  # per topic
MAX_SEGMENT_MAPS = 120  # per topic
MAX_TREEMAP_TILES = 400
FAR_FUTURE_MS = 730 * DAY_MS  # later deletions appear only in the text


@dataclass(frozen=True, slots=True)
class ChartFigure:
    """A chart with a caption that says what it shows."""

    chart_name: str
    title: str
    caption: str
    topic: str | None = None
    """The topic whose rows it shows; None for all."""


@dataclass(slots=True)
class PageFigures:
    """The figures of a page and their tables."""

    rows_by_table: dict[str, list[Row]] = field(default_factory=dict)
    figures_by_section: dict[str, list[ChartFigure]] = field(default_factory=dict)
    """By the part of the page that contains them."""
    figures_by_topic: dict[str, list[ChartFigure]] = field(default_factory=dict)

    def add(self, section: str, figure: ChartFigure, table_name: str, rows: Sequence[Row]) -> None:
        """Add a figure about all topics, if it has rows."""
        if rows:
            self.rows_by_table[table_name] = list(rows)
            self.figures_by_section.setdefault(section, []).append(figure)

    def add_topic(self, figure: ChartFigure, table_name: str, rows: Sequence[Row]) -> None:
        """Add a figure about one topic, if it has rows."""
        if rows and figure.topic is not None:
            self.rows_by_table.setdefault(table_name, []).extend(rows)
            self.figures_by_topic.setdefault(figure.topic, []).append(figure)

    def columnar_tables(self) -> dict[str, dict[str, Any]]:
        """The tables, with column names stored once."""
        return {
            table_name: {
                "columns": list(rows[0]),
                "rows": [[row.get(column) for column in rows[0]] for row in rows],
            }
            for table_name, rows in self.rows_by_table.items()
            if rows
        }


def group_by_topic(rows: Sequence[PageRow]) -> Mapping[str, list[PageRow]]:
    """Rows by `row_label`; an empty list for unknown labels."""
    rows_by_topic: dict[str, list[PageRow]] = defaultdict(list)
    for row in rows:
        rows_by_topic[row_label(row)].append(row)
    return rows_by_topic


def add_treemap(figures: PageFigures, page_data: PageData) -> None:
    """Add the treemap of disk space: a rectangle per partition."""
    partition_rows = sorted(page_data.partition_rows, key=lambda row: -row.bytes)
    drawn_rows = [row for row in partition_rows if row.bytes][:MAX_TREEMAP_TILES]
    if not drawn_rows:
        return
    topics = dict.fromkeys(row_label(row) for row in drawn_rows)
    column_names = ("id", "parent", "bytes", "label", "topic", "size")
    tiles: list[Row] = [{**dict.fromkeys(column_names), "id": "all"}]
    tiles += [{"id": f"topic {topic}", "parent": "all", "label": None} for topic in topics]
    tiles += [
        {
            "id": f"partition {i}",
            "parent": f"topic {row_label(row)}",
            "bytes": row.bytes,
            "label": partition_or_label(row),
            "topic": row_label(row),
            "size": format_bytes(row.bytes),
        }
        for i, row in enumerate(drawn_rows)
    ]
    total_bytes = sum(row.bytes for row in partition_rows)
    largest_row = drawn_rows[0]
    caption = (
        f"{partition_or_label(largest_row)} is the largest partition: "
        f"{format_bytes(largest_row.bytes)}, "
        f"{largest_row.bytes / total_bytes:.0%} of {format_bytes(total_bytes)}."
    )
    figures.add("topics", ChartFigure("treemap", "Bytes by partition", caption), "areas", tiles)


def partition_or_label(row: PageRow) -> str:
    """The partition that an object is about, or else its label."""
    partition = row.get("partition")
    return row_label(row) if partition is None else f"{row.topic}-{partition}"


def add_writes_over_time(figures: PageFigures, page_data: PageData) -> None:
    """Add the data written over time: to all topics, with the largest named, and to each topic."""
    bucket_rows = page_data.rows_of_type("time_bucket")
    if not bucket_rows:
        return
    rows_by_topic = group_by_topic(bucket_rows)
    size_by_topic = {
        name: sum(row.bytes for row in topic_rows) for name, topic_rows in rows_by_topic.items()
    }
    series = sorted(size_by_topic, key=lambda name: -size_by_topic[name])[:MAX_SERIES]
    width_ms, usual_rows, outliers = split_outliers(bucket_rows)
    stack_top_by_time: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    totals_by_series_and_time: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for row in usual_rows:
        topic = row_label(row)
        series_index = series.index(topic) if topic in series else MAX_SERIES
        totals = totals_by_series_and_time[series_index, row.from_timestamp // width_ms * width_ms]
        totals[0] += row.bytes
        totals[1] += row.records
    table_rows = []
    for (series_index, begin_ms), (n_bytes, n_records) in sorted(totals_by_series_and_time.items()):
        stack_top = stack_top_by_time[begin_ms]
        table_row = {
            "series": series[series_index] if series_index < len(series) else OTHER_TOPICS,
            "from": begin_ms,
        }
        table_row |= {"to": begin_ms + width_ms, "bytes": n_bytes, "records": n_records}
        table_row |= {"bytes_from": stack_top[0], "bytes_to": stack_top[0] + n_bytes}
        table_row |= {"records_from": stack_top[1], "records_to": stack_top[1] + n_records}
        stack_top_by_time[begin_ms] = [stack_top[0] + n_bytes, stack_top[1] + n_records]
        table_rows.append(table_row)
    begin_ms, (n_bytes, _) = max(stack_top_by_time.items(), key=lambda item: item[1][0])
    caption = (
        f"Busiest period: {format_bytes(n_bytes)} in {format_duration(width_ms)} from "
        f"{_format_utc(begin_ms)}. Batches are placed at their max timestamp."
    )
    if outliers:
        n_outliers, outlier_ms = sum(row.records for row in outliers), outliers[0].from_timestamp
        caption += (
            f" Not shown: {format_count(n_outliers, 'record')} with distant timestamps, such as "
            f"{_format_utc(outlier_ms)}."
        )
    for chart, title in (
        ("bytes_over_time", "Bytes over time"),
        ("records_over_time", "Records over time"),
    ):
        figures.add("times", ChartFigure(chart, title, caption), "times", table_rows)
        caption = "The same periods, by number of records."
    for topic, topic_rows in rows_by_topic.items():
        _add_topic_writes(figures, topic, topic_rows)


def _add_topic_writes(figures: PageFigures, topic: str, bucket_rows: list[PageRow]) -> None:
    """Add the data written to a topic over time."""
    _, usual_rows, outliers = split_outliers(bucket_rows)
    table_rows = [
        {"topic": topic, "from": row.from_timestamp, "to": row.to_timestamp, "bytes": row.bytes}
        | {"records": row.records}
        for row in usual_rows
    ]
    n_records = sum(row.records for row in usual_rows)
    caption = f"{format_count(n_records, 'record')} "
    caption += (
        f"from {_format_utc(usual_rows[0].from_timestamp)} to "
        f"{_format_utc(usual_rows[-1].to_timestamp)}"
    )
    caption += (
        f", {format_duration(usual_rows[0].to_timestamp - usual_rows[0].from_timestamp)} "
        "per column."
    )
    if outliers:
        n_records = sum(row.records for row in outliers)
        caption += f" Not shown: {format_count(n_records, 'record')} with distant timestamps."
    figures.add_topic(
        ChartFigure("topic_times", "Bytes over time", caption, topic), "topic_times", table_rows
    )


def _format_utc(time_ms: int) -> str:
    text = format_interval_end(time_ms)
    return text if time_ms >= YEAR_10000_MS else f"{text} UTC"


def split_outliers(rows: Sequence[PageRow]) -> tuple[int, list[PageRow], list[PageRow]]:
    """Return the interval length that suits all rows, the rows to draw in order, and the outliers:
    rows far from nearly all, or longer."""
    buckets = TimeBuckets()
    for row in rows:
        buckets.add_counts(row.from_timestamp, (row.batches, row.records, row.bytes))
    ordered_rows = sorted(rows, key=lambda row: row.from_timestamp)
    first_ms, last_ms = buckets.core_interval_ms()
    width_ms = max(buckets.resampled(MAX_INTERVALS).width_ms, _bucket_ms(min(rows, key=_bucket_ms)))
    margin = max((last_ms - first_ms) // 4, width_ms)
    usual_flags = [
        first_ms - margin <= row.from_timestamp <= last_ms + margin and _bucket_ms(row) <= width_ms
        for row in ordered_rows
    ]
    usual_rows = [row for row, is_usual in zip(ordered_rows, usual_flags, strict=True) if is_usual]
    outliers = [
        row for row, is_usual in zip(ordered_rows, usual_flags, strict=True) if not is_usual
    ]
    return (width_ms, usual_rows, outliers) if usual_rows else (width_ms, ordered_rows, [])


def _bucket_ms(row: PageRow) -> int:
    return int(row.to_timestamp - row.from_timestamp)


def add_batch_histograms(figures: PageFigures, page_data: PageData) -> None:
    """Add the distributions of batches by records and bytes."""
    partition_rows = page_data.partition_rows
    for chart, histogram_column, title, unit_noun in (
        ("batch_records", "records_histogram", "Batches by record count", "record"),
        ("batch_bytes", "bytes_histogram", "Batches by size", "byte"),
    ):
        n_batches_by_bucket: dict[int, int] = defaultdict(int)
        for row in partition_rows:
            for upper_bound, n_batches in row[histogram_column] or ():
                n_batches_by_bucket[upper_bound] += n_batches
        if not n_batches_by_bucket:
            continue
        table = [
            {"up_to": format_thousands(bucket), "batches": n_batches_by_bucket[bucket]}
            for bucket in sorted(n_batches_by_bucket)
        ]
        upper_bound = max(n_batches_by_bucket, key=lambda bucket: n_batches_by_bucket[bucket])
        batch_fraction = n_batches_by_bucket[upper_bound] / sum(n_batches_by_bucket.values())
        # A bucket ends at a power of two.
        size_range_text = format_count(upper_bound, unit_noun)
        lower_bound = upper_bound // 2 + 1
        if lower_bound < upper_bound:
            size_range_text = f"{format_thousands(lower_bound)} to {size_range_text}"
        caption = f"{batch_fraction:.0%} of the batches have {size_range_text}."
        figures.add("batches", ChartFigure(chart, title, caption), chart, table)


def add_codec_figures(figures: PageFigures, page_data: PageData) -> None:
    """Add the codecs in use, and the effect of others."""
    use_rows = page_data.rows_of_type("codec_use")
    rows = [{name: use[name] for name in ("codec", "bytes", "records")} for use in use_rows]
    bytes_by_codec: dict[str, int] = defaultdict(int)
    for codec_use in use_rows:
        bytes_by_codec[codec_use.codec] += codec_use.bytes
    if bytes_by_codec:
        sorted_codecs = sorted(bytes_by_codec, key=lambda name: -bytes_by_codec[name])
        total = sum(bytes_by_codec.values()) or 1
        caption = ", ".join(f"{name} {bytes_by_codec[name] / total:.0%}" for name in sorted_codecs)
        figure = ChartFigure("codecs", "Bytes by codec", f"Share of batch bytes: {caption}.")
        figures.add("codecs", figure, "codecs", rows)
    trials = page_data.rows_of_type("what_if")
    stored_bytes = max((row.stored_bytes for row in trials), default=0)
    if not stored_bytes:
        return
    table = [
        {name: row[name] for name in ("codec", "would_be_bytes", "stored_bytes")} for row in trials
    ]
    best_trial = min(trials, key=lambda row: row.would_be_bytes)
    compression_ratio = best_trial.sample_bytes / stored_bytes
    verdict = "No codec compresses it better"
    if best_trial.saved > 0:
        verdict = f"{best_trial.codec} would save {best_trial.saved:.0%}"
    caption = (
        f"A sample of {format_bytes(best_trial.sample_bytes)} of records is stored in "
        f"{format_bytes(stored_bytes)} ({compression_ratio:.2f}:1, the red line). {verdict}."
    )
    figures.add("codecs", ChartFigure("what_if", "Alternative codecs", caption), "what_if", table)


def add_freed_bytes(figures: PageFigures, page_data: PageData) -> None:
    """Add the bytes freed by retention over time."""
    retention_rows = page_data.rows_of_type("retention")
    now_ms = int(page_data.rows_of_type("report")[0].now) if page_data.rows_of_type("report") else 0
    bytes_by_deletion_ms: dict[int, int] = defaultdict(int)
    for row in retention_rows:
        deletion_ms = now_ms if row.deletable else row.deletable_at
        if deletion_ms is not None and deletion_ms < YEAR_10000_MS and not row.odd:
            bytes_by_deletion_ms[max(int(deletion_ms), now_ms)] += row.bytes
    if not bytes_by_deletion_ms:
        return
    far_future_bytes = sum(
        size for time_ms, size in bytes_by_deletion_ms.items() if time_ms > now_ms + FAR_FUTURE_MS
    )
    times = sorted(time_ms for time_ms in bytes_by_deletion_ms if time_ms <= now_ms + FAR_FUTURE_MS)
    cumulative_bytes = list(accumulate(bytes_by_deletion_ms[time_ms] for time_ms in times))
    point_step = -(-len(times) // 200) if times else 1
    all_points = list(zip(times, cumulative_bytes, strict=True))
    bytes_by_time = dict([*all_points[::point_step], *all_points[-1:]])  # the last one is the total
    table = [{"at": time_ms, "bytes": size} for time_ms, size in bytes_by_time.items()]
    bytes_freed_now = bytes_by_deletion_ms.get(now_ms, 0)
    caption = f"The next retention check frees {format_bytes(bytes_freed_now)}."
    if times and cumulative_bytes[-1] > bytes_freed_now:
        caption += (
            f" By {_format_utc(times[-1])}, {format_bytes(cumulative_bytes[-1])} in total "
            "if nothing more is written."
        )
    if far_future_bytes:
        caption += f" {format_bytes(far_future_bytes)} will be freed more than two years from now."
    if len(table) > 1:
        figures.add(
            "retention", ChartFigure("freed", "Bytes freed by retention", caption), "freed", table
        )


def add_lag_figure(figures: PageFigures, page_data: PageData) -> None:
    """Add the lagging groups."""
    lagging_rows = sorted(lagging_commits(page_data), key=lambda row: -row.lag)
    table = [{"who": group_label(row), "lag": row.lag} for row in lagging_rows[:MAX_LAGS]]
    if table:
        max_lag_row = lagging_rows[0]
        caption = f"{group_label(max_lag_row)} lags by {format_count(max_lag_row.lag, 'record')}."
        if len(lagging_rows) > MAX_LAGS:
            caption += f" Showing the {MAX_LAGS} largest lags."
        figures.add("consumers", ChartFigure("lag", "Consumer lag", caption), "lag", table)


def latest_commits(page_data: PageData) -> list[PageRow]:
    """The committed offset of each group and partition; with several replicas, the newest."""
    commit_by_group_partition: dict[tuple[object, ...], PageRow] = {}
    for row in page_data.rows_of_type("committed_offset"):
        group_partition = row.group, row.topic, row.partition
        previous_commit = commit_by_group_partition.setdefault(group_partition, row)
        if _commit_sort_key(row) > _commit_sort_key(previous_commit):
            commit_by_group_partition[group_partition] = row
    return list(commit_by_group_partition.values())


def _commit_sort_key(row: PageRow) -> tuple[int, int]:
    return row.commit_timestamp or 0, row.offset or 0


def lagging_commits(page_data: PageData) -> Iterator[PageRow]:
    """Committed offsets below the log end offset."""
    return (row for row in latest_commits(page_data) if (row.lag or 0) > 0)


def group_label(row: PageRow) -> str:
    """A group and the partition it reads."""
    return f"{row.group} on {row.topic}-{row.partition}"


def add_segment_maps(figures: PageFigures, page_data: PageData) -> None:
    """Add the maps of each topic's logs, and its timestamps by offset."""
    findings_by_file: dict[str, list[PageRow]] = defaultdict(list)
    for row in page_data.rows_of_type("finding"):
        if row.position is not None:
            findings_by_file[row.file].append(row)
    time_orders_by_topic = group_by_topic(page_data.rows_of_type("time_order"))
    for topic, map_rows in group_by_topic(page_data.rows_of_type("segment_strip")).items():
        _add_segment_map(figures, topic, map_rows, findings_by_file, time_orders_by_topic[topic])


def _add_segment_map(
    figures: PageFigures,
    topic: str,
    map_rows: list[PageRow],
    findings_by_file: Mapping[str, list[PageRow]],
    order_rows: list[PageRow],
) -> None:
    """Add the maps of a topic's logs from first to last byte, and its timestamps by offset.
    findings_by_file: findings with a position, by file."""
    rows_with_cells = [row for row in map_rows if row.cells]
    ranked_rows = sorted(
        rows_with_cells, key=lambda row: (row.file not in findings_by_file, -row.bytes)
    )
    drawn_rows = sorted(
        ranked_rows[:MAX_SEGMENT_MAPS], key=lambda row: (row.partition or 0, row.base_offset or 0)
    )
    log_name_by_file = _log_name_by_file(drawn_rows)
    cells = [
        cell for row in drawn_rows for cell in _iter_cells(topic, row, log_name_by_file[row.file])
    ]
    if not cells:
        return
    finding_mark_rows = [
        {
            "topic": topic,
            "log": log_name_by_file[row.file],
            **{name: finding[name] for name in _FINDING_MARK_COLUMNS},
        }
        for row in drawn_rows
        for finding in findings_by_file.get(row.file, ())
    ]
    figures.rows_by_table.setdefault("marks", []).extend(finding_mark_rows)
    for table_name in ("index_entries", "control"):
        column_names = ("topic", "log", "position")
        marked_cells = [
            {name: cell[name] for name in column_names} for cell in cells if cell[table_name]
        ]
        figures.rows_by_table.setdefault(table_name, []).extend(marked_cells)
    caption = f"{format_count(len(drawn_rows), 'log')}, each from first byte to last."
    if len(drawn_rows) < len(rows_with_cells):
        caption = (
            f"{len(drawn_rows)} of {len(rows_with_cells)} logs: those with findings "
            "first, then the largest."
        )
    caption += " Ticks mark offset index entries; diamonds mark control batches."
    if finding_mark_rows:
        caption += f" Triangles mark findings ({format_thousands(len(finding_mark_rows))})."
    figures.add_topic(ChartFigure("strips", "Segment map", caption, topic), "cells", cells)
    if sum(cell["max_timestamp"] is not None for cell in cells) > 1:
        figure = ChartFigure("order", "Timestamps by offset", _order_caption(order_rows), topic)
        figures.figures_by_topic[topic].append(figure)


_FINDING_MARK_COLUMNS = ("position", "code", "severity", "message")


def _iter_cells(topic: str, row: PageRow, log_name: str) -> Iterator[Row]:
    """The cells of a log."""
    common_values = {"topic": topic, "log": log_name, "partition": partition_or_label(row)}
    for cell_values in row.cells:
        cell = SegmentMapCell(*cell_values)
        yield {**common_values, **cell._asdict(), "end": cell.position + cell.bytes}


def _order_caption(time_order_rows: list[PageRow]) -> str:
    n_out_of_order = sum(row.batches_out_of_order for row in time_order_rows)
    caption = (
        f"{format_count(n_out_of_order, 'batch is', 'batches are')} older than an earlier one."
    )
    gaps = [gap for row in time_order_rows for gap in row.gaps]
    if gaps:
        begin_ms, end_ms, offset = max(gaps, key=lambda gap: gap[1] - gap[0])
        caption += (
            f" The longest gap without a batch is {format_duration(end_ms - begin_ms)}, from "
            f"{_format_utc(begin_ms)} to offset {format_thousands(offset)}."
        )
    return caption


def _log_name_by_file(rows: Sequence[PageRow]) -> dict[str, str]:
    """The name of each log within its topic, by file. If replicas share names, the log directory
    is added."""
    name_by_file = {row.file: _log_name(row) for row in rows}
    if len(set(name_by_file.values())) < len(name_by_file):
        name_by_file = {
            row.file: f"{row.log_dir or ''} {name_by_file[row.file]}".strip() for row in rows
        }
    return name_by_file


def _log_name(row: PageRow) -> str:
    """The name of a log within its topic."""
    base_offset = row.base_offset
    log_text = row.file.rpartition("/")[2] if base_offset is None else format_thousands(base_offset)
    return f"{row.partition} / {log_text}" if row.partition is not None else log_text


_OUTCOMES = ("open", "aborted", "committed")


def add_transaction_figures(figures: PageFigures, page_data: PageData) -> None:
    """Add the transactions of each topic."""
    for topic, rows in group_by_topic(page_data.rows_of_type("transaction")).items():
        count_by_outcome = {
            outcome: page_data.transaction_counts[topic, outcome] for outcome in _OUTCOMES
        }
        _add_topic_transactions(figures, topic, rows, count_by_outcome)


def _add_topic_transactions(
    figures: PageFigures, topic: str, rows: list[PageRow], count_by_outcome: Mapping[str, int]
) -> None:
    """Add the transactions of a topic by offset, open and aborted ones first. count_by_outcome: the
    number of all transactions, by outcome."""
    rows_with_offsets = [row for row in rows if row.first_offset is not None]
    rows_with_offsets.sort(key=lambda row: (row.outcome == "committed", row.outcome != "open"))
    table_rows = [
        {
            "topic": topic,
            "outcome": row.outcome,
            "records": row.records,
            "producer": f"{partition_or_label(row)} / {row.producer_id}",
            "first": row.first_offset,
            "last": row.marker_offset or row.last_offset or row.first_offset,
        }
        for row in rows_with_offsets[:MAX_TRANSACTIONS]
    ]
    caption = (
        f"{', '.join(f'{format_thousands(n)} {name}' for name, n in count_by_outcome.items())}."
    )
    if sum(count_by_outcome.values()) > MAX_TRANSACTIONS:
        caption += f" Showing {MAX_TRANSACTIONS}: open and aborted transactions first."
    figure = ChartFigure("transactions", "Transactions by offset", caption, topic)
    figures.add_topic(figure, "transactions", table_rows)
