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

from kfmt_cli.broker.start.outcome import CRASH
from kfmt_cli.broker.start.ranges import size_of_ranges
from kfmt_cli.commands.report.page import sheets
from kfmt_cli.commands.report.page.figures import (
    Figure,
    by_topic,
    lagging,
    place_of,
    stretches,
    who,
)
from kfmt_cli.commands.report.page.listed_charts import figures_of, specs
from kfmt_cli.commands.report.page.page_data import PageData, PageRow, label_of
from kfmt_cli.commands.report.page.sheets import FindingGroup, Sheet
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.times import time_text, until_words
from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import SEVERITIES
from kfmt_cli.render.start_lines import MOST_LINES as MOST_STEPS
from kfmt_cli.render.start_lines import commands_of
from kfmt_cli.render.style import count, grouped, human, safe

MOST_TOPICS = 200  # with a page of their own
MOST_SAID = 3  # items per answer
MOST_LINES = 8  # of the output of `check`
MOST_NUMBERS = 300  # rows in the table of a chart
_ENDS = re.compile("<(/script|/style|!--)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The answer to one of the reader's first questions."""

    question: str
    verdict: str
    style: str
    """good, warning, error or plain."""
    lines: list[tuple[str, str]]
    """Each a command, possibly empty, and text."""
    link: str
    """The part of the page with the details."""


@dataclass(frozen=True, slots=True)
class PageTopic:
    """A topic's part of the page."""

    name: str
    anchor: str
    figures: list[Figure]
    sheets: list[Sheet]
    n_findings: int


def document(data: PageData, runtime: Callable[[], str]) -> str:
    """The page. runtime: returns the script that draws the charts; without one, the page has only
    their data."""
    figures = figures_of(data)
    anchors = _anchors(data)
    groups = list(sheets.finding_groups(data))
    here = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(here),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(grouped=grouped, safe_words=safe)
    about = data.of("report")[0]
    numbers = {name: numbers_sheet(name, rows) for name, rows in figures.tables.items()}
    return environment.get_template("page.html.j2").render(
        about=about,
        made_at=f"{time_text(about.made_at)[:19]} UTC",
        answers=list(_answers(data, groups)),
        figures=defaultdict(list, figures.overview),
        tables={
            "disk": sheets.disk(data),
            "topics": sheets.topics(data, {name: f"#{at}" for name, at in anchors.items()}),
            "codecs": sheets.trials(data),
            "times": sheets.order(data.of("time_order")),
            "starts": sheets.starts(data),
            "replicas": sheets.replicas(data),
            "retention": sheets.retention(data),
            "consumers": sheets.consumers(data),
            "transactions": sheets.transactions(data),
        },
        cluster=data.cluster,
        numbers=numbers,
        groups=groups,
        is_checked=data.is_checked,
        left_out=about.left_out,
        topics=list(_topics(data, anchors, figures.topics)),
        n_more_topics=len(data.topics) - len(anchors),
        css=_code((here / "page.css").read_text()),
        js=_code((here / "page.js").read_text()),
        runtime=_code(runtime()),
        charts_json=_json({"specs": specs(), "tables": figures.packed()}),
    )


def _json(value: object) -> Markup:
    """JSON for a script, with nothing that looks like a tag."""
    return Markup(json_text(value).replace("<", "\\u003c"))  # noqa: S704


def _code(words: str) -> Markup:
    """A script or a style, with closing tags inside strings escaped."""
    return Markup(_ENDS.sub(r"<\\\1", words))  # noqa: S704


def numbers_sheet(name: str, rows: list[dict[str, Any]]) -> Sheet | None:
    """The rows of a chart as a table, without the groups of a treemap."""
    rows = [row for row in rows if row.get("label", "") is not None]
    headings = [_column(name) for row in rows[:1] for name in row if name not in _DRAWN]
    caption = f"Data for this chart ({name.replace('_', ' ')})"
    return sheets.sheet(caption, headings, rows, MOST_NUMBERS)


# What only places a mark in its chart.
_DRAWN = frozenset({"id", "parent", "bytes_from", "bytes_to", "records_from", "records_to"})
_HEADINGS = {"label": "partition", "series": "topic"}
_NUMBERS = frozenset({"bytes", "records", "batches", "lag", "would_be_bytes", "stored_bytes"})
_TIMES = frozenset({"from", "to", "at"})


def _column(name: str) -> sheets.Heading:
    words, of = _HEADINGS.get(name, name.replace("_", " ")), itemgetter(name)
    if name in _NUMBERS:
        return sheets.whole(words, of)
    if name in _TIMES:
        return sheets.Heading(words, lambda row: sheets.PageCell(time_text(of(row)), of(row)))
    return sheets.text(words, of)


def _anchors(data: PageData) -> dict[str, str]:
    """Anchors of the topics with a page of their own: those with errors are chosen first, then the
    largest."""
    sizes: dict[str, int] = {}
    for row in data.partitions:
        sizes[label_of(row)] = sizes.get(label_of(row), 0) + row.bytes
    wrong = {label for label, _, severity in data.n_findings if severity == "error"}
    ranked = sorted(sizes, key=lambda name: (name not in wrong, -sizes[name]))
    kept = sorted(ranked[:MOST_TOPICS])
    return {name: f"topic-{i}" for i, name in enumerate(kept)}


def _topics(
    data: PageData, anchors: Mapping[str, str], figures: Mapping[str, list[Figure]]
) -> Iterator[PageTopic]:
    """The pages of topics."""
    partitions, logs = by_topic(data.partitions), by_topic(data.of("segment_strip"))
    orders, transactions = by_topic(data.of("time_order")), by_topic(data.of("transaction"))
    fates = {row.file: row for row in data.of("retention")}
    n_findings: Counter[str] = Counter()
    for (label, _, _), n in data.n_findings.items():
        n_findings[label] += n
    for name, anchor in anchors.items():
        found = [
            sheets.partitions(partitions[name]),
            sheets.segments(logs[name], fates, sum(row.segments for row in partitions[name])),
            sheets.order(orders[name]),
            sheets.not_committed(transactions[name]),
        ]
        tables = [table for table in found if table is not None]
        yield PageTopic(name, anchor, figures.get(name, []), tables, n_findings[name])


def _answers(data: PageData, groups: Sequence[FindingGroup]) -> Iterator[PageAnswer]:
    """Answers to the five questions that a reader asks first."""
    about = data.of("report")[0]
    yield _what(about, data)
    yield _damage(groups, data)
    starts = [("", line) for line in data.answers[:MOST_LINES]]
    is_harmed = any(row.lost_offsets or not row.starts for row in data.of("broker_start"))
    copy = "Copy the directory before a broker starts on it: the start will change it."
    steps = [("", copy)] if is_harmed else []
    commands = list(commands_of(data.steps).items())
    steps += commands[:MOST_STEPS]
    if len(commands) > MOST_STEPS:
        more = count(len(commands) - MOST_STEPS, "more step")
        steps.append(("", f"… and {more}; kfmt check --json lists all"))
    yield _lost(data, starts)
    verdict = f"{count(len(steps), 'step')} to take" if steps else "No action needed"
    if not steps and any(group.severity == "error" for group in groups):
        verdict = "See each finding for details"
    elif not steps and data.exit_code is ExitCode.UNREADABLE:
        verdict = "Make the unread inputs readable, and check again"
    elif not steps and not data.is_checked:
        verdict = "Check the logs: kfmt pipeline verify"
    yield PageAnswer(
        "What should I do?", verdict, "warning" if steps else "plain", steps, "#findings"
    )
    yield _lag(data)


def _lost(data: PageData, lines: list[tuple[str, str]]) -> PageAnswer:
    """What the next start loses; assumes a crash if it is unknown how a broker stopped."""
    question = "What is lost?"
    rows = data.of("broker_start")
    if not rows:
        return PageAnswer(question, "No start prediction", "plain", lines, "#findings")
    kinds = {row.file: row.next_start for row in data.of("log_directory")}
    nexts = [row for row in rows if row.after == kinds.get(row.log_dir, CRASH)]
    said = []
    for name, words in (("lost_offsets", "lost"), ("unreachable_offsets", "unreachable")):
        hit = [row for row in nexts if row[name]]
        if hit:
            n = sum(size_of_ranges(row[name]) for row in hit)
            least = "at least " if data.left_out_harm else ""
            said.append(f"{least}{count(n, 'offset')} will be {words} {_places(hit)}")
    if any(not row.starts for row in [*nexts, *data.of("log_directory")]):
        return PageAnswer(question, "The broker would not start", "error", lines, "#start")
    if any(row.becomes for row in nexts):
        said.append("not all partitions will be served")
    if not said and data.exit_code is ExitCode.UNREADABLE:
        return PageAnswer(question, "No start prediction", "warning", lines, "#start")
    verdict = ", ".join(said) or "Nothing is lost at the next start"
    return PageAnswer(question, verdict, "error" if said else "good", lines, "#start")


def _what(about: PageRow, data: PageData) -> PageAnswer:
    of = f"{count(about.partitions, 'partition')} of {count(about.topics, 'topic')}"
    lines = [("", f"{count(about.segments, 'log')} in {of}")]
    lines.append(("", count(about.records, "record")))
    if about.min_timestamp is not None:
        first, last = until_words(about.min_timestamp), until_words(about.max_timestamp)
        lines.append(("", f"from {first} to {last} (UTC)"))
        lines += _usual_times(data)
    return PageAnswer("What is on this disk?", human(about.bytes), "plain", lines, "#topics")


def _usual_times(data: PageData) -> list[tuple[str, str]]:
    """The time range of nearly all records, if a few are far from it."""
    rows = data.of("time_bucket")
    if not rows:
        return []
    _, near, far = stretches(rows)
    if not far:
        return []
    first, last = until_words(near[0].from_timestamp), until_words(near[-1].to_timestamp)
    n = count(sum(row.records for row in far), "record")
    return [("", f"all but {n} from {first} to {last}")]


def _places(rows: Iterable[PageRow]) -> str:
    """A place in words: the partition, or the number of partitions."""
    places = dict.fromkeys(map(place_of, rows))
    return f"in {next(iter(places))}" if len(places) == 1 else f"in {len(places)} partitions"


def _damage(groups: Sequence[FindingGroup], data: PageData) -> PageAnswer:
    sums = dict.fromkeys(SEVERITIES, 0)
    for group in groups:
        sums[group.severity] += group.count
    notes = sums.pop("note")
    verdict = ", ".join(count(n, severity) for severity, n in sums.items() if n)
    style = "error" if sums["error"] else "warning" if sums["warning"] else "good"
    if not verdict and not data.is_checked:
        return PageAnswer("What is damaged?", "Not checked", "plain", [], "#findings")
    if not verdict and data.exit_code is ExitCode.UNREADABLE:
        verdict, style = "Nothing in what could be read", "warning"
    lines = [
        ("", f"{grouped(group.count)} × {group.code} {_places(group.rows)}")
        for group in groups[:MOST_SAID]
        if group.severity != "note"
    ]
    if notes:
        lines.append(("", f"{count(notes, 'note')} for information"))
    return PageAnswer("What is damaged?", verdict or "Nothing", style, lines, "#findings")


def _lag(data: PageData) -> PageAnswer:
    question = "Which groups are lagging?"
    if not data.of("committed_offset"):
        words = "No committed consumer offsets on this disk"
        return PageAnswer(question, words, "plain", [], "#consumers")
    late = sorted(lagging(data), key=lambda row: -row.lag)
    lines = [("", f"{who(row)}: {count(row.lag, 'record')}") for row in late[:MOST_SAID]]
    if not late:
        return PageAnswer(question, "None", "good", lines, "#consumers")
    groups = len({row.group for row in late})
    verdict = f"{count(groups, 'group')} on {count(len(late), 'partition')}"
    return PageAnswer(question, verdict, "warning", lines, "#consumers")
