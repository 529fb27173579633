"""A query's filters as bounds of a request."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from kfmt_cli.log.selection.select import Selection
from kfmt_cli.sharing.request import Request

BOUNDS = {
    "GreaterThan": ("first",),
    "GreaterThanOrEqual": ("first",),
    "LessThan": ("last",),
    "LessThanOrEqual": ("last",),
    "EqualTo": ("first", "last"),
}


def narrowed(request: Request, filter_: Any) -> Request:
    """The request narrowed to the bounds that a Spark filter implies; other filters change nothing.

    Bounds are treated as inclusive; Spark filters out the excess rows.
    """
    ends = BOUNDS.get(type(filter_).__name__)
    column: tuple[str, ...] = getattr(filter_, "attribute", ())
    if ends is None or len(column) != 1 or request.table != "records":
        return request
    name = column[0]
    value = filter_.value
    if name == "topic" and len(ends) == 2 and isinstance(value, str):
        topics = request.topics & {value} if request.topics else frozenset({value})
        return replace(request, topics=topics or request.topics)  # none would be all
    if name == "offset" and isinstance(value, int):
        return _bounded(request, "offset", ends, value)
    if name == "timestamp" and isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return _bounded(request, "time", ends, int(moment.timestamp() * 1000))
    return request


def _bounded(request: Request, what: str, ends: tuple[str, ...], value: int) -> Request:
    if request.asked.last is not None:
        return request  # the last of all, not of those within bounds
    # A margin of 1 ms, because Spark's timestamps are finer.
    bound = {"first": value - 1, "last": value + 1}
    bounds = {f"{end}_{what}": bound[end] for end in ends}
    wanted = request.asked.wanted.within(Selection(**bounds))  # type: ignore[arg-type]
    return replace(request, asked=replace(request.asked, wanted=wanted))
