"""Times as people read them; whole columns are written by `core/cell.py`."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def time_text(milliseconds: int) -> str:
    """Milliseconds since the epoch in UTC; the number itself beyond the years that have one."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d}"
