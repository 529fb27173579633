"""The charts of a page.

To add one, write its spec (`charts.py`), a function that adds its figures and their rows
(`figures.py`), and a line in `CHART_GROUPS`.
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

    add_figures: Callable[[PageFigures, PageData], None]
    """Adds the figures that have rows."""
    create_spec_by_name: Mapping[str, Callable[[], Any]]
    """Functions that create an Altair chart or a Vega spec, by `ChartFigure.chart_name`."""


CHART_GROUPS: list[ChartGroup] = [
    ChartGroup(figures.add_treemap, {"treemap": charts.treemap_spec}),
    ChartGroup(
        figures.add_writes_over_time,
        {
            "bytes_over_time": partial(charts.writes_over_time_chart, "bytes", "bytes"),
            "records_over_time": partial(charts.writes_over_time_chart, "records", "records"),
            "topic_times": charts.topic_writes_chart,
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
        figures.add_codec_figures,
        {"codecs": charts.bytes_by_codec_chart, "what_if": charts.codec_trials_chart},
    ),
    ChartGroup(figures.add_freed_bytes, {"freed": charts.freed_bytes_chart}),
    ChartGroup(figures.add_lag_figure, {"lag": charts.lag_chart}),
    ChartGroup(
        figures.add_segment_maps,
        {"order": charts.timestamp_order_chart, "strips": charts.segment_map_chart},
    ),
    ChartGroup(figures.add_transaction_figures, {"transactions": charts.transactions_chart}),
]


def create_figures(page_data: PageData) -> PageFigures:
    """All figures that have rows."""
    page_figures = PageFigures()
    for chart_group in CHART_GROUPS:
        chart_group.add_figures(page_figures, page_data)
    return page_figures


def chart_specs() -> dict[str, charts.Spec]:
    """Every chart by its name, without Altair's default style: the page has its own."""
    spec_by_name: dict[str, charts.Spec] = {}
    for chart_group in CHART_GROUPS:
        for name, create_spec in chart_group.create_spec_by_name.items():
            chart_or_spec = create_spec()
            spec = chart_or_spec if isinstance(chart_or_spec, dict) else chart_or_spec.to_dict()
            spec_by_name[name] = {
                property_name: value
                for property_name, value in spec.items()
                if property_name != "config"
            }
    return spec_by_name
