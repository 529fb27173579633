"""The charts of a page.

To add one, write a file with its spec and with a function that adds its figures and their rows,
and a line in `CHARTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kfmt_cli.commands.report.page import charts, figures
from kfmt_cli.commands.report.page.figures import Figures
from kfmt_cli.commands.report.page.page_data import PageData


@dataclass(frozen=True, slots=True)
class ListedCharts:
    """Charts of one subject."""

    add: Callable[[Figures, PageData], None]
    """Adds the figures that have rows."""
    specs: Mapping[str, Callable[[], Any]]
    """Makes each chart, of Altair or a spec of Vega, by the name that figures give it."""


CHARTS: list[ListedCharts] = [
    ListedCharts(figures.areas, {"treemap": charts.treemap}),
    ListedCharts(
        figures.times,
        {
            "bytes_over_time": partial(charts.times, "bytes", "bytes"),
            "records_over_time": partial(charts.times, "records", "records"),
            "topic_times": charts.topic_times,
        },
    ),
    ListedCharts(
        figures.batches,
        {
            "batch_records": partial(charts.histogram, "batch_records", "records per batch, up to"),
            "batch_bytes": partial(charts.histogram, "batch_bytes", "bytes per batch, up to"),
        },
    ),
    ListedCharts(figures.codecs, {"codecs": charts.codecs, "what_if": charts.what_if}),
    ListedCharts(figures.freed, {"freed": charts.freed}),
    ListedCharts(figures.lag, {"lag": charts.lag}),
    ListedCharts(figures.strips, {"order": charts.order, "strips": charts.strips}),
    ListedCharts(figures.transactions, {"transactions": charts.transactions}),
]


def figures_of(data: PageData) -> Figures:
    """All figures that have rows."""
    found = Figures()
    for listed in CHARTS:
        listed.add(found, data)
    return found


def specs() -> dict[str, charts.Spec]:
    """Every chart by its name, without Altair's default style: the page has its own."""
    found: dict[str, charts.Spec] = {}
    for listed in CHARTS:
        for name, make in listed.specs.items():
            made = make()
            spec = made if isinstance(made, dict) else made.to_dict()
            found[name] = {part: said for part, said in spec.items() if part != "config"}
    return found
