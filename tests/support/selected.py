"""Which cases of a test were selected, so that what they share is made for those only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")


def selected(request: pytest.FixtureRequest, argument: str) -> list[object]:
    """The values that an argument has in the tests of this module that run."""
    found = []
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.module is request.module:
            values = item.callspec.params if hasattr(item, "callspec") else {}
            if argument in values and values[argument] not in found:
                found.append(values[argument])
    return found


def with_smoke(
    cases: Sequence[T], smoke: Sequence[str], mark: pytest.MarkDecorator
) -> Iterator[object]:
    """The cases as parameters by their names; all but some have the mark, which the default run
    leaves out. Raises KeyError for a name that no case has."""
    names = {str(case): case for case in cases}
    for name in smoke:
        names[name]
    for name, case in names.items():
        yield pytest.param(case, id=name, marks=() if name in smoke else mark)
