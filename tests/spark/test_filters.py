"""Filters of a query as bounds: they never select rows that the options exclude."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.log.selection.selection import Selection, SelectionOptions
from kfmt_cli.spark.filters import narrow_request


@dataclass(frozen=True)
class EqualTo:
    """As Spark's."""

    attribute: tuple[str, ...]
    value: Any


@dataclass(frozen=True)
class LessThan:
    """As Spark's."""

    attribute: tuple[str, ...]
    value: Any


@pytest.mark.parametrize(
    ("topics", "value", "expected"),
    [
        ((), "a", {"a"}),
        (("a", "b"), "a", {"a"}),
        (("a", "b"), "c", {"a", "b"}),  # Spark keeps no row of them
    ],
)
def test_topics(topics: tuple[str, ...], value: str, expected: set[str]) -> None:
    request = ReadRequest(topics=frozenset(topics))
    assert narrow_request(request, EqualTo(("topic",), value)).topics == expected


def test_bounds_are_not_those_of_the_last_records() -> None:
    condition = LessThan(("offset",), 100)
    assert narrow_request(ReadRequest(), condition).selection_options.selection == Selection(
        last_offset=101
    )
    request = ReadRequest(selection_options=SelectionOptions(Selection(), n_last_records=5))
    assert narrow_request(request, condition) == request
