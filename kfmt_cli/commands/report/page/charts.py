"""The charts of a page as Vega-Lite specs made by Altair, without their rows.

A chart names its table; `figures.py` makes the tables, and `page.js` gives each chart the rows of
its topic.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import altair as alt

from kfmt_cli.errors import OutputError
from kfmt_cli.findings.finding import SEVERITIES
from kfmt_cli.formats.batch import CODECS

Spec = dict[str, Any]

_CONTAINER_WIDTH = "container"
# Distinguishable with any kind of colour vision, on white and on black.
_CODEC_COLOUR_SCALE = alt.Scale(
    domain=list(CODECS), range=["#8a8f98", "#d98e04", "#3d8fd1", "#2a9d78", "#b565a7"]
)
_COLOUR_BY_OUTCOME = {"committed": "#8a8f98", "aborted": "#d1495b", "open": "#e08e00"}
_OUTCOME_COLOUR_SCALE = alt.Scale(
    domain=list(_COLOUR_BY_OUTCOME), range=list(_COLOUR_BY_OUTCOME.values())
)
_SEVERITY_COLOUR_SCALE = alt.Scale(domain=list(SEVERITIES), range=["#d1495b", "#e08e00", "#3d8fd1"])
_ROW_PIXELS = 22  # height of a log, a producer or a bar


def _row_height_properties(column: str) -> Spec:
    """Properties of a chart with a height proportional to the distinct values of a column."""
    return {"width": _CONTAINER_WIDTH, "usermeta": {"rows": column, "step": _ROW_PIXELS}}


def _fixed_height_properties(pixels: int) -> Spec:
    """Properties of a chart of this height."""
    return {"width": _CONTAINER_WIDTH, "height": pixels}


def _create_chart(table: str, properties: Spec, **mark_properties: Any) -> alt.Chart:
    """A mark for each row of a table, in a chart of this size; `encode` places them."""
    return alt.Chart(alt.NamedData(table), mark=alt.MarkDef(**mark_properties), **properties)


_UTC_SCALE = alt.Scale(type="utc")
_TIME_FORMATS = {
    "milliseconds": "%H:%M:%S.%L",
    "seconds": "%H:%M:%S",
    "minutes": "%H:%M",
    "hours": "%H:%M",
    "day": "%b %d",
    "date": "%b %d",
    "week": "%b %d",
    "month": "%b %Y",
    "year": "%Y",
}


def _time_axis(column: str) -> alt.X:
    return alt.X(
        f"{column}:T",
        scale=_UTC_SCALE,
        axis=alt.Axis(title="time (UTC)", format=_TIME_FORMATS, labelOverlap=True),
    )


def _number_axis(title: str) -> alt.Axis:
    return alt.Axis(format="~s", title=title)


def _tooltip_lines(*field_specs: str) -> list[alt.Tooltip]:
    """The lines of a tooltip: names as `codec:N`, numbers as `bytes:Q`; after `=` is a title other
    than the name."""
    tooltips = []
    for field_spec in field_specs:
        typed_name, _, title = field_spec.partition("=")
        tooltip = (
            alt.Tooltip(typed_name, format=",")
            if typed_name.endswith(":Q")
            else alt.Tooltip(typed_name)
        )
        tooltips.append(tooltip.title(title) if title else tooltip)
    return tooltips


def _interval_tooltip(*field_specs: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("from:T", format="%Y-%m-%d %H:%M:%S", title="from"),
        alt.Tooltip("to:T", format="%Y-%m-%d %H:%M:%S", title="to"),
        *_tooltip_lines(*field_specs, "records:Q", "bytes:Q"),
    ]


def writes_over_time_chart(amount_column: str, axis_title: str) -> Any:
    """Stacked columns of bytes or records over time."""
    return _create_chart("times", _fixed_height_properties(180), type="rect").encode(
        x=_time_axis("from"),
        x2="to:T",
        y=alt.Y(f"{amount_column}_from:Q", axis=_number_axis(axis_title)),
        y2=f"{amount_column}_to:Q",
        color=alt.Color("series:N", sort=None, legend=alt.Legend(title="topic")),
        tooltip=_interval_tooltip("series:N=topic"),
    )


def topic_writes_chart() -> Any:
    return _create_chart(
        "topic_times", _fixed_height_properties(140), type="rect", color="#3d8fd1"
    ).encode(
        x=_time_axis("from"),
        x2="to:T",
        y=alt.Y("bytes:Q", axis=_number_axis("bytes")),
        y2=alt.datum(0),
        tooltip=_interval_tooltip(),
    )


def histogram_chart(table: str, axis_title: str) -> Any:
    return _create_chart(table, _fixed_height_properties(160), type="bar", color="#3d8fd1").encode(
        x=alt.X(
            "up_to:O",
            sort=None,
            axis=alt.Axis(title=axis_title, labelAngle=0, labelOverlap="greedy"),
        ),
        y=alt.Y("batches:Q", axis=_number_axis("batches")),
        tooltip=_tooltip_lines("up_to:O=up to", "batches:Q"),
    )


def _codec_bars(
    table: str, bar_order: str, length_encoding: str, axis_title: str, *tooltip_fields: str
) -> Any:
    """A bar for each codec."""
    return _create_chart(table, {}, type="bar").encode(
        y=alt.Y("codec:N", sort=bar_order, axis=alt.Axis(title=None)),
        x=alt.X(length_encoding, axis=_number_axis(axis_title)),
        color=alt.Color("codec:N", scale=_CODEC_COLOUR_SCALE, legend=None),
        tooltip=_tooltip_lines("codec:N", *tooltip_fields),
    )


def bytes_by_codec_chart() -> Any:
    bytes_encoding = "sum(bytes):Q"
    bars = _codec_bars("codecs", "-x", bytes_encoding, "bytes", bytes_encoding, "sum(records):Q")
    return bars.properties(**_row_height_properties("codec"))


def codec_trials_chart() -> Any:
    bytes_encoding = "would_be_bytes:Q"
    bars = _codec_bars(
        "what_if", "x", bytes_encoding, "bytes of the sample", f"{bytes_encoding}=bytes"
    )
    stored_bytes_rule = (
        alt.Chart(alt.NamedData("what_if"))
        .mark_rule(color="#d1495b", strokeWidth=2)
        .encode(x="mean(stored_bytes):Q")
    )
    return (bars + stored_bytes_rule).properties(**_row_height_properties("codec"))


def freed_bytes_chart() -> Any:
    mark_properties = {
        "interpolate": "step-after",
        "color": "#2a9d78",
        "opacity": 0.6,
        "line": True,
    }
    return _create_chart(
        "freed", _fixed_height_properties(160), type="area", **mark_properties
    ).encode(
        x=_time_axis("at"),
        y=alt.Y("bytes:Q", axis=_number_axis("bytes freed by then")),
        tooltip=[
            alt.Tooltip("at:T", format="%Y-%m-%d %H:%M", title="by"),
            *_tooltip_lines("bytes:Q"),
        ],
    )


def lag_chart() -> Any:
    return _create_chart("lag", _row_height_properties("who"), type="bar", color="#e08e00").encode(
        y=alt.Y("who:N", sort="-x", axis=alt.Axis(title=None, labelLimit=320)),
        x=alt.X("lag:Q", axis=_number_axis("lag (records)")),
        tooltip=_tooltip_lines("who:N", "lag:Q"),
    )


def timestamp_order_chart() -> Any:
    point_mark = alt.OverlayMarkDef(size=14)
    line_chart = _create_chart(
        "cells", _fixed_height_properties(180), type="line", point=point_mark, strokeWidth=1
    )
    return line_chart.transform_filter("datum.max_timestamp != null").encode(
        x=alt.X("last_offset:Q", axis=_number_axis("offset"), scale={"zero": False}),
        y=alt.Y(
            "max_timestamp:T",
            scale=_UTC_SCALE,
            axis=alt.Axis(title="timestamp (UTC)", format=_TIME_FORMATS),
        ),
        order="last_offset:Q",
        color=alt.Color("partition:N", legend=alt.Legend(title="partition")),
        tooltip=[
            *_tooltip_lines("partition:N", "last_offset:Q=offset"),
            alt.Tooltip("max_timestamp:T", format="%Y-%m-%d %H:%M:%S.%L", title="time"),
        ],
    )


def segment_map_chart() -> Any:
    log_axis = alt.Y(
        "log:N", sort=None, axis=alt.Axis(title="partition / base offset", labelLimit=240)
    )
    batch_layer = (
        alt.Chart(alt.NamedData("cells"))
        .mark_rect(height=12, stroke=None)
        .encode(
            y=log_axis,
            x=alt.X("position:Q", axis=_number_axis("position in the log")),
            x2="end:Q",
            color=alt.Color("codec:N", scale=_CODEC_COLOUR_SCALE, legend=alt.Legend(title="codec")),
            tooltip=_tooltip_lines(
                *("log:N", "position:Q=byte", "batches:Q", "records:Q", "codec:N"),
                *("control:Q=control batches", "index_entries:Q=index entries"),
                "last_offset:Q=last offset",
            ),
        )
    )
    index_entry_layer = (
        alt.Chart(alt.NamedData("index_entries"))
        .mark_tick(orient="vertical", height=4, thickness=1, color="#6b7280", yOffset=9)
        .encode(y=log_axis, x="position:Q")
    )
    control_batch_layer = (
        alt.Chart(alt.NamedData("control"))
        .mark_point(shape="diamond", filled=True, size=26, color="#111827", stroke="#ffffff")
        .encode(y=log_axis, x="position:Q")
    )
    finding_layer = (
        alt.Chart(alt.NamedData("marks"))
        .mark_point(shape="triangle-down", filled=True, size=90, yOffset=-9, opacity=1)
        .encode(
            y=log_axis,
            x="position:Q",
            fill=alt.Fill(
                "severity:N", scale=_SEVERITY_COLOUR_SCALE, legend=alt.Legend(title="finding")
            ),
            tooltip=_tooltip_lines("code:N", "position:Q=byte", "message:N"),
        )
    )
    layers = (batch_layer + index_entry_layer + control_batch_layer + finding_layer).resolve_scale(
        color="independent"
    )
    return layers.properties(**_row_height_properties("log"))


def transactions_chart() -> Any:
    return _create_chart(
        "transactions", _row_height_properties("producer"), type="bar", height=11, strokeWidth=2
    ).encode(
        y=alt.Y("producer:N", axis=alt.Axis(title="partition / producer", labelLimit=240)),
        x=alt.X("first:Q", axis=_number_axis("offset"), scale={"zero": False}),
        x2="last:Q",
        color=alt.Color(
            "outcome:N", scale=_OUTCOME_COLOUR_SCALE, legend=alt.Legend(title="outcome")
        ),
        stroke=alt.Stroke("outcome:N", scale=_OUTCOME_COLOUR_SCALE),  # keeps short ones visible
        tooltip=_tooltip_lines(
            *("outcome:N", "producer:N"),
            *("first:Q=first offset", "last:Q=last offset", "records:Q"),
        ),
    )


# Dark enough for white text.
_AREA_COLOURS = (
    *("#2f6fa8", "#8a5a00", "#1d7357", "#8e4585"),
    *("#5b6470", "#a23847", "#3f51a3", "#6b6b00"),
)
_LABEL_FITS_EXPRESSION = "datum.x1 - datum.x0 > 60 && datum.y1 - datum.y0 > 16"


def treemap_spec() -> Spec:
    """A treemap in plain Vega, as Vega-Lite has no such layout."""
    layout_transforms = [
        {"type": "stratify", "key": "id", "parentKey": "parent"},
        {
            "type": "treemap",
            "field": "bytes",
            "paddingInner": 1,
            "paddingOuter": 2,
            "sort": {"field": "value", "order": "descending"},
            "size": [{"signal": "width"}, {"signal": "height"}],
        },
    ]
    leaf_filter = {"type": "filter", "expr": "datum.label != null"}
    domain = {"data": "leaves", "field": "topic"}
    colour = {"name": "colour", "type": "ordinal", "domain": domain, "range": _AREA_COLOURS}
    tooltip = {"signal": "{topic: datum.topic, partition: datum.label, size: datum.size}"}
    area_encoding = {
        "enter": {"fill": {"scale": "colour", "field": "topic"}, "tooltip": tooltip},
        "update": {
            channel: {"field": datum_field}
            for channel, datum_field in (("x", "x0"), ("x2", "x1"), ("y", "y0"), ("y2", "y1"))
        },
    }
    label_encoding = {
        "enter": {
            "text": {"field": "label"},
            "baseline": {"value": "top"},
            "fill": {"value": "#ffffff"},
            "fontSize": {"value": 12},
        },
        "update": {
            "x": {"signal": "datum.x0 + 5"},
            "y": {"signal": "datum.y0 + 4"},
            "opacity": {"signal": f"{_LABEL_FITS_EXPRESSION} ? 1 : 0"},
            "limit": {"signal": "datum.x1 - datum.x0 - 8"},
        },
    }
    return {
        "$schema": "https://vega.github.io/schema/vega/v6.json",
        "height": 260,
        "padding": 0,
        "autosize": "none",
        "data": [
            {"name": "areas"},
            {"name": "tree", "source": "areas", "transform": layout_transforms},
            {"name": "leaves", "source": "tree", "transform": [leaf_filter]},
        ],
        "scales": [colour],
        "marks": [
            {"type": "rect", "from": {"data": "leaves"}, "encode": area_encoding},
            {
                "type": "text",
                "from": {"data": "leaves"},
                "interactive": False,
                "encode": label_encoding,
            },
        ],
    }


# Runs in a Python that searches for modules only where this one does.
_BUNDLE_SCRIPT = """import sys
sys.path[:] = sys.argv[1:]
import vl_convert
sys.stdout.buffer.write(vl_convert.javascript_bundle(None).encode())
"""


def vega_script() -> str:
    """Vega, Vega-Lite and vegaEmbed as one script, which defines `window.vegaEmbed`; raises
    OutputError.

    A process of its own creates it, because vl_convert's V8 kills its process if memory is limited.
    """
    try:
        process = subprocess.run(
            [sys.executable, "-I", "-c", _BUNDLE_SCRIPT, *sys.path],
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise OutputError(f"vl_convert did not start: {error.strerror}") from error
    if process.returncode < 0:
        signal_number = -process.returncode
        message = f"vl_convert was killed by signal {signal_number}, perhaps for lack of memory"
        raise OutputError(message)
    if process.returncode:
        error_lines = process.stderr.decode(errors="replace").splitlines()
        raise OutputError(
            f"vl_convert failed: {error_lines[-1] if error_lines else process.returncode}"
        )
    return process.stdout.decode()
