"""The figures of a page: its charts, their rows and their captions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from kfmt_cli.commands.report.page.page_data import PageData, PageRow, label_of
from kfmt_cli.core.times import YEAR_10000, span_words, until_words
from kfmt_cli.log.summary.shape import DAY, Buckets, Cell
from kfmt_cli.render.style import count, grouped, human

Row = dict[str, Any]
MOST_SERIES = 7  # topics with a colour of their own over time
OTHERS = "other topics"
MOST_TIMES = 150  # intervals
MOST_LAGS = 20
MOST_TRANSACTIONS = 400  # per topic
MOST_STRIPS = 120  # per topic
MOST_AREAS = 400
FAR = 730 * DAY  # later deletions appear only in the text


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with a caption that says what it shows."""

    chart: str
    title: str
    words: str
    topic: str | None = None
    """The topic whose rows it shows; None for all."""


@dataclass(slots=True)
class Figures:
    """The figures of a page and their tables."""

    tables: dict[str, list[Row]] = field(default_factory=dict)
    overview: dict[str, list[Figure]] = field(default_factory=dict)
    """By the part of the page that contains them."""
    topics: dict[str, list[Figure]] = field(default_factory=dict)

    def add(self, part: str, figure: Figure, table: str, rows: Sequence[Row]) -> None:
        """Add a figure about all topics, if it has rows."""
        if rows:
            self.tables[table] = list(rows)
            self.overview.setdefault(part, []).append(figure)

    def add_topic(self, figure: Figure, table: str, rows: Sequence[Row]) -> None:
        """Add a figure about one topic, if it has rows."""
        if rows and figure.topic is not None:
            self.tables.setdefault(table, []).extend(rows)
            self.topics.setdefault(figure.topic, []).append(figure)

    def packed(self) -> dict[str, dict[str, Any]]:
        """The tables, with column names stored once."""
        return {
            name: {
                "columns": list(rows[0]),
                "rows": [[row.get(column) for column in rows[0]] for row in rows],
            }
            for name, rows in self.tables.items()
            if rows
        }


def by_topic(rows: Sequence[PageRow]) -> Mapping[str, list[PageRow]]:
    """PageRows by topic; an empty list for unknown topics."""
    found: dict[str, list[PageRow]] = defaultdict(list)
    for row in rows:
        found[label_of(row)].append(row)
    return found


def areas(found: Figures, data: PageData) -> None:
    """What uses the space: a rectangle per partition."""
    partitions = sorted(data.partitions, key=lambda row: -row.bytes)
    shown = [row for row in partitions if row.bytes][:MOST_AREAS]
    if not shown:
        return
    topics = dict.fromkeys(label_of(row) for row in shown)
    names = ("id", "parent", "bytes", "label", "topic", "size")
    areas: list[Row] = [{**dict.fromkeys(names), "id": "all"}]
    areas += [{"id": f"topic {name}", "parent": "all", "label": None} for name in topics]
    areas += [
        {
            "id": f"partition {i}",
            "parent": f"topic {label_of(row)}",
            "bytes": row.bytes,
            "label": place_of(row),
            "topic": label_of(row),
            "size": human(row.bytes),
        }
        for i, row in enumerate(shown)
    ]
    total = sum(row.bytes for row in partitions)
    largest = shown[0]
    words = (
        f"{place_of(largest)} is the largest partition: {human(largest.bytes)}, "
        f"{largest.bytes / total:.0%} of {human(total)}."
    )
    found.add("topics", Figure("treemap", "Bytes by partition", words), "areas", areas)


def place_of(row: PageRow) -> str:
    """The partition that an object is about, or else its label."""
    partition = row.get("partition")
    return label_of(row) if partition is None else f"{row.topic}-{partition}"


def times(found: Figures, data: PageData) -> None:
    """Data written over time: to all topics, with the largest named, and to each topic."""
    rows = data.of("time_bucket")
    if not rows:
        return
    of_topics = by_topic(rows)
    sizes = {name: sum(row.bytes for row in its) for name, its in of_topics.items()}
    series = sorted(sizes, key=lambda name: -sizes[name])[:MOST_SERIES]
    width, near, far = stretches(rows)
    stacks: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for row in near:
        name = label_of(row)
        place = series.index(name) if name in series else MOST_SERIES
        of = sums[place, row.from_timestamp // width * width]
        of[0] += row.bytes
        of[1] += row.records
    table = []
    for (place, begin), (size, records) in sorted(sums.items()):
        below = stacks[begin]
        made = {"series": series[place] if place < len(series) else OTHERS, "from": begin}
        made |= {"to": begin + width, "bytes": size, "records": records}
        made |= {"bytes_from": below[0], "bytes_to": below[0] + size}
        made |= {"records_from": below[1], "records_to": below[1] + records}
        stacks[begin] = [below[0] + size, below[1] + records]
        table.append(made)
    begin, (size, _) = max(stacks.items(), key=lambda item: item[1][0])
    words = (
        f"Busiest period: {human(size)} in {span_words(width)} from {_when(begin)}. "
        "Batches are placed at their max timestamp."
    )
    if far:
        n, first = sum(row.records for row in far), far[0].from_timestamp
        words += (
            f" Not shown: {count(n, 'record')} with distant timestamps, such as {_when(first)}."
        )
    for chart, title in (
        ("bytes_over_time", "Bytes over time"),
        ("records_over_time", "Records over time"),
    ):
        found.add("times", Figure(chart, title, words), "times", table)
        words = "The same periods, by number of records."
    for name, its in of_topics.items():
        _topic_times(found, name, its)


def _topic_times(found: Figures, name: str, rows: list[PageRow]) -> None:
    """Data written to a topic over time."""
    _, near, far = stretches(rows)
    table = [
        {"topic": name, "from": row.from_timestamp, "to": row.to_timestamp, "bytes": row.bytes}
        | {"records": row.records}
        for row in near
    ]
    n = sum(row.records for row in near)
    words = f"{count(n, 'record')} "
    words += f"from {_when(near[0].from_timestamp)} to {_when(near[-1].to_timestamp)}"
    words += f", {span_words(near[0].to_timestamp - near[0].from_timestamp)} per column."
    if far:
        n = sum(row.records for row in far)
        words += f" Not shown: {count(n, 'record')} with distant timestamps."
    found.add_topic(Figure("topic_times", "Bytes over time", words, name), "topic_times", table)


def _when(milliseconds: int) -> str:
    words = until_words(milliseconds)
    return words if milliseconds >= YEAR_10000 else f"{words} UTC"


def stretches(rows: Sequence[PageRow]) -> tuple[int, list[PageRow], list[PageRow]]:
    """Return the interval length that fits all, the rows worth an axis in order, and the outliers:
    rows far from nearly all, or longer."""
    buckets = Buckets()
    for row in rows:
        counts = row.batches, row.records, row.bytes
        buckets.put(row.from_timestamp, counts)
    ordered = sorted(rows, key=lambda row: row.from_timestamp)
    first, last = buckets.core()
    width = max(buckets.drawn(MOST_TIMES).width, _length(min(rows, key=_length)))
    margin = max((last - first) // 4, width)
    is_near = [
        first - margin <= row.from_timestamp <= last + margin and _length(row) <= width
        for row in ordered
    ]
    near = [row for row, here in zip(ordered, is_near, strict=True) if here]
    far = [row for row, here in zip(ordered, is_near, strict=True) if not here]
    return (width, near, far) if near else (width, ordered, [])


def _length(row: PageRow) -> int:
    return int(row.to_timestamp - row.from_timestamp)


def batches(found: Figures, data: PageData) -> None:
    """Distribution of batches by records and bytes."""
    partitions = data.partitions
    for chart, member, title, noun in (
        ("batch_records", "records_histogram", "Batches by record count", "record"),
        ("batch_bytes", "bytes_histogram", "Batches by size", "byte"),
    ):
        sums: dict[int, int] = defaultdict(int)
        for row in partitions:
            for most, n in row[member] or ():
                sums[most] += n
        if not sums:
            continue
        table = [{"up_to": grouped(most), "batches": sums[most]} for most in sorted(sums)]
        most = max(sums, key=lambda key: sums[key])
        share = sums[most] / sum(sums.values())
        size, least = count(most, noun), most // 2 + 1  # of a bucket, which ends at a power of two
        if least < most:
            size = f"{grouped(least)} to {size}"
        words = f"{share:.0%} of the batches have {size}."
        found.add("batches", Figure(chart, title, words), chart, table)


def codecs(found: Figures, data: PageData) -> None:
    """Codecs in use, and the effect of others."""
    uses = data.of("codec_use")
    rows = [{name: use[name] for name in ("codec", "bytes", "records")} for use in uses]
    sums: dict[str, int] = defaultdict(int)
    for use in uses:
        sums[use.codec] += use.bytes
    if sums:
        parts = sorted(sums, key=lambda name: -sums[name])
        total = sum(sums.values()) or 1
        words = ", ".join(f"{name} {sums[name] / total:.0%}" for name in parts)
        figure = Figure("codecs", "Bytes by codec", f"Share of batch bytes: {words}.")
        found.add("codecs", figure, "codecs", rows)
    trials = data.of("what_if")
    stored = max((row.stored_bytes for row in trials), default=0)
    if not stored:
        return
    table = [
        {name: row[name] for name in ("codec", "would_be_bytes", "stored_bytes")} for row in trials
    ]
    best = min(trials, key=lambda row: row.would_be_bytes)
    ratio = best.sample_bytes / stored
    verdict = "No codec compresses it better"
    if best.saved > 0:
        verdict = f"{best.codec} would save {best.saved:.0%}"
    words = (
        f"A sample of {human(best.sample_bytes)} of records is stored in {human(stored)} "
        f"({ratio:.2f}:1, the red line). {verdict}."
    )
    found.add("codecs", Figure("what_if", "Alternative codecs", words), "what_if", table)


def freed(found: Figures, data: PageData) -> None:
    """Bytes freed by retention over time."""
    rows = data.of("retention")
    now = int(data.of("report")[0].now) if data.of("report") else 0
    goes: dict[int, int] = defaultdict(int)
    for row in rows:
        at = now if row.deletable else row.deletable_at
        if at is not None and at < YEAR_10000 and not row.odd:
            goes[max(int(at), now)] += row.bytes
    if not goes:
        return
    late = sum(size for at, size in goes.items() if at > now + FAR)
    times = sorted(at for at in goes if at <= now + FAR)
    sums = list(accumulate(goes[at] for at in times))
    step = -(-len(times) // 200) if times else 1
    table = [{"at": at, "bytes": size} for at, size in zip(times, sums, strict=True)][::step]
    at_once = goes.get(now, 0)
    words = f"The next retention check frees {human(at_once)}."
    if times and sums[-1] > at_once:
        words += f" By {_when(times[-1])}, {human(sums[-1])} in total if nothing more is written."
    if late:
        words += f" {human(late)} will be freed more than two years from now."
    if len(table) > 1:
        found.add("retention", Figure("freed", "Bytes freed by retention", words), "freed", table)


def lag(found: Figures, data: PageData) -> None:
    """Lagging groups."""
    late = sorted(lagging(data), key=lambda row: -row.lag)
    table = [{"who": who(row), "lag": row.lag} for row in late[:MOST_LAGS]]
    if table:
        more = f" Showing the {MOST_LAGS} largest lags." if len(late) > MOST_LAGS else ""
        words = f"{who(late[0])} lags by {count(late[0].lag, 'record')}.{more}"
        found.add("consumers", Figure("lag", "Consumer lag", words), "lag", table)


def commits(data: PageData) -> list[PageRow]:
    """The committed offset of each group and partition: of several replicas, the newest."""
    found: dict[tuple[object, ...], PageRow] = {}
    for row in data.of("committed_offset"):
        key = row.group, row.topic, row.partition
        known = found.setdefault(key, row)
        if _age(row) > _age(known):
            found[key] = row
    return list(found.values())


def _age(row: PageRow) -> tuple[int, int]:
    return row.commit_timestamp or 0, row.offset or 0


def lagging(data: PageData) -> Iterator[PageRow]:
    """Committed offsets below the log end offset."""
    return (row for row in commits(data) if (row.lag or 0) > 0)


def who(row: PageRow) -> str:
    """A group and the partition it reads."""
    return f"{row.group} on {row.topic}-{row.partition}"


def strips(found: Figures, data: PageData) -> None:
    """The logs of each topic, and its timestamps by offset."""
    wrong: dict[str, list[PageRow]] = defaultdict(list)
    for row in data.of("finding"):
        if row.position is not None:
            wrong[row.file].append(row)
    orders = by_topic(data.of("time_order"))
    for topic, rows in by_topic(data.of("segment_strip")).items():
        _strips(found, topic, rows, wrong, orders[topic])


def _strips(
    found: Figures,
    topic: str,
    strips: list[PageRow],
    wrong: Mapping[str, list[PageRow]],
    orders: list[PageRow],
) -> None:
    """The logs of a topic from first to last byte, and its timestamps by offset. wrong: findings
    with a position, by file."""
    every = [row for row in strips if row.cells]
    ranked = sorted(every, key=lambda row: (row.file not in wrong, -row.bytes))
    shown = sorted(ranked[:MOST_STRIPS], key=lambda row: (row.partition or 0, row.base_offset or 0))
    names = _logs(shown)
    cells = [cell for row in shown for cell in _cells(topic, row, names[row.file])]
    if not cells:
        return
    marks = [
        {"topic": topic, "log": names[row.file], **{name: bad[name] for name in _OF_MARK}}
        for row in shown
        for bad in wrong.get(row.file, ())
    ]
    found.tables.setdefault("marks", []).extend(marks)
    for table in ("index_entries", "control"):
        members = ("topic", "log", "position")
        some = [{name: cell[name] for name in members} for cell in cells if cell[table]]
        found.tables.setdefault(table, []).extend(some)
    words = f"{count(len(shown), 'log')}, each from first byte to last."
    if len(shown) < len(every):
        words = f"{len(shown)} of {len(every)} logs: those with findings first, then the largest."
    words += " Ticks mark offset index entries; diamonds mark control batches."
    if marks:
        words += f" Triangles mark findings ({grouped(len(marks))})."
    found.add_topic(Figure("strips", "Segment map", words, topic), "cells", cells)
    if sum(cell["max_timestamp"] is not None for cell in cells) > 1:
        figure = Figure("order", "Timestamps by offset", _order_words(orders), topic)
        found.topics[topic].append(figure)


_OF_MARK = ("position", "code", "severity", "message")


def _cells(topic: str, row: PageRow, log: str) -> Iterator[Row]:
    """The cells of a log."""
    of_log = {"topic": topic, "log": log, "partition": place_of(row)}
    for values in row.cells:
        cell = Cell(*values)
        yield {**of_log, **cell._asdict(), "end": cell.position + cell.bytes}


def _order_words(rows: list[PageRow]) -> str:
    late = sum(row.batches_out_of_order for row in rows)
    words = f"{count(late, 'batch is', 'batches are')} older than an earlier one."
    gaps = [gap for row in rows for gap in row.gaps]
    if gaps:
        begin, end, offset = max(gaps, key=lambda gap: gap[1] - gap[0])
        words += (
            f" The longest gap without a batch is {span_words(end - begin)}, from {_when(begin)} "
            f"to offset {grouped(offset)}."
        )
    return words


def _logs(rows: Sequence[PageRow]) -> dict[str, str]:
    """The name of each log within its topic, by file; replicas also have that of their log
    directory."""
    names = {row.file: _log(row) for row in rows}
    if len(set(names.values())) < len(names):
        names = {row.file: f"{row.log_dir or ''} {names[row.file]}".strip() for row in rows}
    return names


def _log(row: PageRow) -> str:
    """The name of a log within its topic."""
    base = row.base_offset
    name = row.file.rpartition("/")[2] if base is None else grouped(base)
    return f"{row.partition} / {name}" if row.partition is not None else name


_OUTCOMES = ("open", "aborted", "committed")


def transactions(found: Figures, data: PageData) -> None:
    """The transactions of each topic."""
    for topic, rows in by_topic(data.of("transaction")).items():
        counts = {outcome: data.n_transactions[topic, outcome] for outcome in _OUTCOMES}
        _transactions(found, topic, rows, counts)


def _transactions(
    found: Figures, topic: str, rows: list[PageRow], counts: Mapping[str, int]
) -> None:
    """The transactions of a topic by offset: open and aborted ones first. counts: of all, by
    outcome."""
    known = [row for row in rows if row.first_offset is not None]
    known.sort(key=lambda row: (row.outcome == "committed", row.outcome != "open"))
    table = [
        {
            "topic": topic,
            "outcome": row.outcome,
            "records": row.records,
            "producer": f"{place_of(row)} / {row.producer_id}",
            "first": row.first_offset,
            "last": row.marker_offset or row.last_offset or row.first_offset,
        }
        for row in known[:MOST_TRANSACTIONS]
    ]
    words = f"{', '.join(f'{grouped(n)} {name}' for name, n in counts.items())}."
    if sum(counts.values()) > MOST_TRANSACTIONS:
        words += f" Showing {MOST_TRANSACTIONS}: open and aborted transactions first."
    figure = Figure("transactions", "Transactions by offset", words, topic)
    found.add_topic(figure, "transactions", table)
