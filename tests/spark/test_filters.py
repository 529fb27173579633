"""Filters of a query as bounds: they never let in what the options exclude."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from kfmt_cli.log.selection.select import Asked, Selection
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.filters import narrowed


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
    ("given", "value", "expected"),
    [
        ((), "a", {"a"}),
        (("a", "b"), "a", {"a"}),
        (("a", "b"), "c", {"a", "b"}),  # Spark keeps no row of them
    ],
)
def test_topics(given: tuple[str, ...], value: str, expected: set[str]) -> None:
    request = Request(topics=frozenset(given))
    assert narrowed(request, EqualTo(("topic",), value)).topics == expected


def test_bounds_are_not_those_of_the_last_records() -> None:
    below = LessThan(("offset",), 100)
    assert narrowed(Request(), below).asked.wanted == Selection(last_offset=101)
    request = Request(asked=Asked(Selection(), last=5))
    assert narrowed(request, below) == request
