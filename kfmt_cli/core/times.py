"""Parses and formats single times; `core/native/text.py` formats whole columns."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta, timezone

from kfmt_cli.core.integers import parse_int
from kfmt_cli.errors import UsageError

_RELATIVE_TIME_PATTERN = re.compile(r"now(?:-([0-9]{1,12})([smhd]))?")
_SECONDS_BY_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}
YEAR_10000_MS = 253_402_300_800_000
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def now_ms() -> int:
    """The current time in milliseconds since the epoch."""
    return int(time.time() * 1000)


def current_time_ms(explicit_ms: int | None) -> int:
    """The time that the user named, or the current time; both in milliseconds."""
    return now_ms() if explicit_ms is None else explicit_ms


def parse_time_ms(option_name: str, text: str) -> int:
    """Parse a time to milliseconds since the epoch; raises UsageError.

    text: milliseconds; ISO 8601, in UTC unless it names another zone; or now, now-90s, now-5m,
    now-1h, now-7d. option_name: the option, for the message.
    """
    if (match := _RELATIVE_TIME_PATTERN.fullmatch(text)) is not None:
        seconds = int(match[1] or 0) * _SECONDS_BY_UNIT.get(match[2] or "s", 1)
        return now_ms() - 1000 * seconds
    if (time_ms := parse_int(text)) is not None:
        return time_ms
    try:
        parsed_time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        message = "not a valid time; use 2026-11-20T15:00 (UTC), now-1h or milliseconds"
        raise UsageError(f"{option_name} {text!r}: {message}") from None
    if parsed_time.tzinfo is None:
        parsed_time = parsed_time.replace(tzinfo=timezone.utc)
    return round(parsed_time.timestamp() * 1000)


def format_time(time_ms: int) -> str:
    """A time in UTC, from milliseconds since the epoch; the number itself if out of range."""
    try:
        utc_time = _UNIX_EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    # glibc does not pad %Y.
    return f"{utc_time.year:04}-{utc_time:%m-%d %H:%M:%S}.{time_ms % 1000:03d}"


_CENTURY_MS = (946_684_800_000, 4_102_444_800_000)  # 2000 to 2100
_OTHER_UNITS = ((1000, 1, "seconds"), (1, 1000, "microseconds"), (1, 1_000_000, "nanoseconds"))


def suggest_time_unit(time_ms: int) -> str:
    """A question whether a time was stored in a unit other than milliseconds, if that unit puts it
    in this century: `1970-01-20 16:13:20.000: seconds? then 2023-11-14 22:13:20`; empty for other
    times."""
    if _CENTURY_MS[0] <= time_ms < _CENTURY_MS[1]:
        return ""
    for factor, divisor, unit in _OTHER_UNITS:
        other_ms = time_ms * factor // divisor
        if _CENTURY_MS[0] <= other_ms < _CENTURY_MS[1]:
            return f"{format_time(time_ms)}: {unit}? then {format_time(other_ms)[:19]}"
    return ""


def format_interval_end(time_ms: int) -> str:
    """The end of a time interval in UTC, to the second."""
    return format_time(time_ms)[:19] if time_ms < YEAR_10000_MS else "after the year 9999"


_DURATION_UNITS = ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


def format_duration(duration_ms: int) -> str:
    """A duration in its largest unit: 250 ms, 1.5 h, 3 days."""
    for unit_ms, unit in _DURATION_UNITS:
        if duration_ms >= unit_ms:
            number_text = f"{duration_ms / unit_ms:.1f}".removesuffix(".0")
            return f"{number_text} {'day' if (number_text, unit) == ('1', 'days') else unit}"
    return f"{duration_ms} ms"
