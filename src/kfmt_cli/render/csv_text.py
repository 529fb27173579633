"""Single lines of CSV; whole tables are written by `render/bulk.py`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable


def csv_line(values: Iterable[object]) -> str:
    """The values as a line of CSV; None is nothing."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()
