"""Bounds of offsets and times in the Python API."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import wraps
from numbers import Integral
from typing import Any, TypeVar, cast

from kfmt_cli.core.times import parse_time_ms
from kfmt_cli.errors import UsageError
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.options.declaration import deprecation_message

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def parse_bounds(
    from_offset: int | None,
    to_offset: int | None,
    from_time: int | datetime | str | None,
    to_time: int | datetime | str | None,
) -> Selection:
    """The selection of rows within inclusive bounds; raises UsageError for an offset that is not an
    integer, and for text that is not a time."""
    return Selection(
        parse_integer("from_offset", from_offset),
        parse_integer("to_offset", to_offset),
        parse_integer("from_time", time_to_ms("from_time", from_time, rounds_up=True)),
        parse_integer("to_time", time_to_ms("to_time", to_time)),
    )


def parse_integer(argument_name: str, value: object) -> int | None:
    """An integer of any type, such as NumPy's, as an int; None stays None. Raises UsageError for
    other values. argument_name: the argument's name, for the message."""
    if value is None:
        return None
    if not isinstance(value, Integral):
        raise UsageError(f"{argument_name} is {value!r}; it must be an integer")
    return int(value)


def time_to_ms(
    argument_name: str, time: int | datetime | str | None, *, rounds_up: bool = False
) -> int | None:
    """A time in milliseconds since the epoch; text as on the command line, such as
    2026-11-20T15:00. Raises UsageError. rounds_up: as for `datetime_to_ms`."""
    if isinstance(time, str):
        return parse_time_ms(argument_name, time)
    return datetime_to_ms(time, rounds_up=rounds_up)


def datetime_to_ms(datetime_or_ms: int | datetime | None, *, rounds_up: bool = False) -> int | None:
    """A time in milliseconds since the epoch, as Kafka stores it; a datetime without a time zone is
    in UTC. rounds_up: round up, not down."""
    if not isinstance(datetime_or_ms, datetime):
        return datetime_or_ms
    aware_datetime = (
        datetime_or_ms if datetime_or_ms.tzinfo else datetime_or_ms.replace(tzinfo=timezone.utc)
    )
    since_epoch, one_ms = aware_datetime - EPOCH, timedelta(milliseconds=1)
    return -(-since_epoch // one_ms) if rounds_up else since_epoch // one_ms


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_BOUND_BY_FORMER_NAME = {
    f"{former}_{noun}": f"{bound}_{noun}"
    for former, bound in (("first", "from"), ("last", "to"))
    for noun in ("offset", "time")
}


def accept_former_bounds(function: FunctionT) -> FunctionT:
    """Decorate a function: the former names of its bounds, such as first_offset, are accepted with
    a warning for one release."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        for former_name, name in _BOUND_BY_FORMER_NAME.items():
            if former_name in options:
                message = deprecation_message(former_name, name)
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                options[name] = options.pop(former_name)
        return function(*arguments, **options)

    return cast("FunctionT", call)
