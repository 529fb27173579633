"""The tables of a page, readable without JavaScript."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from kfmt_cli.broker.log_reading.offset_intervals import count_offsets
from kfmt_cli.broker.start.outcome import AFTER_CLEAN_SHUTDOWN, AFTER_CRASH
from kfmt_cli.commands.report.page.figures import latest_commits
from kfmt_cli.commands.report.page.html_columns import (
    NO_VALUE_TEXT,
    HtmlTableCell,
    HtmlTableColumn,
    decimal_column,
    file_column,
    integer_column,
    member_columns,
    size_column,
    text_column,
    time_column,
)
from kfmt_cli.commands.report.page.page_data import PageData, PageRow, is_harmful, row_label
from kfmt_cli.core.times import format_duration, format_interval_end
from kfmt_cli.findings.finding import SEVERITIES
from kfmt_cli.render.style import format_count, format_thousands
from kfmt_cli.rows.documents import (
    DISK_USAGE_ROW,
    SEGMENT_MAP_ROW,
    STATISTICS_ROW,
    TIME_ORDER_ROW,
    TRANSACTION_ROW,
    TRANSACTIONS_ROW,
    WHAT_IF_ROW,
)
from kfmt_cli.rows.types.state_rows import COMMITTED_OFFSET_ROW

MAX_TABLE_ROWS = 1_000  # per table


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """A table."""

    caption: str
    columns: tuple[HtmlTableColumn, ...]
    rows: list[list[HtmlTableCell]]
    n_omitted: int = 0
    """Number of rows omitted."""


def create_table(
    caption: str,
    columns: Sequence[HtmlTableColumn],
    rows: Sequence[Any],
    max_rows: int = MAX_TABLE_ROWS,
) -> HtmlTable | None:
    """A table of rows; None if there are none. max_rows: the rest are only counted."""
    if not rows:
        return None
    table_rows = [[column.create_cell(row) for column in columns] for row in rows[:max_rows]]
    return HtmlTable(caption, tuple(columns), table_rows, max(len(rows) - max_rows, 0))


# Tables of the whole disk.


def disk_usage_table(page_data: PageData) -> HtmlTable | None:
    """Disk usage."""
    columns = (
        *member_columns(DISK_USAGE_ROW, "file=directory"),
        text_column("purpose", lambda row: str(row.purpose).replace("_", " ")),
        *member_columns(DISK_USAGE_ROW, "files", "bytes=size", "disk_bytes=on disk"),
        *member_columns(DISK_USAGE_ROW, "freed_now=freed by retention now", "freed_later"),
        *member_columns(DISK_USAGE_ROW, "becomes=effect on a broker"),
    )
    return create_table("Disk usage", columns, page_data.rows_of_type("disk_usage"))


def topics_table(page_data: PageData, anchor_by_label: Mapping[str, str]) -> HtmlTable | None:
    """The topics, the largest first. anchor_by_label: the anchors of the topics that have their own
    page."""
    rows = [*page_data.topic_rows, *(row for row in page_data.partition_rows if row.topic is None)]
    rows.sort(key=lambda row: -row.bytes)
    total_bytes = sum(row.bytes for row in rows) or 1
    n_partitions_by_label = Counter(row_label(row) for row in page_data.partition_rows)
    count_by_label_and_severity: dict[str, Counter[str]] = defaultdict(Counter)
    for (label, _, severity), n in page_data.finding_counts.items():
        count_by_label_and_severity[label][severity] += n

    def label_cell(row: PageRow) -> HtmlTableCell:
        label = row_label(row)
        return HtmlTableCell(label, label, anchor_by_label.get(label))

    def findings_cell(row: PageRow) -> HtmlTableCell:
        count_by_severity = count_by_label_and_severity[row_label(row)]
        count_texts = [
            format_count(count_by_severity[severity], severity)
            for severity in SEVERITIES[:2]
            if count_by_severity[severity]
        ]
        cell_style = next(
            (severity for severity in SEVERITIES[:2] if count_by_severity[severity]), "good"
        )
        return HtmlTableCell(
            ", ".join(count_texts) or "ok",
            count_by_severity["error"] * 1e6 + count_by_severity["warning"],
            None,
            cell_style,
        )

    columns = (
        HtmlTableColumn("topic", label_cell),
        HtmlTableColumn("findings", findings_cell),
        integer_column("partitions", lambda row: n_partitions_by_label[row_label(row)]),
        *member_columns(STATISTICS_ROW, "segments=logs", "bytes=size"),
        decimal_column("share (%)", lambda row: 100 * row.bytes / total_bytes),
        *member_columns(STATISTICS_ROW, "records", "records_per_batch", "bytes_per_record"),
        text_column("codecs", lambda row: ", ".join(row.codecs or ())),
        *member_columns(STATISTICS_ROW, "min_timestamp=from", "max_timestamp=to"),
    )
    return create_table("Totals by topic", columns, rows)


def codec_trials_table(page_data: PageData) -> HtmlTable | None:
    """The effect of other codecs on a sample."""
    columns = (
        *member_columns(WHAT_IF_ROW, "codec", "sample_bytes=records in the sample"),
        *member_columns(WHAT_IF_ROW, "stored_bytes=stored now", "would_be_bytes=would be"),
        decimal_column("saved (%)", lambda row: 100 * row.saved),
        decimal_column("ratio", lambda row: row.sample_bytes / (row.would_be_bytes or 1)),
    )
    return create_table(
        "Alternative codecs, on a sample", columns, page_data.rows_of_type("what_if")
    )


def time_order_table(rows: Sequence[PageRow]) -> HtmlTable | None:
    """The order of timestamps."""
    columns = (
        file_column(rows, "partition"),
        *member_columns(TIME_ORDER_ROW, "batches_with_time=batches with a timestamp"),
        *member_columns(TIME_ORDER_ROW, "batches_out_of_order=out of order"),
        text_column("longest gaps without a batch", _format_gaps),
    )
    return create_table("Timestamp order and gaps", columns, rows)


def _format_gaps(row: PageRow) -> str:
    return (
        "; ".join(
            f"{format_duration(end_ms - begin_ms)} before offset {format_thousands(offset)}"
            for begin_ms, end_ms, offset in row.gaps[:3]
        )
        or NO_VALUE_TEXT
    )


def broker_starts_table(page_data: PageData) -> HtmlTable | None:
    """The effect of a start on each partition that needs attention."""
    starts_by_file: dict[str, dict[str, PageRow]] = defaultdict(dict)
    for row in page_data.rows_of_type("broker_start"):
        starts_by_file[row.file][row.after] = row
    files_and_starts = list(starts_by_file.items())
    files_and_starts.sort(
        key=lambda file_and_starts: not any(map(is_harmful, file_and_starts[1].values()))
    )

    def start_cell(shutdown_kind: str) -> Callable[[Any], HtmlTableCell]:
        def create_cell(file_and_starts: Any) -> HtmlTableCell:
            start_row = file_and_starts[1].get(shutdown_kind)
            if start_row is None:
                return HtmlTableCell(NO_VALUE_TEXT)
            return HtmlTableCell(
                _start_effect_text(start_row),
                None,
                None,
                "error" if is_harmful(start_row) else "good",
            )

        return create_cell

    columns = (
        HtmlTableColumn("directory", lambda file_and_starts: HtmlTableCell(file_and_starts[0])),
        HtmlTableColumn("after a crash", start_cell(AFTER_CRASH)),
        HtmlTableColumn("after a clean shutdown", start_cell(AFTER_CLEAN_SHUTDOWN)),
    )
    return create_table("Broker start by partition", columns, files_and_starts)


def replicas_table(page_data: PageData) -> HtmlTable | None:
    """The replicas of each partition for which it matters which broker starts first."""
    replicas_by_partition: dict[TopicAndPartition, dict[int, PageRow]] = defaultdict(dict)
    for row in page_data.rows_of_type("replica"):
        replicas_by_partition[_topic_and_partition(row)][row.broker_id] = row
    outcomes_by_partition: dict[TopicAndPartition, dict[str, PageRow]] = defaultdict(dict)
    for row in page_data.rows_of_type("start_order"):
        outcomes_by_partition[_topic_and_partition(row)][_order_text(row)] = row
    broker_ids = sorted(
        {
            broker_id
            for replica_by_broker in replicas_by_partition.values()
            for broker_id in replica_by_broker
            if broker_id is not None
        }
    )
    orders = dict.fromkeys(
        order for outcome_by_order in outcomes_by_partition.values() for order in outcome_by_order
    )

    def replica_cell(broker_id: int) -> Callable[[Any], HtmlTableCell]:
        return lambda row: _replica_cell(
            replicas_by_partition[_topic_and_partition(row)].get(broker_id)
        )

    def outcome_cell(order_text: str) -> Callable[[Any], HtmlTableCell]:
        return lambda row: _outcome_cell(
            outcomes_by_partition[_topic_and_partition(row)].get(order_text)
        )

    columns = (
        text_column("partition", lambda row: "{}-{}".format(*_topic_and_partition(row))),
        text_column("leader", lambda row: "none" if row.leader == -1 else row.leader),
        text_column("ISR", lambda row: ", ".join(map(str, row.isr))),
        text_column("replicas", attrgetter("verdict")),
        *(
            HtmlTableColumn(f"broker {broker_id}", replica_cell(broker_id))
            for broker_id in broker_ids
        ),
        *(HtmlTableColumn(f"order {order}", outcome_cell(order)) for order in orders),
    )
    return create_table(
        "Replicas, and the outcome of each start order", columns, page_data.rows_of_type("replicas")
    )


TopicAndPartition = tuple[str, int]


def _topic_and_partition(row: PageRow) -> TopicAndPartition:
    return row.topic, row.partition


def _order_text(row: PageRow) -> str:
    ids_or_text = row.order
    return ids_or_text if isinstance(ids_or_text, str) else ",".join(map(str, ids_or_text))


def _replica_cell(replica_row: PageRow | None) -> HtmlTableCell:
    """A replica's log end offset, now and after its own start."""
    if replica_row is None:
        return HtmlTableCell(NO_VALUE_TEXT)
    if replica_row.file is None:
        return HtmlTableCell("missing", None, None, "error")
    end_offset, end_offset_after_start = (
        replica_row.log_end_offset or 0,
        replica_row.log_end_offset_after_start,
    )
    offsets_text = format_thousands(end_offset)
    if end_offset_after_start != end_offset:
        is_offline = end_offset_after_start is None
        offsets_text += (
            f" → {'offline' if is_offline else format_thousands(end_offset_after_start)}"
        )
    return HtmlTableCell(
        offsets_text, end_offset, None, "error" if replica_row.damaged_offsets else "good"
    )


def _outcome_cell(outcome_row: PageRow | None) -> HtmlTableCell:
    """The outcome of a start order for a partition."""
    if outcome_row is None:
        return HtmlTableCell(NO_VALUE_TEXT)
    possible_ends = outcome_row.alternatives or [outcome_row]
    end_offsets = dict.fromkeys(possible_end["log_end_offset"] for possible_end in possible_ends)
    outcome_text = " or ".join(
        "offline" if possible_end is None else format_thousands(possible_end)
        for possible_end in end_offsets
    )
    n_lost_offsets = count_offsets(outcome_row.lost_offsets)
    if n_lost_offsets:
        outcome_text += f", {format_count(n_lost_offsets, 'offset')} lost"
    return HtmlTableCell(
        outcome_text,
        -n_lost_offsets,
        None,
        "error" if n_lost_offsets or None in end_offsets else "good",
    )


def _start_effect_text(start_row: PageRow) -> str:
    if start_row.becomes:
        return f"not served ({start_row.becomes}): {start_row.reason or ''}".rstrip(": ")
    if not start_row.starts:
        return f"the broker does not start: {start_row.reason}"
    effect_texts = [
        f"log start offset {start_row.log_start_offset}, log end offset {start_row.log_end_offset}"
    ]
    effect_texts += [
        (
            f"{truncation['file'].rpartition('/')[2]} truncated to "
            f"{format_thousands(truncation['size'])} bytes"
        )
        for truncation in start_row.cut
    ]
    if start_row.deleted:
        effect_texts.append(f"{format_count(len(start_row.deleted), 'file')} deleted")
    for offset_ranges, adjective in (
        (start_row.lost_offsets, "lost"),
        (start_row.unreachable_offsets, "unreachable"),
    ):
        if offset_ranges:
            effect_texts.append(
                f"{format_count(count_offsets(offset_ranges), 'offset')} {adjective}"
            )
    return "; ".join(effect_texts)


def retention_table(page_data: PageData) -> HtmlTable | None:
    """How much retention deletes when, by topic."""
    totals_by_topic: dict[str, PageRow] = {}
    for row in page_data.rows_of_type("retention"):
        empty_totals = PageRow(
            topic=row_label(row),
            logs=0,
            bytes_deletable_now=0,
            bytes_deletable_later=0,
            next_deletable_at=None,
            kept_bytes=0,
        )
        topic_totals = totals_by_topic.setdefault(empty_totals.topic, empty_totals)
        topic_totals.logs += 1
        if row.deletable:
            topic_totals.bytes_deletable_now += row.bytes
        elif row.deletable_at is not None and not row.odd:
            topic_totals.bytes_deletable_later += row.bytes
            topic_totals.next_deletable_at = min(
                row.deletable_at, topic_totals.next_deletable_at or row.deletable_at
            )
        else:
            topic_totals.kept_bytes += row.bytes
        topic_totals.settings = ", ".join(
            f"{name}={setting.get('value')}" for name, setting in row.settings.items()
        )
    columns = (
        text_column("topic", attrgetter("topic")),
        integer_column("logs", attrgetter("logs")),
        size_column("deletable now", attrgetter("bytes_deletable_now")),
        size_column("deletable later", attrgetter("bytes_deletable_later")),
        time_column("next at (UTC)", attrgetter("next_deletable_at")),
        size_column("kept", attrgetter("kept_bytes")),
        text_column("settings", attrgetter("settings")),
    )
    return create_table("Retention forecast", columns, list(totals_by_topic.values()))


def consumers_table(page_data: PageData) -> HtmlTable | None:
    """Groups and their progress, the largest lag first."""
    member_specs = ("group", "topic", "partition", "offset=committed offset", "log_end_offset")
    more_member_specs = ("lag=lag (records)", "commit_timestamp=committed at")
    columns = tuple(member_columns(COMMITTED_OFFSET_ROW, *member_specs, *more_member_specs))
    rows = sorted(latest_commits(page_data), key=lambda row: -(row.lag or 0))
    return create_table("Committed offsets", columns, rows)


def transactions_table(page_data: PageData) -> HtmlTable | None:
    """The partitions with transactions."""
    columns = (
        file_column(page_data.rows_of_type("transactions"), "partition"),
        *member_columns(TRANSACTIONS_ROW, "committed", "aborted", "open"),
        *member_columns(TRANSACTIONS_ROW, "last_stable_offset", "log_end_offset"),
    )
    return create_table(
        "Transactions by partition", columns, page_data.rows_of_type("transactions")
    )


# Tables of a topic.


def partitions_table(rows: Sequence[PageRow]) -> HtmlTable | None:
    """The partitions of a topic."""
    columns = (
        file_column(rows, "partition"),
        *member_columns(STATISTICS_ROW, "segments=logs", "bytes=size", "batches", "records"),
        *member_columns(STATISTICS_ROW, "first_offset", "last_offset"),
        *member_columns(STATISTICS_ROW, "min_timestamp=from", "max_timestamp=to", "producers"),
    )
    return create_table("Partitions", columns, rows)


def segments_table(
    rows: Sequence[PageRow], retention_by_file: Mapping[str, PageRow], n_logs: int
) -> HtmlTable | None:
    """The logs of a topic. retention_by_file: the `retention` rows, by file. n_logs: the number of
    logs in the topic; omitted ones are counted."""

    def deletion_cell(row: PageRow) -> HtmlTableCell:
        retention_row = retention_by_file.get(row.file)
        if retention_row is None or not (
            retention_row.deletable or retention_row.deletable_at is not None
        ):
            return HtmlTableCell(NO_VALUE_TEXT)
        deletable_at = retention_row.deletable_at
        return HtmlTableCell(
            "now" if retention_row.deletable else format_interval_end(deletable_at), deletable_at
        )

    columns = (
        file_column(rows, "log"),
        *member_columns(SEGMENT_MAP_ROW, "bytes=size", "batches", "records", "last_offset"),
        *member_columns(SEGMENT_MAP_ROW, "index_entries", "min_timestamp=from", "max_timestamp=to"),
        HtmlTableColumn("deletable from (UTC)", deletion_cell),
        text_column("why", lambda row: retention_by_file.get(row.file, PageRow()).get("why")),
    )
    ordered_rows = sorted(rows, key=lambda row: (row.partition or 0, row.base_offset or 0))
    html_table = create_table("Logs", columns, ordered_rows) or HtmlTable("Logs", columns, [])
    n_omitted = max(n_logs - len(html_table.rows), 0)
    return replace(html_table, n_omitted=n_omitted) if html_table.rows or n_omitted else None


def uncommitted_transactions_table(rows: Sequence[PageRow]) -> HtmlTable | None:
    """Open and aborted transactions."""
    columns = (
        *member_columns(TRANSACTION_ROW, "outcome"),
        file_column(rows, "partition"),
        *member_columns(TRANSACTION_ROW, "producer_id=producer", "transactional_id"),
        *member_columns(
            TRANSACTION_ROW, "first_offset", "last_offset", "records", "start_timestamp=started"
        ),
        text_column("hanging", lambda row: {True: "yes", False: "no"}.get(row.hanging)),
    )
    uncommitted_rows = [row for row in rows if row.outcome != "committed"]
    return create_table("Open and aborted transactions", columns, uncommitted_rows)


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings of one kind."""

    code: str
    severity: str
    count: int
    rows: list[PageRow]
    consequences: list[tuple[str, str]]


def iter_finding_groups(page_data: PageData) -> Iterator[FindingGroup]:
    """The findings by code and severity, the worst first."""
    rows_by_code_and_severity: dict[tuple[str, str], list[PageRow]] = defaultdict(list)
    for row in page_data.rows_of_type("finding"):
        rows_by_code_and_severity[row.code, row.severity].append(row)
    count_by_code_and_severity: Counter[tuple[str, str]] = Counter()
    for (_, code, severity), n_findings in page_data.finding_counts.items():
        count_by_code_and_severity[code, severity] += n_findings
    # Findings with a position in a file come before findings about missing files.
    ranked_groups = sorted(
        rows_by_code_and_severity.items(),
        key=lambda group: (
            SEVERITIES.index(group[0][1]),
            group[1][0].position is None,
            -len(group[1]),
        ),
    )
    for (code, severity), rows in ranked_groups:
        labels_and_columns = (
            ("after a crash", "after_crash"),
            ("after a clean shutdown", "after_clean_shutdown"),
            ("what to do", "advice"),
        )
        consequences = [
            (label, str(consequence_text))
            for label, column in labels_and_columns
            if len({row[column] for row in rows}) == 1 and (consequence_text := rows[0][column])
        ]
        yield FindingGroup(
            code, severity, count_by_code_and_severity[code, severity], rows, consequences
        )
