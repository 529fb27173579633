"""Times as people read them; whole columns are written by `core/native/cell.py`."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from kfmt_cli.errors import UsageError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def milliseconds(name: str, text: str) -> int:
    """A time as milliseconds since the epoch; raises UsageError.

    text: a number of them, or ISO 8601, in UTC unless it says another zone. name: what is given so.
    """
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(f"{name} is {text!r}, no time such as 2026-11-20T15:00") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return round(moment.timestamp() * 1000)


def time_text(milliseconds: int) -> str:
    """Milliseconds since the epoch in UTC; the number itself beyond the years that have one."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d}"
