"""The charts of a page.

To add one, write its spec (`charts.py`), a function that adds its figures and their rows
(`figures.py`), and a line in `CHARTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kfmt_cli.commands.report.page import charts, figures
from kfmt_cli.commands.report.page.figures import PageFigures
from kfmt_cli.commands.report.page.page_data import PageData


@dataclass(frozen=True, slots=True)
class ChartGroup:
    """Charts of one subject."""

    add: Callable[[PageFigures, PageData], None]
    """Adds the figures that have rows."""
    specs: Mapping[str, Callable[[], Any]]
    """Functions that create an Altair chart or a Vega spec, by `ChartFigure.chart_name`."""


CHARTS: list[ChartGroup] = [
    ChartGroup(figures.add_treemap, {"treemap": charts.treemap_spec}),
    ChartGroup(
        figures.add_times,
        {
            "bytes_over_time": partial(charts.times_chart, "bytes", "bytes"),
            "records_over_time": partial(charts.times_chart, "records", "records"),
            "topic_times": charts.topic_times_chart,
        },
    ),
    ChartGroup(
        figures.add_batch_histograms,
        {
            "batch_records": partial(
                charts.histogram_chart, "batch_records", "records per batch, up to"
            ),
            "batch_bytes": partial(charts.histogram_chart, "batch_bytes", "bytes per batch, up to"),
        },
    ),
    ChartGroup(
        figures.add_codecs, {"codecs": charts.codecs_chart, "what_if": charts.codec_trials_chart}
    ),
    ChartGroup(figures.add_freed_bytes, {"freed": charts.freed_bytes_chart}),
    ChartGroup(figures.add_lag, {"lag": charts.lag_chart}),
    ChartGroup(
        figures.add_segment_maps,
        {"order": charts.timestamp_order_chart, "strips": charts.segment_map_chart},
    ),
    ChartGroup(figures.add_transactions, {"transactions": charts.transactions_chart}),
]


def create_figures(data: PageData) -> PageFigures:
    """All figures that have rows."""
    page_figures = PageFigures()
    for chart_group in CHARTS:
        chart_group.add(page_figures, data)
    return page_figures


def chart_specs() -> dict[str, charts.Spec]:
    """Every chart by its name, without Altair's default style: the page has its own."""
    spec_by_name: dict[str, charts.Spec] = {}
    for chart_group in CHARTS:
        for name, create_chart in chart_group.specs.items():
            chart = create_chart()
            spec = chart if isinstance(chart, dict) else chart.to_dict()
            spec_by_name[name] = {
                property_name: value
                for property_name, value in spec.items()
                if property_name != "config"
            }
    return spec_by_name
