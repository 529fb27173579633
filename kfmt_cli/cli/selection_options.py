"""Options about which records are wanted: they mean the same in every command that takes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from kfmt_cli.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
PATTERN = "text, ~REGEX, or hex:, base64:, int:, long:, double:, uuid: and a value"
UNCOMMITTED = "read_uncommitted"
TIME = "ISO 8601 in UTC, now-1h or milliseconds"


def selection(function: F) -> F:
    """Which offsets, times, keys, values, headers and producers are wanted, as `wanted`."""

    @wraps(function)
    def call(
        from_offset: int | None,
        to_offset: int | None,
        from_time: str | None,
        to_time: str | None,
        key: str | None,
        value: str | None,
        header: tuple[str, ...],
        producer_id: int | None,
        **others: Any,
    ) -> Any:
        from kfmt_cli.core.times import milliseconds
        from kfmt_cli.log.matching import match_of
        from kfmt_cli.log.select import Selection

        first = None if from_time is None else milliseconds("--from-time", from_time)
        last = None if to_time is None else milliseconds("--to-time", to_time)
        for low, high, what in ((from_offset, to_offset, "offset"), (first, last, "time")):
            if low is not None and high is not None and low > high:
                raise UsageError(f"--from-{what} is after --to-{what}")
        match = match_of(key, value, header, producer_id)
        return function(wanted=Selection(from_offset, to_offset, first, last, match), **others)

    command: Any = call
    for option in reversed(_OPTIONS):
        command = option(command)
    made: F = command
    return made


_OPTIONS = (
    click.option("--from-offset", type=int, metavar="N", help="Skip what is before this offset."),
    click.option("--to-offset", type=int, metavar="N", help="Skip what is after this offset."),
    click.option("--from-time", metavar="TIME", help=f"Skip what is older: {TIME}."),
    click.option("--to-time", metavar="TIME", help="Skip what is younger."),
    click.option("--key", metavar="PATTERN", help=f"Only records with this key: {PATTERN}."),
    click.option("--value", metavar="PATTERN", help="Only records with this value, given alike."),
    click.option(
        "--header",
        multiple=True,
        metavar="NAME[=PATTERN]",
        help="Only records with this header; may be given several times.",
    ),
    click.option("--producer-id", type=int, metavar="N", help="Only records of this producer."),
)


def isolation(function: F) -> F:
    """--isolation, as `committed`."""

    @wraps(function)
    def call(**others: Any) -> Any:
        return function(committed=others.pop("isolation") != UNCOMMITTED, **others)

    command: Any = call
    made: F = click.option(
        "--isolation",
        type=click.Choice([UNCOMMITTED, "read_committed"]),
        default=UNCOMMITTED,
        show_default=True,
        help="read_committed: neither aborted transactions nor anything after an open one.",
    )(command)
    return made


def last(function: F) -> F:
    """--last."""
    return click.option(
        "--last",
        type=click.IntRange(min=1),
        metavar="N",
        help="Only the last N records of each partition, or those of them that are wanted.",
    )(function)


def bytes_of(option: str, text: str) -> bytes:
    """Bytes, given as a pattern is that is no regular expression; raises UsageError."""
    from kfmt_cli.log.matching import pattern_of

    pattern = pattern_of(option, text)
    if not isinstance(pattern, bytes):
        raise UsageError(f"{option} {text!r}: a whole key is needed, not a regular expression")
    return pattern
