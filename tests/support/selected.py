"""The selected cases of a test, so that their shared fixture is built for those only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")


def selected(request: pytest.FixtureRequest, argument: str) -> list[object]:
    """The values of an argument in the selected tests of the request's module."""
    selected_values = []
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.module is request.module:
            values = item.callspec.params if hasattr(item, "callspec") else {}
            if argument in values and values[argument] not in selected_values:
                selected_values.append(values[argument])
    return selected_values


def with_smoke(
    cases: Sequence[T], smoke: Sequence[str], mark: pytest.MarkDecorator
) -> Iterator[object]:
    """The cases as parameters by their names; all except the smoke cases have the mark, which the
    default run omits. Raises KeyError for an unknown name."""
    case_by_name = {str(case): case for case in cases}
    for name in smoke:
        case_by_name[name]
    for name, case in case_by_name.items():
        yield pytest.param(case, id=name, marks=() if name in smoke else mark)
