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

from kfmt_cli.broker.start.offset_intervals import count_offsets
from kfmt_cli.broker.start.outcome import AFTER_CRASH
from kfmt_cli.commands.report.page import html_columns, html_tables
from kfmt_cli.commands.report.page.chart_registry import chart_specs, create_figures
from kfmt_cli.commands.report.page.figures import (
    ChartFigure,
    group_and_partition,
    group_by_topic,
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
from kfmt_cli.render.start_lines import step_commands
from kfmt_cli.render.style import escape_terminal, format_bytes, format_count, format_grouped

MAX_TOPICS = 200  # with a page of their own
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


@dataclass(frozen=True, slots=True)
class PageTopic:
    """A topic's part of the page."""

    name: str
    anchor: str
    figures: list[ChartFigure]
    tables: list[HtmlTable]
    n_findings: int


def render_page(data: PageData, load_chart_script: Callable[[], str]) -> str:
    """The page. load_chart_script: returns the script that draws the charts; without one, the page
    has only their data."""
    figures = create_figures(data)
    anchor_by_topic = _topic_anchors(data)
    finding_groups = list(html_tables.finding_groups(data))
    template_directory = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(template_directory),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(grouped=format_grouped, safe_words=escape_terminal)
    page_row = data.rows_of_type("report")[0]
    chart_tables = {name: chart_data_table(name, rows) for name, rows in figures.tables.items()}
    return environment.get_template("page.html.j2").render(
        about=page_row,
        made_at=f"{format_time(page_row.made_at)[:19]} UTC",
        answers=list(_iter_answers(data, finding_groups)),
        figures=defaultdict(list, figures.overview),
        tables={
            "disk": html_tables.disk_usage_table(data),
            "topics": html_tables.topics_table(
                data, {name: f"#{anchor}" for name, anchor in anchor_by_topic.items()}
            ),
            "codecs": html_tables.codec_trials_table(data),
            "times": html_tables.time_order_table(data.rows_of_type("time_order")),
            "starts": html_tables.broker_starts_table(data),
            "replicas": html_tables.replicas_table(data),
            "retention": html_tables.retention_table(data),
            "consumers": html_tables.consumers_table(data),
            "transactions": html_tables.transactions_table(data),
        },
        cluster=data.cluster,
        numbers=chart_tables,
        groups=finding_groups,
        is_checked=data.is_checked,
        left_out=page_row.left_out,
        topics=list(_iter_topics(data, anchor_by_topic, figures.topics)),
        n_more_topics=len(data.topics) - len(anchor_by_topic),
        css=_escape_closing_tags((template_directory / "page.css").read_text()),
        js=_escape_closing_tags((template_directory / "page.js").read_text()),
        runtime=_escape_closing_tags(load_chart_script()),
        charts_json=_script_json({"specs": chart_specs(), "tables": figures.columnar()}),
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
    columns = [_column(name) for row in rows[:1] for name in row if name not in _POSITION_COLUMNS]
    caption = f"Data for this chart ({table_name.replace('_', ' ')})"
    return html_tables.create_table(caption, columns, rows, MAX_CHART_TABLE_ROWS)


# Columns that only place a mark in its chart.
_POSITION_COLUMNS = frozenset(
    {"id", "parent", "bytes_from", "bytes_to", "records_from", "records_to"}
)
_HEADINGS = {"label": "partition", "series": "topic"}
_NUMBER_COLUMNS = frozenset(
    {"bytes", "records", "batches", "lag", "would_be_bytes", "stored_bytes"}
)
_TIME_COLUMNS = frozenset({"from", "to", "at"})


def _column(name: str) -> html_columns.HtmlTableColumn:
    title, get_value = _HEADINGS.get(name, name.replace("_", " ")), itemgetter(name)
    if name in _NUMBER_COLUMNS:
        return html_columns.integer_column(title, get_value)
    if name in _TIME_COLUMNS:
        return html_columns.HtmlTableColumn(
            title,
            lambda row: html_columns.HtmlTableCell(format_time(get_value(row)), get_value(row)),
        )
    return html_columns.text_column(title, get_value)


def _topic_anchors(data: PageData) -> dict[str, str]:
    """Anchors of the topics with a page of their own: those with errors are chosen first, then the
    largest."""
    size_by_label: dict[str, int] = {}
    for row in data.partitions:
        size_by_label[row_label(row)] = size_by_label.get(row_label(row), 0) + row.bytes
    labels_with_errors = {label for label, _, severity in data.n_findings if severity == "error"}
    ranked_labels = sorted(
        size_by_label, key=lambda name: (name not in labels_with_errors, -size_by_label[name])
    )
    selected_labels = sorted(ranked_labels[:MAX_TOPICS])
    return {name: f"topic-{i}" for i, name in enumerate(selected_labels)}


def _iter_topics(
    data: PageData, anchor_by_topic: Mapping[str, str], figures: Mapping[str, list[ChartFigure]]
) -> Iterator[PageTopic]:
    """The pages of topics."""
    partitions_by_topic = group_by_topic(data.partitions)
    logs_by_topic = group_by_topic(data.rows_of_type("segment_strip"))
    time_orders_by_topic = group_by_topic(data.rows_of_type("time_order"))
    transactions_by_topic = group_by_topic(data.rows_of_type("transaction"))
    retention_by_file = {row.file: row for row in data.rows_of_type("retention")}
    n_findings_by_label: Counter[str] = Counter()
    for (label, _, _), n in data.n_findings.items():
        n_findings_by_label[label] += n
    for name, anchor in anchor_by_topic.items():
        candidates = [
            html_tables.partitions_table(partitions_by_topic[name]),
            html_tables.segments_table(
                logs_by_topic[name],
                retention_by_file,
                sum(row.segments for row in partitions_by_topic[name]),
            ),
            html_tables.time_order_table(time_orders_by_topic[name]),
            html_tables.uncommitted_table(transactions_by_topic[name]),
        ]
        tables = [table for table in candidates if table is not None]
        yield PageTopic(name, anchor, figures.get(name, []), tables, n_findings_by_label[name])


def _iter_answers(data: PageData, finding_groups: Sequence[FindingGroup]) -> Iterator[PageAnswer]:
    """Answers to the five questions that a reader asks first."""
    page_row = data.rows_of_type("report")[0]
    yield _contents_answer(page_row, data)
    yield _damage_answer(finding_groups, data)
    start_lines = [("", line) for line in data.answers[:MAX_START_ANSWER_LINES]]
    is_harmed = any(row.lost_offsets or not row.starts for row in data.rows_of_type("broker_start"))
    advice = "Copy the directory before a broker starts on it: the start will change it."
    steps = [("", advice)] if is_harmed else []
    commands = list(step_commands(data.steps).items())
    steps += commands[:MAX_STEPS]
    if len(commands) > MAX_STEPS:
        remaining_text = format_count(len(commands) - MAX_STEPS, "more step")
        steps.append(("", f"… and {remaining_text}; kfmt check --json lists all"))
    yield _loss_answer(data, start_lines)
    verdict = f"{format_count(len(steps), 'step')} to take" if steps else "No action needed"
    if not steps and any(group.severity == "error" for group in finding_groups):
        verdict = "See each finding for details"
    elif not steps and data.exit_code is ExitCode.UNREADABLE:
        verdict = "Make the unread inputs readable, and check again"
    elif not steps and not data.is_checked:
        verdict = "Check the logs: kfmt pipeline verify"
    yield PageAnswer(
        "What should I do?", verdict, "warning" if steps else "plain", steps, "#findings"
    )
    yield _lag_answer(data)


def _loss_answer(data: PageData, lines: list[tuple[str, str]]) -> PageAnswer:
    """The answer about losses at the next start; assumes a crash if the last stop is unknown."""
    question = "What is lost?"
    rows = data.rows_of_type("broker_start")
    if not rows:
        return PageAnswer(question, "No start prediction", "plain", lines, "#findings")
    next_start_by_directory = {
        row.file: row.next_start for row in data.rows_of_type("log_directory")
    }
    next_starts = [
        row for row in rows if row.after == next_start_by_directory.get(row.log_dir, AFTER_CRASH)
    ]
    sentences = []
    for name, adjective in (("lost_offsets", "lost"), ("unreachable_offsets", "unreachable")):
        affected_rows = [row for row in next_starts if row[name]]
        if affected_rows:
            n = sum(count_offsets(row[name]) for row in affected_rows)
            lower_bound_text = "at least " if data.omits_harmful_start else ""
            sentences.append(
                f"{lower_bound_text}{format_count(n, 'offset')} will be {adjective} "
                f"{_location_text(affected_rows)}"
            )
    if any(not row.starts for row in [*next_starts, *data.rows_of_type("log_directory")]):
        return PageAnswer(question, "The broker would not start", "error", lines, "#start")
    if any(row.becomes for row in next_starts):
        sentences.append("not all partitions will be served")
    if not sentences and data.exit_code is ExitCode.UNREADABLE:
        return PageAnswer(question, "No start prediction", "warning", lines, "#start")
    verdict = ", ".join(sentences) or "Nothing is lost at the next start"
    return PageAnswer(question, verdict, "error" if sentences else "good", lines, "#start")


def _contents_answer(page_row: PageRow, data: PageData) -> PageAnswer:
    location_text = (
        f"{format_count(page_row.partitions, 'partition')} of "
        f"{format_count(page_row.topics, 'topic')}"
    )
    lines = [("", f"{format_count(page_row.segments, 'log')} in {location_text}")]
    lines.append(("", format_count(page_row.records, "record")))
    if page_row.min_timestamp is not None:
        from_text = format_interval_end(page_row.min_timestamp)
        to_text = format_interval_end(page_row.max_timestamp)
        lines.append(("", f"from {from_text} to {to_text} (UTC)"))
        lines += _usual_times(data)
    return PageAnswer(
        "What is on this disk?", format_bytes(page_row.bytes), "plain", lines, "#topics"
    )


def _usual_times(data: PageData) -> list[tuple[str, str]]:
    """The time range of nearly all records, if a few are far from it."""
    rows = data.rows_of_type("time_bucket")
    if not rows:
        return []
    _, usual_rows, outliers = split_outliers(rows)
    if not outliers:
        return []
    first_text = format_interval_end(usual_rows[0].from_timestamp)
    last_text = format_interval_end(usual_rows[-1].to_timestamp)
    count_text = format_count(sum(row.records for row in outliers), "record")
    return [("", f"all but {count_text} from {first_text} to {last_text}")]


def _location_text(rows: Iterable[PageRow]) -> str:
    """The location of rows as text: the partition, or the number of partitions."""
    partitions = dict.fromkeys(map(partition_or_label, rows))
    return (
        f"in {next(iter(partitions))}"
        if len(partitions) == 1
        else f"in {len(partitions)} partitions"
    )


def _damage_answer(finding_groups: Sequence[FindingGroup], data: PageData) -> PageAnswer:
    count_by_severity = dict.fromkeys(SEVERITIES, 0)
    for group in finding_groups:
        count_by_severity[group.severity] += group.count
    n_notes = count_by_severity.pop("note")
    verdict = ", ".join(format_count(n, severity) for severity, n in count_by_severity.items() if n)
    style = (
        "error"
        if count_by_severity["error"]
        else "warning"
        if count_by_severity["warning"]
        else "good"
    )
    if not verdict and not data.is_checked:
        return PageAnswer("What is damaged?", "Not checked", "plain", [], "#findings")
    if not verdict and data.exit_code is ExitCode.UNREADABLE:
        verdict, style = "Nothing in what could be read", "warning"
    lines = [
        ("", f"{format_grouped(group.count)} × {group.code} {_location_text(group.rows)}")
        for group in finding_groups[:MAX_ANSWER_ITEMS]
        if group.severity != "note"
    ]
    if n_notes:
        lines.append(("", f"{format_count(n_notes, 'note')} for information"))
    return PageAnswer("What is damaged?", verdict or "Nothing", style, lines, "#findings")


def _lag_answer(data: PageData) -> PageAnswer:
    question = "Which groups are lagging?"
    if not data.rows_of_type("committed_offset"):
        message = "No committed consumer offsets on this disk"
        return PageAnswer(question, message, "plain", [], "#consumers")
    lagging_rows = sorted(lagging_commits(data), key=lambda row: -row.lag)
    lines = [
        ("", f"{group_and_partition(row)}: {format_count(row.lag, 'record')}")
        for row in lagging_rows[:MAX_ANSWER_ITEMS]
    ]
    if not lagging_rows:
        return PageAnswer(question, "None", "good", lines, "#consumers")
    n_groups = len({row.group for row in lagging_rows})
    verdict = f"{format_count(n_groups, 'group')} on {format_count(len(lagging_rows), 'partition')}"
    return PageAnswer(question, verdict, "warning", lines, "#consumers")
