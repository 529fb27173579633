"""The page as one HTML file: tables and text from templates, charts and their data as scripts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kfmt_cli.broker.log_reading.offset_intervals import count_offsets
from kfmt_cli.broker.start.outcome import AFTER_CRASH
from kfmt_cli.commands.report.page import html_columns, html_tables
from kfmt_cli.commands.report.page.chart_registry import chart_specs, create_figures
from kfmt_cli.commands.report.page.figures import (
    ChartFigure,
    group_by_topic,
    group_label,
    lagging_commits,
    partition_or_label,
    split_outliers,
)
from kfmt_cli.commands.report.page.html_tables import FindingGroup, HtmlTable
from kfmt_cli.commands.report.page.page_data import PageData, PageRow, row_label
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.times import format_interval_end, format_time
from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import SEVERITIES
from kfmt_cli.render.start_lines import MAX_START_LINES as MAX_STEPS
from kfmt_cli.render.start_lines import command_prices
from kfmt_cli.render.style import escape_unprintable, format_bytes, format_count, format_thousands

MAX_TOPICS = 200  # with a page of their own
LOSS_QUESTION, PLAN_QUESTION = "What is lost?", "What should I do?"
MAX_ANSWER_ITEMS = 3  # items per answer
MAX_START_ANSWER_LINES = 8  # from the output of `check`
MAX_CHART_TABLE_ROWS = 300  # rows in the table of a chart
_CLOSING_TAGS = re.compile("<(/script|/style|!--)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The answer to one of the reader's first questions."""

    question: str
    verdict: str
    style: str
    """good, warning, error or plain."""
    lines: list[tuple[str, str]]
    """Each a command, or an empty text, and a text."""
    link: str
    """The part of the page with the details."""

    @property
    def is_wide(self) -> bool:
        """Whether it spans the page, because it has sentences or commands to copy."""
        return self.question in (LOSS_QUESTION, PLAN_QUESTION)


@dataclass(frozen=True, slots=True)
class PageTopic:
    """A topic's part of the page."""

    name: str
    anchor: str
    figures: list[ChartFigure]
    tables: list[HtmlTable]
    n_findings: int


def render_page(page_data: PageData, load_chart_script: Callable[[], str]) -> str:
    """The page. load_chart_script: returns the script that draws the charts; without one, the page
    has only their data."""
    page_figures = create_figures(page_data)
    anchor_by_topic = _topic_anchors(page_data)
    finding_groups = list(html_tables.iter_finding_groups(page_data))
    template_directory = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(template_directory),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(grouped=format_thousands, safe_words=escape_unprintable)
    page_row = page_data.rows_of_type("report")[0]
    html_table_by_name = {
        name: chart_data_table(name, rows) for name, rows in page_figures.rows_by_table.items()
    }
    return environment.get_template("page.html.j2").render(
        about=page_row,
        made_at=f"{format_time(page_row.made_at)[:19]} UTC",
        answers=list(_iter_answers(page_data, finding_groups)),
        figures=defaultdict(list, page_figures.figures_by_section),
        tables={
            "disk": html_tables.disk_usage_table(page_data),
            "topics": html_tables.topics_table(
                page_data, {name: f"#{anchor}" for name, anchor in anchor_by_topic.items()}
            ),
            "codecs": html_tables.codec_trials_table(page_data),
            "times": html_tables.time_order_table(page_data.rows_of_type("time_order")),
            "starts": html_tables.broker_starts_table(page_data),
            "replicas": html_tables.replicas_table(page_data),
            "retention": html_tables.retention_table(page_data),
            "consumers": html_tables.consumers_table(page_data),
            "transactions": html_tables.transactions_table(page_data),
        },
        cluster=page_data.cluster_answers,
        numbers=html_table_by_name,
        groups=finding_groups,
        is_checked=page_data.is_checked,
        left_out=page_row.left_out,
        topics=list(_iter_topics(page_data, anchor_by_topic, page_figures.figures_by_topic)),
        n_more_topics=len(page_data.topic_rows) - len(anchor_by_topic),
        css=_escape_closing_tags((template_directory / "page.css").read_text()),
        js=_escape_closing_tags((template_directory / "page.js").read_text()),
        runtime=_escape_closing_tags(load_chart_script()),
        charts_json=_script_json(
            {"specs": chart_specs(), "tables": page_figures.columnar_tables()}
        ),
    )


def _script_json(value: object) -> Markup:
    """JSON for a script, with nothing that looks like a tag."""
    return Markup(json_text(value).replace("<", "\\u003c"))  # noqa: S704


def _escape_closing_tags(source_text: str) -> Markup:
    """A script or a style, with closing tags inside strings escaped."""
    return Markup(_CLOSING_TAGS.sub(r"<\\\1", source_text))  # noqa: S704


def chart_data_table(table_name: str, rows: list[dict[str, Any]]) -> HtmlTable | None:
    """The rows of a chart as a table, without the groups of a treemap."""
    rows = [row for row in rows if row.get("label", "") is not None]
    columns = [
        _html_column(name)
        for row in rows[:1]
        for name in row
        if name not in _MARK_PLACEMENT_COLUMNS
    ]
    caption = f"Data for this chart ({table_name.replace('_', ' ')})"
    return html_tables.create_table(caption, columns, rows, MAX_CHART_TABLE_ROWS)


# Columns that only place a mark in its chart.
_MARK_PLACEMENT_COLUMNS = frozenset(
    {"id", "parent", "bytes_from", "bytes_to", "records_from", "records_to"}
)
_HEADING_BY_COLUMN = {"label": "partition", "series": "topic"}
_NUMBER_COLUMNS = frozenset(
    {"bytes", "records", "batches", "lag", "would_be_bytes", "stored_bytes"}
)
_TIME_COLUMNS = frozenset({"from", "to", "at"})


def _html_column(column_name: str) -> html_columns.HtmlTableColumn:
    heading, get_value = (
        _HEADING_BY_COLUMN.get(column_name, column_name.replace("_", " ")),
        itemgetter(column_name),
    )
    if column_name in _NUMBER_COLUMNS:
        return html_columns.integer_column(heading, get_value)
    if column_name in _TIME_COLUMNS:
        return html_columns.HtmlTableColumn(
            heading,
            lambda row: html_columns.HtmlTableCell(format_time(get_value(row)), get_value(row)),
        )
    return html_columns.text_column(heading, get_value)


def _topic_anchors(page_data: PageData) -> dict[str, str]:
    """Anchors of the topics with a page of their own: those with errors are chosen first, then the
    largest."""
    bytes_by_label: dict[str, int] = {}
    for row in page_data.partition_rows:
        bytes_by_label[row_label(row)] = bytes_by_label.get(row_label(row), 0) + row.bytes
    labels_with_errors = {
        label for label, _, severity in page_data.finding_counts if severity == "error"
    }
    ranked_labels = sorted(
        bytes_by_label,
        key=lambda topic_label: (
            topic_label not in labels_with_errors,
            -bytes_by_label[topic_label],
        ),
    )
    selected_labels = sorted(ranked_labels[:MAX_TOPICS])
    return {topic_label: f"topic-{i}" for i, topic_label in enumerate(selected_labels)}


def _iter_topics(
    page_data: PageData,
    anchor_by_topic: Mapping[str, str],
    figures_by_topic: Mapping[str, list[ChartFigure]],
) -> Iterator[PageTopic]:
    """The pages of topics."""
    partition_rows_by_topic = group_by_topic(page_data.partition_rows)
    map_rows_by_topic = group_by_topic(page_data.rows_of_type("segment_strip"))
    time_order_rows_by_topic = group_by_topic(page_data.rows_of_type("time_order"))
    transaction_rows_by_topic = group_by_topic(page_data.rows_of_type("transaction"))
    retention_row_by_file = {row.file: row for row in page_data.rows_of_type("retention")}
    n_findings_by_label: Counter[str] = Counter()
    for (label, _, _), n_findings in page_data.finding_counts.items():
        n_findings_by_label[label] += n_findings
    for topic_label, anchor in anchor_by_topic.items():
        possible_tables = [
            html_tables.partitions_table(partition_rows_by_topic[topic_label]),
            html_tables.segments_table(
                map_rows_by_topic[topic_label],
                retention_row_by_file,
                sum(row.segments for row in partition_rows_by_topic[topic_label]),
            ),
            html_tables.time_order_table(time_order_rows_by_topic[topic_label]),
            html_tables.uncommitted_transactions_table(transaction_rows_by_topic[topic_label]),
        ]
        tables = [table for table in possible_tables if table is not None]
        yield PageTopic(
            topic_label,
            anchor,
            figures_by_topic.get(topic_label, []),
            tables,
            n_findings_by_label[topic_label],
        )


def _iter_answers(
    page_data: PageData, finding_groups: Sequence[FindingGroup]
) -> Iterator[PageAnswer]:
    """Answers to the five questions that a reader asks first."""
    page_row = page_data.rows_of_type("report")[0]
    yield _contents_answer(page_row, page_data)
    yield _damage_answer(finding_groups, page_data)
    start_lines = [("", line) for line in page_data.answers[:MAX_START_ANSWER_LINES]]
    has_harmful_start = any(
        row.lost_offsets or not row.starts for row in page_data.rows_of_type("broker_start")
    )
    copy_advice = "Copy the directory before a broker starts on it: the start will change it."
    step_lines = [("", copy_advice)] if has_harmful_start else []
    commands_and_prices = list(command_prices(page_data.next_steps).items())
    step_lines += commands_and_prices[:MAX_STEPS]
    if len(commands_and_prices) > MAX_STEPS:
        remaining_text = format_count(len(commands_and_prices) - MAX_STEPS, "more step")
        step_lines.append(("", f"… and {remaining_text}; kfmt check --json lists all"))
    yield _loss_answer(page_data, start_lines)
    verdict = (
        f"{format_count(len(step_lines), 'step')} to take" if step_lines else "No action needed"
    )
    if not step_lines and any(group.severity == "error" for group in finding_groups):
        verdict = "See each finding for details"
    elif not step_lines and page_data.exit_code is ExitCode.UNREADABLE:
        verdict = "Make the unread inputs readable, and check again"
    elif not step_lines and not page_data.is_checked:
        verdict = "Check the logs: kfmt pipeline verify"
    yield PageAnswer(
        PLAN_QUESTION, verdict, "warning" if step_lines else "plain", step_lines, "#findings"
    )
    yield _lag_answer(page_data)


def _loss_answer(page_data: PageData, start_lines: list[tuple[str, str]]) -> PageAnswer:
    """The answer about losses at the next start; assumes a crash if the last stop is unknown."""
    question = LOSS_QUESTION
    start_rows = page_data.rows_of_type("broker_start")
    if not start_rows:
        return PageAnswer(question, "No start prediction", "plain", start_lines, "#findings")
    shutdown_kind_by_directory = {
        row.file: row.next_start for row in page_data.rows_of_type("log_directory")
    }
    next_start_rows = [
        row
        for row in start_rows
        if row.after == shutdown_kind_by_directory.get(row.log_dir, AFTER_CRASH)
    ]
    sentences = []
    for offsets_column, adjective in (
        ("lost_offsets", "lost"),
        ("unreachable_offsets", "unreachable"),
    ):
        affected_rows = [row for row in next_start_rows if row[offsets_column]]
        if affected_rows:
            n_offsets = sum(count_offsets(row[offsets_column]) for row in affected_rows)
            lower_bound_text = "at least " if page_data.has_omitted_harmful_start else ""
            sentences.append(
                f"{lower_bound_text}{format_count(n_offsets, 'offset')} will be {adjective} "
                f"{_location_text(affected_rows)}"
            )
    if any(not row.starts for row in [*next_start_rows, *page_data.rows_of_type("log_directory")]):
        return PageAnswer(question, "The broker would not start", "error", start_lines, "#start")
    if any(row.becomes for row in next_start_rows):
        sentences.append("not all partitions will be served")
    if not sentences and page_data.exit_code is ExitCode.UNREADABLE:
        return PageAnswer(question, "No start prediction", "warning", start_lines, "#start")
    verdict = ", ".join(sentences) or "Nothing is lost at the next start"
    return PageAnswer(question, verdict, "error" if sentences else "good", start_lines, "#start")


def _contents_answer(page_row: PageRow, page_data: PageData) -> PageAnswer:
    partitions_text = (
        f"{format_count(page_row.partitions, 'partition')} of "
        f"{format_count(page_row.topics, 'topic')}"
    )
    lines = [("", f"{format_count(page_row.segments, 'log')} in {partitions_text}")]
    lines.append(("", format_count(page_row.records, "record")))
    if page_row.min_timestamp is not None:
        from_text = format_interval_end(page_row.min_timestamp)
        to_text = format_interval_end(page_row.max_timestamp)
        lines.append(("", f"from {from_text} to {to_text} (UTC)"))
        lines += _usual_time_lines(page_data)
    return PageAnswer(
        "What is on this disk?", format_bytes(page_row.bytes), "plain", lines, "#topics"
    )


def _usual_time_lines(page_data: PageData) -> list[tuple[str, str]]:
    """The time range of nearly all records, if a few are far from it."""
    bucket_rows = page_data.rows_of_type("time_bucket")
    if not bucket_rows:
        return []
    _, usual_rows, outlier_rows = split_outliers(bucket_rows)
    if not outlier_rows:
        return []
    first_text = format_interval_end(usual_rows[0].from_timestamp)
    last_text = format_interval_end(usual_rows[-1].to_timestamp)
    outlier_count_text = format_count(sum(row.records for row in outlier_rows), "record")
    return [("", f"all but {outlier_count_text} from {first_text} to {last_text}")]


def _location_text(rows: Iterable[PageRow]) -> str:
    """The location of rows as text: the partition, or the number of partitions."""
    partition_labels = dict.fromkeys(map(partition_or_label, rows))
    return (
        f"in {next(iter(partition_labels))}"
        if len(partition_labels) == 1
        else f"in {len(partition_labels)} partitions"
    )


def _damage_answer(finding_groups: Sequence[FindingGroup], page_data: PageData) -> PageAnswer:
    count_by_severity = dict.fromkeys(SEVERITIES, 0)
    for group in finding_groups:
        count_by_severity[group.severity] += group.count
    n_notes = count_by_severity.pop("note")
    verdict = ", ".join(
        format_count(n_findings, severity)
        for severity, n_findings in count_by_severity.items()
        if n_findings
    )
    style = (
        "error"
        if count_by_severity["error"]
        else "warning"
        if count_by_severity["warning"]
        else "good"
    )
    if not verdict and not page_data.is_checked:
        return PageAnswer("What is damaged?", "Not checked", "plain", [], "#findings")
    if not verdict and page_data.exit_code is ExitCode.UNREADABLE:
        verdict, style = "Nothing in what could be read", "warning"
    lines = [
        ("", f"{format_thousands(group.count)} × {group.code} {_location_text(group.rows)}")
        for group in finding_groups[:MAX_ANSWER_ITEMS]
        if group.severity != "note"
    ]
    if n_notes:
        lines.append(("", f"{format_count(n_notes, 'note')} for information"))
    return PageAnswer("What is damaged?", verdict or "Nothing", style, lines, "#findings")


def _lag_answer(page_data: PageData) -> PageAnswer:
    question = "Which groups are lagging?"
    if not page_data.rows_of_type("committed_offset"):
        message = "No committed consumer offsets on this disk"
        return PageAnswer(question, message, "plain", [], "#consumers")
    lagging_rows = sorted(lagging_commits(page_data), key=lambda row: -row.lag)
    lines = [
        ("", f"{group_label(row)}: {format_count(row.lag, 'record')}")
        for row in lagging_rows[:MAX_ANSWER_ITEMS]
    ]
    if not lagging_rows:
        return PageAnswer(question, "None", "good", lines, "#consumers")
    n_groups = len({row.group for row in lagging_rows})
    verdict = f"{format_count(n_groups, 'group')} on {format_count(len(lagging_rows), 'partition')}"
    return PageAnswer(question, verdict, "warning", lines, "#consumers")
