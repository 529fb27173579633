"""Options that select records, with the same meaning in every command."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from kfmt_cli.cli.grouped_options import OPTION_GROUPS
from kfmt_cli.cli.options import CommandFunction, add_options
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.errors import UsageError

if TYPE_CHECKING:
    from kfmt_cli.log.selection.selection import SelectionOptions

PATTERN_HELP = "text, ~REGEX, or a value prefixed with hex:, base64:, int:, long:, double: or uuid:"
READ_COMMITTED = "read_committed"
SELECTION_OPTION_NAMES = OPTION_GROUPS["Selection"]
N_BOUND_OPTIONS = 4  # the first of `_SELECTION_OPTIONS`: offsets and times
TIME_HELP = "ISO 8601 in UTC, now-1h or milliseconds"


def add_selection_options(function: CommandFunction) -> CommandFunction:
    """Add options for offsets, times, keys, values, headers and producers, passed as `asked`."""

    @wraps(function)
    def wrapper(**options: Any) -> Any:
        selection_options = parse_selection_options(
            {name: options.pop(name) for name in SELECTION_OPTION_NAMES}
        )
        return function(asked=selection_options, **options)

    return add_options(wrapper, _SELECTION_OPTIONS)


def parse_selection_options(options: Mapping[str, Any]) -> SelectionOptions:
    """The selection from the options that are present; raises UsageError."""
    from kfmt_cli.core.times import parse_time_ms
    from kfmt_cli.log.selection.record_filter import parse_record_filter
    from kfmt_cli.log.selection.selection import Selection, SelectionOptions

    option_values = FieldDict({name: options.get(name) for name in SELECTION_OPTION_NAMES})
    from_time, to_time = (
        None
        if option_values[name] is None
        else parse_time_ms(f"--{name.replace('_', '-')}", option_values[name])
        for name in ("from_time", "to_time")
    )
    from_offset, to_offset = option_values.from_offset, option_values.to_offset
    for from_bound, to_bound, noun in (
        (from_offset, to_offset, "offset"),
        (from_time, to_time, "time"),
    ):
        if from_bound is not None and to_bound is not None and from_bound > to_bound:
            raise UsageError(f"--from-{noun} is after --to-{noun}")
    record_filter = parse_record_filter(
        option_values.key,
        option_values.value,
        option_values.header or (),
        option_values.producer_id,
    )
    is_read_committed = option_values.isolation == READ_COMMITTED
    return SelectionOptions(
        Selection(from_offset, to_offset, from_time, to_time, record_filter),
        option_values.last,
        is_read_committed,
    )


def add_bounds_options(function: CommandFunction) -> CommandFunction:
    """Add only the options for offsets and times, passed as `wanted`, a Selection."""

    @wraps(function)
    def wrapper(**options: Any) -> Any:
        selection_options = parse_selection_options(
            {name: options.pop(name) for name in SELECTION_OPTION_NAMES[:N_BOUND_OPTIONS]}
        )
        return function(wanted=selection_options.selection, **options)

    return add_options(wrapper, _SELECTION_OPTIONS[:N_BOUND_OPTIONS])


_SELECTION_OPTIONS = (
    click.option("--from-offset", type=int, metavar="N", help="Skip records before this offset."),
    click.option("--to-offset", type=int, metavar="N", help="Skip records after this offset."),
    click.option("--from-time", metavar="TIME", help=f"Skip records older than this: {TIME_HELP}."),
    click.option("--to-time", metavar="TIME", help="Skip records newer than this."),
    click.option(
        "--key",
        metavar="PATTERN",
        help=f"Only records with this key: {PATTERN_HELP}. A REGEX that repeats a group needs "
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


def parse_bytes_pattern(option_name: str, pattern_text: str) -> bytes:
    """Parse bytes given as a pattern; raises UsageError for a regular expression."""
    from kfmt_cli.log.selection.record_filter import parse_pattern

    pattern = parse_pattern(option_name, pattern_text)
    if not isinstance(pattern, bytes):
        raise UsageError(
            f"{option_name} {pattern_text!r}: needs an exact key, not a regular expression"
        )
    return pattern
