"""The tables of a page, readable without JavaScript."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from kfmt_cli.broker.start.outcome import CLEAN, CRASH
from kfmt_cli.broker.start.ranges import size_of_ranges
from kfmt_cli.commands.report.page.figures import commits
from kfmt_cli.commands.report.page.page_data import PageData, PageRow, harms, label_of
from kfmt_cli.core.layout.field import MILLISECONDS
from kfmt_cli.core.times import span_words, until_words
from kfmt_cli.findings.finding import SEVERITIES
from kfmt_cli.render.style import count, grouped, human
from kfmt_cli.rows.column import ColumnKind, RowType
from kfmt_cli.rows.documents import DISK_USAGE, STATISTICS, TRANSACTIONS, WHAT_IF
from kfmt_cli.rows.types.shapes import SEGMENT_STRIP, TIME_ORDER
from kfmt_cli.rows.types.state_types import COMMITTED_OFFSET
from kfmt_cli.rows.types.transaction import TRANSACTION

NONE = "–"
MOST_ROWS = 1_000  # per table


@dataclass(frozen=True, slots=True)
class PageCell:
    """A cell: its text, sort value and link target."""

    words: str
    value: float | str | None = None
    link: str | None = None
    style: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """A column: its heading, and the function that makes its cells."""

    words: str
    cell: Callable[[Any], PageCell]
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table."""

    caption: str
    headings: tuple[Heading, ...]
    rows: list[list[PageCell]]
    left_out: int = 0
    """Number of rows omitted."""


def sheet(
    caption: str, headings: Sequence[Heading], rows: Sequence[Any], most: int = MOST_ROWS
) -> Sheet | None:
    """A table of rows; None if there are none. most: how many it shows."""
    if not rows:
        return None
    shown = [[heading.cell(row) for heading in headings] for row in rows[:most]]
    return Sheet(caption, tuple(headings), shown, max(len(rows) - most, 0))


# Columns.


def text(words: str, of: Callable[[Any], object]) -> Heading:
    """A column of text."""

    def cell(row: Any) -> PageCell:
        value = of(row)
        return PageCell(NONE if value is None else str(value))

    return Heading(words, cell)


def _of_number(
    words: str, of: Callable[[Any], Any], told: Callable[[Any], str], style: str = ""
) -> Heading:
    def cell(row: Any) -> PageCell:
        value = of(row)
        return PageCell(NONE) if value is None else PageCell(told(value), value, style=style)

    return Heading(words, cell, True)


def whole(words: str, of: Callable[[Any], Any]) -> Heading:
    """A column of whole numbers."""
    return _of_number(words, of, grouped)


def real(words: str, of: Callable[[Any], Any]) -> Heading:
    """A column of numbers with a fraction."""
    return _of_number(words, of, _with_tenths)


def _with_tenths(value: float) -> str:
    whole_part, _, tenths = f"{value:.1f}".partition(".")
    return f"{grouped(int(whole_part))}.{tenths}"


def size(words: str, of: Callable[[Any], Any]) -> Heading:
    """A column of bytes."""
    return _of_number(words, of, human)


def moment(words: str, of: Callable[[Any], Any]) -> Heading:
    """A column of times."""
    return _of_number(words, of, until_words, "time")


_SIZES = frozenset({"bytes", "disk_bytes", "freed_now", "freed_later"})
_SIZES |= {"sample_bytes", "stored_bytes", "would_be_bytes"}


def columns(type_: RowType, *names: str) -> Iterator[Heading]:
    """Columns of members of a type, as their kinds say; after `=` is a heading other than the
    name."""
    for name in names:
        member, _, words = name.partition("=")
        column, of = type_[member], attrgetter(member)
        words = words or member.replace("_", " ")
        if column.unit == MILLISECONDS:
            yield moment(f"{words} (UTC)", of)
        elif column.kind is ColumnKind.REAL:
            yield real(words, of)
        elif column.kind is not ColumnKind.NUMBER:
            yield text(words, of)
        else:
            yield size(words, of) if member in _SIZES else whole(words, of)


def file_of(rows: Sequence[PageRow], words: str) -> Heading:
    """A column of files or directories, relative to the log directory if all share one."""
    folders = {row.log_dir for row in rows}
    above = f"{folders.pop()}/" if len(folders) == 1 else ""

    def cell(row: Any) -> PageCell:
        return PageCell(row.file.removeprefix(above))

    return Heading(words, cell)


# Tables of the whole disk.


def disk(data: PageData) -> Sheet | None:
    """Disk usage."""
    headings = (
        *columns(DISK_USAGE, "file=directory"),
        text("purpose", lambda row: str(row.purpose).replace("_", " ")),
        *columns(DISK_USAGE, "files", "bytes=size", "disk_bytes=on disk"),
        *columns(DISK_USAGE, "freed_now=freed by retention now", "freed_later"),
        *columns(DISK_USAGE, "becomes=effect on a broker"),
    )
    return sheet("Disk usage", headings, data.of("disk_usage"))


def topics(data: PageData, anchors: Mapping[str, str]) -> Sheet | None:
    """The topics, the largest first. anchors: of the topics that have a page of their own."""
    rows = [*data.topics, *(row for row in data.partitions if row.topic is None)]
    rows.sort(key=lambda row: -row.bytes)
    total = sum(row.bytes for row in rows) or 1
    n_partitions = Counter(label_of(row) for row in data.partitions)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for (label, _, severity), n in data.n_findings.items():
        found[label][severity] += n

    def name(row: PageRow) -> PageCell:
        label = label_of(row)
        return PageCell(label, label, anchors.get(label))

    def findings(row: PageRow) -> PageCell:
        counts = found[label_of(row)]
        said = [count(counts[name], name) for name in SEVERITIES[:2] if counts[name]]
        worst = next((name for name in SEVERITIES[:2] if counts[name]), "good")
        return PageCell(
            ", ".join(said) or "ok", counts["error"] * 1e6 + counts["warning"], None, worst
        )

    headings = (
        Heading("topic", name),
        Heading("findings", findings),
        whole("partitions", lambda row: n_partitions[label_of(row)]),
        *columns(STATISTICS, "segments=logs", "bytes=size"),
        real("share (%)", lambda row: 100 * row.bytes / total),
        *columns(STATISTICS, "records", "records_per_batch", "bytes_per_record"),
        text("codecs", lambda row: ", ".join(row.codecs or ())),
        *columns(STATISTICS, "min_timestamp=from", "max_timestamp=to"),
    )
    return sheet("Totals by topic", headings, rows)


def trials(data: PageData) -> Sheet | None:
    """The effect of other codecs on a sample."""
    headings = (
        *columns(WHAT_IF, "codec", "sample_bytes=records in the sample"),
        *columns(WHAT_IF, "stored_bytes=stored now", "would_be_bytes=would be"),
        real("saved (%)", lambda row: 100 * row.saved),
        real("ratio", lambda row: row.sample_bytes / (row.would_be_bytes or 1)),
    )
    return sheet("Alternative codecs, on a sample", headings, data.of("what_if"))


def order(rows: Sequence[PageRow]) -> Sheet | None:
    """The order of timestamps."""
    headings = (
        file_of(rows, "partition"),
        *columns(TIME_ORDER, "batches_with_time=batches with a timestamp"),
        *columns(TIME_ORDER, "batches_out_of_order=out of order"),
        text("longest gaps without a batch", _gaps),
    )
    return sheet("Timestamp order and gaps", headings, rows)


def _gaps(row: PageRow) -> str:
    return (
        "; ".join(
            f"{span_words(end - begin)} before offset {grouped(offset)}"
            for begin, end, offset in row.gaps[:3]
        )
        or NONE
    )


def starts(data: PageData) -> Sheet | None:
    """The effect of a start on each partition that needs attention."""
    both: dict[str, dict[str, PageRow]] = defaultdict(dict)
    for row in data.of("broker_start"):
        both[row.file][row.after] = row
    rows = list(both.items())
    rows.sort(key=lambda item: not any(map(harms, item[1].values())))

    def cell(kind: str) -> Callable[[Any], PageCell]:
        def made(item: Any) -> PageCell:
            row = item[1].get(kind)
            if row is None:
                return PageCell(NONE)
            return PageCell(_start(row), None, None, "error" if harms(row) else "good")

        return made

    headings = (
        Heading("directory", lambda item: PageCell(item[0])),
        Heading("after a crash", cell(CRASH)),
        Heading("after a clean shutdown", cell(CLEAN)),
    )
    return sheet("Broker start by partition", headings, rows)


def replicas(data: PageData) -> Sheet | None:
    """The replicas of each partition for which it matters which broker starts first."""
    held: dict[Place, dict[int, PageRow]] = defaultdict(dict)
    for row in data.of("replica"):
        held[_place(row)][row.broker_id] = row
    ends: dict[Place, dict[str, PageRow]] = defaultdict(dict)
    for row in data.of("start_order"):
        ends[_place(row)][_order(row)] = row
    brokers = sorted({broker for of in held.values() for broker in of if broker is not None})
    orders = dict.fromkeys(order for of in ends.values() for order in of)

    def replica(broker: int) -> Callable[[Any], PageCell]:
        return lambda row: _replica(held[_place(row)].get(broker))

    def end(order: str) -> Callable[[Any], PageCell]:
        return lambda row: _end(ends[_place(row)].get(order))

    headings = (
        text("partition", lambda row: "{}-{}".format(*_place(row))),
        text("leader", lambda row: "none" if row.leader == -1 else row.leader),
        text("ISR", lambda row: ", ".join(map(str, row.isr))),
        text("replicas", attrgetter("verdict")),
        *(Heading(f"broker {broker}", replica(broker)) for broker in brokers),
        *(Heading(f"order {order}", end(order)) for order in orders),
    )
    return sheet("Replicas, and the end of each order of starts", headings, data.of("replicas"))


Place = tuple[str, int]


def _place(row: PageRow) -> Place:
    return row.topic, row.partition


def _order(row: PageRow) -> str:
    order = row.order
    return order if isinstance(order, str) else ",".join(map(str, order))


def _replica(row: PageRow | None) -> PageCell:
    """Where a replica ends, now and after its own start."""
    if row is None:
        return PageCell(NONE)
    if row.file is None:
        return PageCell("missing", None, None, "error")
    end, after = row.log_end_offset or 0, row.log_end_offset_after_start
    words = grouped(end)
    if after != end:
        words += f" → {'offline' if after is None else grouped(after)}"
    return PageCell(words, end, None, "error" if row.damaged_offsets else "good")


def _end(row: PageRow | None) -> PageCell:
    """What becomes of a partition."""
    if row is None:
        return PageCell(NONE)
    ends = row.alternatives or [row]
    offsets = dict.fromkeys(end["log_end_offset"] for end in ends)
    words = " or ".join("offline" if end is None else grouped(end) for end in offsets)
    lost = size_of_ranges(row.lost_offsets)
    if lost:
        words += f", {count(lost, 'offset')} lost"
    return PageCell(words, -lost, None, "error" if lost or None in offsets else "good")


def _start(row: PageRow) -> str:
    if row.becomes:
        return f"not served ({row.becomes}): {row.reason or ''}".rstrip(": ")
    if not row.starts:
        return f"the broker does not start: {row.reason}"
    words = [f"log start offset {row.log_start_offset}, log end offset {row.log_end_offset}"]
    words += [
        f"{cut['file'].rpartition('/')[2]} truncated to {grouped(cut['size'])} bytes"
        for cut in row.cut
    ]
    if row.deleted:
        words.append(f"{count(len(row.deleted), 'file')} deleted")
    for ranges, said in (
        (row.lost_offsets, "lost"),
        (row.unreachable_offsets, "unreachable"),
    ):
        if ranges:
            words.append(f"{count(size_of_ranges(ranges), 'offset')} {said}")
    return "; ".join(words)


def retention(data: PageData) -> Sheet | None:
    """How much retention deletes when, by topic."""
    sums: dict[str, PageRow] = {}
    for row in data.of("retention"):
        none = PageRow(topic=label_of(row), logs=0, now=0, later=0, next_at=None, kept=0)
        of = sums.setdefault(none.topic, none)
        of.logs += 1
        if row.deletable:
            of.now += row.bytes
        elif row.deletable_at is not None and not row.odd:
            of.later += row.bytes
            of.next_at = min(row.deletable_at, of.next_at or row.deletable_at)
        else:
            of.kept += row.bytes
        of.settings = ", ".join(
            f"{name}={setting.get('value')}" for name, setting in row.settings.items()
        )
    headings = (
        text("topic", attrgetter("topic")),
        whole("logs", attrgetter("logs")),
        size("deletable now", attrgetter("now")),
        size("deletable later", attrgetter("later")),
        moment("next at (UTC)", attrgetter("next_at")),
        size("kept", attrgetter("kept")),
        text("settings", attrgetter("settings")),
    )
    return sheet("Retention forecast", headings, list(sums.values()))


def consumers(data: PageData) -> Sheet | None:
    """Groups and their progress, the largest lag first."""
    names = ("group", "topic", "partition", "offset=committed offset", "log_end_offset")
    more = ("lag=lag (records)", "commit_timestamp=committed at")
    headings = tuple(columns(COMMITTED_OFFSET, *names, *more))
    rows = sorted(commits(data), key=lambda row: -(row.lag or 0))
    return sheet("Committed offsets", headings, rows)


def transactions(data: PageData) -> Sheet | None:
    """The partitions with transactions."""
    headings = (
        file_of(data.of("transactions"), "partition"),
        *columns(TRANSACTIONS, "committed", "aborted", "open"),
        *columns(TRANSACTIONS, "last_stable_offset", "log_end_offset"),
    )
    return sheet("Transactions by partition", headings, data.of("transactions"))


# Tables of a topic.


def partitions(rows: Sequence[PageRow]) -> Sheet | None:
    """The partitions of a topic."""
    headings = (
        file_of(rows, "partition"),
        *columns(STATISTICS, "segments=logs", "bytes=size", "batches", "records"),
        *columns(STATISTICS, "first_offset", "last_offset"),
        *columns(STATISTICS, "min_timestamp=from", "max_timestamp=to", "producers"),
    )
    return sheet("Partitions", headings, rows)


def segments(rows: Sequence[PageRow], fates: Mapping[str, PageRow], n_logs: int) -> Sheet | None:
    """The logs of a topic. fates: what retention does with each, by file. n_logs: how many the
    topic has."""

    def goes(row: PageRow) -> PageCell:
        fate = fates.get(row.file)
        if fate is None or not (fate.deletable or fate.deletable_at is not None):
            return PageCell(NONE)
        at = fate.deletable_at
        return PageCell("now" if fate.deletable else until_words(at), at)

    headings = (
        file_of(rows, "log"),
        *columns(SEGMENT_STRIP, "bytes=size", "batches", "records", "last_offset"),
        *columns(SEGMENT_STRIP, "index_entries", "min_timestamp=from", "max_timestamp=to"),
        Heading("deletable from (UTC)", goes),
        text("why", lambda row: fates.get(row.file, PageRow()).get("why")),
    )
    ordered = sorted(rows, key=lambda row: (row.partition or 0, row.base_offset or 0))
    made = sheet("Logs", headings, ordered) or Sheet("Logs", headings, [])
    left_out = max(n_logs - len(made.rows), 0)
    return replace(made, left_out=left_out) if made.rows or left_out else None


def not_committed(rows: Sequence[PageRow]) -> Sheet | None:
    """Open and aborted transactions."""
    headings = (
        *columns(TRANSACTION, "outcome"),
        file_of(rows, "partition"),
        *columns(TRANSACTION, "producer_id=producer", "transactional_id"),
        *columns(TRANSACTION, "first_offset", "last_offset", "records", "start_timestamp=started"),
        text("hanging", lambda row: {True: "yes", False: "no"}.get(row.hanging)),
    )
    shown = [row for row in rows if row.outcome != "committed"]
    return sheet("Open and aborted transactions", headings, shown)


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings of one kind."""

    code: str
    severity: str
    count: int
    rows: list[PageRow]
    consequences: list[tuple[str, str]]


def finding_groups(data: PageData) -> Iterator[FindingGroup]:
    """The findings by code and severity, the worst first."""
    groups: dict[tuple[str, str], list[PageRow]] = defaultdict(list)
    for row in data.of("finding"):
        groups[row.code, row.severity].append(row)
    counts: Counter[tuple[str, str]] = Counter()
    for (_, code, severity), n in data.n_findings.items():
        counts[code, severity] += n
    # Findings at a place in a file come before findings about missing files.
    ranked = sorted(
        groups.items(),
        key=lambda item: (
            SEVERITIES.index(item[0][1]),
            item[1][0].position is None,
            -len(item[1]),
        ),
    )
    for (code, severity), rows in ranked:
        labels = (
            ("after a crash", "after_crash"),
            ("after a clean shutdown", "after_clean_shutdown"),
            ("what to do", "advice"),
        )
        told = [
            (label, str(said))
            for label, name in labels
            if len({row[name] for row in rows}) == 1 and (said := rows[0][name])
        ]
        yield FindingGroup(code, severity, counts[code, severity], rows, told)
