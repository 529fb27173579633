"""Turns a query's filters into bounds of a request."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.log.selection.selection import Selection

BOUNDS_BY_FILTER = {
    "GreaterThan": ("first",),
    "GreaterThanOrEqual": ("first",),
    "LessThan": ("last",),
    "LessThanOrEqual": ("last",),
    "EqualTo": ("first", "last"),
}


def narrow_request(request: ReadRequest, filter_: Any) -> ReadRequest:
    """The request narrowed to the bounds that a Spark filter implies; other filters change nothing.

    Bounds are treated as inclusive; Spark filters out the excess rows.
    """
    bound_names = BOUNDS_BY_FILTER.get(type(filter_).__name__)
    attribute_path: tuple[str, ...] = getattr(filter_, "attribute", ())
    if bound_names is None or len(attribute_path) != 1 or request.table != "records":
        return request
    column_name = attribute_path[0]
    filter_value = filter_.value
    if column_name == "topic" and len(bound_names) == 2 and isinstance(filter_value, str):
        topics = request.topics & {filter_value} if request.topics else frozenset({filter_value})
        # An empty set would select all topics.
        return replace(request, topics=topics or request.topics)
    if column_name == "offset" and isinstance(filter_value, int):
        return _narrow_selection(request, "offset", bound_names, filter_value)
    if column_name == "timestamp" and isinstance(filter_value, datetime):
        utc_time = (
            filter_value if filter_value.tzinfo else filter_value.replace(tzinfo=timezone.utc)
        )
        return _narrow_selection(request, "time", bound_names, int(utc_time.timestamp() * 1000))
    return request


def _narrow_selection(
    request: ReadRequest, column_noun: str, bound_names: tuple[str, ...], bound_value: int
) -> ReadRequest:
    if request.selection_options.n_last_records is not None:
        return request  # the last of all records, not of those within bounds
    # A margin of 1 ms, because Spark's timestamps are finer.
    bound_by_name = {"first": bound_value - 1, "last": bound_value + 1}
    bounds = {
        f"{bound_name}_{column_noun}": bound_by_name[bound_name] for bound_name in bound_names
    }
    selection = request.selection_options.selection.intersect(Selection(**bounds))  # type: ignore[arg-type]
    return replace(
        request, selection_options=replace(request.selection_options, selection=selection)
    )
