"""Options of check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kfmt_cli.cli import completion
from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import (
    CommonOptions,
    common_options,
    index_interval_option,
    kafka_version_option,
    optional_paths_argument,
)

if TYPE_CHECKING:
    from kfmt_cli.broker.version import PredictedVersion

Command = TypeVar("Command", bound=Callable[..., Any])


def _codes_option(option_name: str, help_: str) -> Callable[[Command], Command]:
    """A repeatable option that takes finding codes."""
    return click.option(
        option_name,
        multiple=True,
        metavar="CODE",
        shell_complete=completion.complete_codes,
        help=help_,
    )


@grouped_command(short_help="Check everything, and predict the next broker start.")
@optional_paths_argument
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="Exit with 1 on findings of this severity or worse.",
)
@_codes_option("--only", "Show only this kind of finding.")
@_codes_option("--ignore", "Hide this kind of finding.")
@click.option(
    "--throttle",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MB/S",
    help="Limit the read rate, use one core, and drop the data from the page cache afterwards: for "
    "disks a broker is using.",
)
@kafka_version_option
@index_interval_option("The broker's setting; recovery rebuilds indexes with it.")
@common_options(
    *("all", "notes", "wide", "report-format", "color"),
    *("strict", "max-findings", "jobs", "max-decompressed"),
)
def check(
    paths: tuple[str, ...],
    fail_on: str,
    only: tuple[str, ...],
    ignore: tuple[str, ...],
    throttle: float | None,
    index_interval_bytes: int,
    kafka: PredictedVersion | None,
    common: CommonOptions,
) -> int:
    """Check everything about a partition, log directory or broker that can be verified offline;
    without PATH, the current directory.

    Checks batches and records, segments relative to each other, indexes, producer snapshots and
    transactions, leader epochs, checkpoints, names and leftover files. For each partition, predicts
    what a broker does with it after a crash and after a clean shutdown: whether it starts, the log
    end offset, which files it truncates or deletes, and which offsets are lost or unreachable.
    Predictions are for one version of Kafka, which the last line names.

    \b
    Examples:
      kfmt check sample_segments/kafka-3.9.1-broker1
      kfmt check damaged_segments/flipped-bit-0
      kfmt check damaged_segments --format sarif
    """
    from kfmt_cli.commands.check.command import CheckCommand, code_filter
    from kfmt_cli.commands.check.directory_result import CHECK_RESULT
    from kfmt_cli.core.throttle import READ_THROTTLE

    is_shown_code = code_filter(only, ignore)
    run = replace(common, strict=common.strict or fail_on == "warning").start_run(
        CHECK_RESULT, shows_findings=True
    )
    command = CheckCommand(
        run,
        common.jobs if throttle is None else 1,
        common.decompression_limit,
        index_interval_bytes,
        kafka,
        common.max_findings,
        is_shown_code,
    )
    with READ_THROTTLE.limit_rate(None if throttle is None else int(throttle * 1_000_000)):
        return command.check_and_show_paths(paths or (".",))
