"""Options that select records, with the same meaning in every command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from kfmt_cli.errors import UsageError
from kfmt_cli.options.declaration import option, options_class

if TYPE_CHECKING:
    from kfmt_cli.log.selection.selection import Selection, SelectionOptions

PATTERN_HELP = "text, ~REGEX, or a value prefixed with hex:, base64:, int:, long:, double: or uuid:"
READ_COMMITTED = "read_committed"
TIME_HELP = "ISO 8601 in UTC, now-1h or milliseconds"


@options_class
class BoundsOptions:
    """Options for offsets and times."""

    from_offset: int | None = option(
        default=None, type=int, metavar="N", help="Skip records before this offset."
    )
    to_offset: int | None = option(
        default=None, type=int, metavar="N", help="Skip records after this offset."
    )
    from_time: str | None = option(
        default=None, metavar="TIME", help=f"Skip records older than this: {TIME_HELP}."
    )
    to_time: str | None = option(default=None, metavar="TIME", help="Skip records newer than this.")

    @cached_property
    def bounds(self) -> Selection:
        """The selection within these bounds; raises UsageError."""
        from kfmt_cli.core.times import parse_time_ms
        from kfmt_cli.log.selection.selection import Selection

        from_ms, to_ms = (
            None if text is None else parse_time_ms(option_name, text)
            for option_name, text in (("--from-time", self.from_time), ("--to-time", self.to_time))
        )
        for from_bound, to_bound, noun in (
            (self.from_offset, self.to_offset, "offset"),
            (from_ms, to_ms, "time"),
        ):
            if from_bound is not None and to_bound is not None and from_bound > to_bound:
                raise UsageError(f"--from-{noun} is after --to-{noun}")
        return Selection(self.from_offset, self.to_offset, from_ms, to_ms)


def commit_unknown_option() -> bool:
    """--commit-unknown."""
    return option(
        default=False,
        help="Count transactions whose outcome damage hides as committed, not as aborted.",
    )


@options_class
class RecordSelectionOptions(BoundsOptions):
    """Options for offsets, times, keys, values, headers and producers."""

    key: str | None = option(
        default=None,
        metavar="PATTERN",
        help=f"Only records with this key: {PATTERN_HELP}. A REGEX that repeats a group needs "
        "pip install 'kfmt-cli[regex]'.",
    )
    value: str | None = option(
        default=None,
        metavar="PATTERN",
        help="Only records with this value; same syntax as --key.",
    )
    header: tuple[str, ...] = option(
        default=(),
        metavar="NAME[=PATTERN]",
        help="Only records with this header; may be repeated.",
    )
    producer_id: int | None = option(
        default=None, type=int, metavar="N", help="Only records from this producer id."
    )
    last: int | None = option(
        default=None,
        type=click.IntRange(min=1),
        metavar="N",
        help="Start at the N-th last of these records in each partition, after all other filters.",
    )
    isolation: str = option(
        default="read_uncommitted",
        type=click.Choice(["read_uncommitted", READ_COMMITTED]),
        help="read_committed: skip aborted transactions, and stop at the first open one.",
    )
    commit_unknown: bool = commit_unknown_option()

    @cached_property
    def selection_options(self) -> SelectionOptions:
        """The selected records; raises UsageError."""
        from kfmt_cli.log.selection.record_filter import parse_record_filter
        from kfmt_cli.log.selection.selection import SelectionOptions

        bounds = self.bounds
        record_filter = parse_record_filter(self.key, self.value, self.header, self.producer_id)
        return SelectionOptions(
            replace(bounds, record_filter=record_filter),
            self.last,
            self.isolation == READ_COMMITTED,
            commits_unknown=self.commit_unknown,
        )


def parse_selection_options(options: Mapping[str, Any]) -> SelectionOptions:
    """The selection from the options that are present; raises UsageError."""
    names = [field.name for field in fields(RecordSelectionOptions) if field.name in options]
    return RecordSelectionOptions(**{name: options[name] for name in names}).selection_options


def parse_bytes_pattern(option_name: str, pattern_text: str) -> bytes:
    """Parse bytes given as a pattern; raises UsageError for a regular expression."""
    from kfmt_cli.log.selection.record_filter import parse_pattern

    pattern = parse_pattern(option_name, pattern_text)
    if not isinstance(pattern, bytes):
        raise UsageError(
            f"{option_name} {pattern_text!r}: needs an exact key, not a regular expression"
        )
    return pattern
