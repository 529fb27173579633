"""Options of the test run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update-golden rewrites the golden transcripts."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")
