"""How two copies of a partition compare."""

from __future__ import annotations

import enum


class RangeStatus(enum.Enum):
    """How two copies of a partition compare in a range of offsets."""

    IDENTICAL = "identical"
    EXPLAINED = "explained"
    MISSING = "missing"
    DIFFERS = "differs"
