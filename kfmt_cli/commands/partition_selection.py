"""Selections that depend on the logs of a partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kfmt_cli.broker.log_reading.partial_logs import (
    NO_INTERVALS,
    IntervalsByPath,
    iter_blocks_in_order,
)
from kfmt_cli.commands.each_partition import iter_log_blocks
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.input_paths import InputPath
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.log.selection.selection import Selection, SelectionOptions
from kfmt_cli.render.style import escape_unprintable, format_count, format_first_ranges

MAX_SHOWN_RANGES = 10  # of offsets in a note


def resolve_selection(
    selection_options: SelectionOptions,
    logs: Sequence[InputFile],
    decompression_limit: DecompressionLimit,
    on_note: Callable[[str], None],
    user_paths: Sequence[InputPath | str],
    intervals_by_path: IntervalsByPath = NO_INTERVALS,
) -> Selection:
    """The selection for a partition; raises InputError, also if its logs are needed first and one
    is a pipe, which can be read only once.

    on_note: receives a line about transactions whose outcome damage hides. user_paths: paths that
    may have coordinators' logs with the outcome, besides the log directory. intervals_by_path: the
    offsets that are read of logs, if several replicas have the partition.
    """
    if not selection_options.needs_logs:
        return selection_options.selection
    from kfmt_cli.broker.log_reading.log_end import read_last_records_offset
    from kfmt_cli.broker.transactions.transactions import read_committed_records

    for log in logs:
        if Path(log.path).is_fifo():
            raise InputError(f"{log.name}: a pipe can be read only once")
    partial_logs = {
        log.path: intervals_by_path[log.path] for log in logs if log.path in intervals_by_path
    }
    selection = selection_options.create_partition_selection(
        lambda n_records, selection: read_last_records_offset(
            logs, n_records, selection, decompression_limit, partial_logs
        ),
        lambda: read_committed_records(
            logs,
            iter_blocks_in_order(logs, partial_logs)
            if partial_logs
            else (block for _, block in iter_log_blocks(logs)),
            user_paths=user_paths,
            commits_unknown=selection_options.commits_unknown,
        ),
    )
    if selection.committed is not None and selection.committed.unknown_transactions:
        on_note(
            format_unknown_transactions(
                logs, selection.committed.unknown_transactions, selection_options.commits_unknown
            )
        )
    return selection


def format_unknown_transactions(
    logs: Sequence[InputFile], transactions: Sequence[tuple[int, int, int]], commits_unknown: bool
) -> str:
    """A line about transactions whose outcome is unknown: producer id, first and last offset."""
    directory = logs[0].name.rpartition("/")[0] or logs[0].name
    effect_text = (
        "their records count as committed (--commit-unknown)"
        if commits_unknown
        else "their records count as aborted; --commit-unknown counts them as committed"
    )
    return (
        f"{escape_unprintable(directory)}: {format_hidden_ends(transactions)}, and neither the "
        f"files next to the logs nor a coordinator's log shows it: {effect_text}\n"
    )


def format_hidden_ends(transactions: Sequence[tuple[int, int, int]]) -> str:
    """A clause about the same transactions."""
    ranges = sorted((first, last) for _, first, last in transactions)
    return (
        f"damage hides how {format_count(len(transactions), 'transaction')} ended (offsets "
        f"{format_first_ranges(ranges, MAX_SHOWN_RANGES)})"
    )
