"""Options of the test run, and what all tests share."""

from __future__ import annotations

import pytest

from tests import warm


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update-golden rewrites the golden transcripts."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


def pytest_unconfigure() -> None:
    """End the processes that kfmt was run in."""
    warm.stop()
