"""Options that select records, with the same meaning in every command."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from kfmt_cli.cli.grouped_options import GROUPS
from kfmt_cli.cli.options import Function, with_options
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.errors import UsageError

if TYPE_CHECKING:
    from kfmt_cli.log.selection.select import Asked

PATTERN = "text, ~REGEX, or a value prefixed with hex:, base64:, int:, long:, double: or uuid:"
READ_COMMITTED = "read_committed"
NAMES = GROUPS["Selection"]
N_BOUNDS = 4  # those that come first
TIME = "ISO 8601 in UTC, now-1h or milliseconds"


def selection(function: Function) -> Function:
    """Add options for offsets, times, keys, values, headers and producers, passed as `asked`."""

    @wraps(function)
    def call(**options: Any) -> Any:
        asked = asked_of({name: options.pop(name) for name in NAMES})
        return function(asked=asked, **options)

    return with_options(call, _OPTIONS)


def asked_of(options: Mapping[str, Any]) -> Asked:
    """The selection from the options that are present; raises UsageError."""
    from kfmt_cli.core.times import milliseconds
    from kfmt_cli.log.selection.record_match import match_of
    from kfmt_cli.log.selection.select import Asked, Selection

    given = Fields({name: options.get(name) for name in NAMES})
    first, last = (
        None if given[name] is None else milliseconds(f"--{name.replace('_', '-')}", given[name])
        for name in ("from_time", "to_time")
    )
    low, high = given.from_offset, given.to_offset
    for start, end, what in ((low, high, "offset"), (first, last, "time")):
        if start is not None and end is not None and start > end:
            raise UsageError(f"--from-{what} is after --to-{what}")
    match = match_of(given.key, given.value, given.header or (), given.producer_id)
    is_committed = given.isolation == READ_COMMITTED
    return Asked(Selection(low, high, first, last, match), given.last, is_committed)


def bounds(function: Function) -> Function:
    """Add only the options for offsets and times, passed as `wanted`, a Selection."""

    @wraps(function)
    def call(**options: Any) -> Any:
        asked = asked_of({name: options.pop(name) for name in NAMES[:N_BOUNDS]})
        return function(wanted=asked.wanted, **options)

    return with_options(call, _OPTIONS[:N_BOUNDS])


_OPTIONS = (
    click.option("--from-offset", type=int, metavar="N", help="Skip records before this offset."),
    click.option("--to-offset", type=int, metavar="N", help="Skip records after this offset."),
    click.option("--from-time", metavar="TIME", help=f"Skip records older than this: {TIME}."),
    click.option("--to-time", metavar="TIME", help="Skip records newer than this."),
    click.option(
        "--key",
        metavar="PATTERN",
        help=f"Only records with this key: {PATTERN}. A REGEX that repeats a group needs "
        "pip install 'kfmt-cli[regex]'.",
    ),
    click.option(
        "--value", metavar="PATTERN", help="Only records with this value; same syntax as --key."
    ),
    click.option(
        "--header",
        multiple=True,
        metavar="NAME[=PATTERN]",
        help="Only records with this header; may be repeated.",
    ),
    click.option(
        "--producer-id", type=int, metavar="N", help="Only records from this producer id."
    ),
    click.option(
        "--last",
        type=click.IntRange(min=1),
        metavar="N",
        help="Start at the N-th last of these records in each partition, after all other filters.",
    ),
    click.option(
        "--isolation",
        type=click.Choice(["read_uncommitted", READ_COMMITTED]),
        default="read_uncommitted",
        show_default=True,
        help="read_committed: skip aborted transactions, and stop at the first open one.",
    ),
)


def bytes_of(option: str, text: str) -> bytes:
    """Parse bytes given as a pattern; raises UsageError for a regular expression."""
    from kfmt_cli.log.selection.record_match import pattern_of

    pattern = pattern_of(option, text)
    if not isinstance(pattern, bytes):
        raise UsageError(f"{option} {text!r}: needs an exact key, not a regular expression")
    return pattern
