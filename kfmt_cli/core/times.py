"""Times for people; `core/native/cell.py` writes whole columns."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta, timezone

from kfmt_cli.errors import UsageError

_BEFORE_NOW = re.compile(r"now(?:-(\d+)([smhd]))?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
YEAR_10000 = 253_402_300_800_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def now_ms() -> int:
    """The current time in milliseconds since the epoch."""
    return int(time.time() * 1000)


def milliseconds(name: str, text: str) -> int:
    """A time as milliseconds since the epoch; raises UsageError.

    text: milliseconds; ISO 8601, in UTC unless it names another zone; or now, now-90s, now-5m,
    now-1h, now-7d. name: the option, for the message.
    """
    if (before := _BEFORE_NOW.fullmatch(text)) is not None:
        seconds = int(before[1] or 0) * _SECONDS.get(before[2] or "s", 1)
        return now_ms() - 1000 * seconds
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        words = "not a valid time; use 2026-11-20T15:00 (UTC), now-1h or milliseconds"
        raise UsageError(f"{name} {text!r}: {words}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return round(moment.timestamp() * 1000)


def time_text(milliseconds: int) -> str:
    """A time in UTC, from milliseconds since the epoch; the number itself if out of range."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d}"


def until_words(milliseconds: int) -> str:
    """The end of a span of time, to the second."""
    return time_text(milliseconds)[:19] if milliseconds < YEAR_10000 else "after the year 9999"


_UNITS = ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


def span_words(milliseconds: int) -> str:
    """A span of time in its largest unit: 250 ms, 1.5 h, 3 days."""
    for size, unit in _UNITS:
        if milliseconds >= size:
            number = f"{milliseconds / size:.1f}".removesuffix(".0")
            return f"{number} {'day' if (number, unit) == ('1', 'days') else unit}"
    return f"{milliseconds} ms"
