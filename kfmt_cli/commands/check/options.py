"""Options of check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kfmt_cli.cli import completion
from kfmt_cli.cli.grouped_options import command
from kfmt_cli.cli.options import Common, common, index_interval, kafka_version, optional_paths

if TYPE_CHECKING:
    from kfmt_cli.broker.version import PredictedFor

F = TypeVar("F", bound=Callable[..., Any])


def _of_codes(option: str, help_: str) -> Callable[[F], F]:
    """A repeatable option that takes finding codes."""
    return click.option(
        option, multiple=True, metavar="CODE", shell_complete=completion.codes, help=help_
    )


@command(short_help="Check everything, and predict the next broker start.")
@optional_paths
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="Exit with 1 on findings of this severity or worse.",
)
@_of_codes("--only", "Show only this kind of finding.")
@_of_codes("--ignore", "Hide this kind of finding.")
@click.option(
    "--throttle",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MB/S",
    help="Limit the read rate, use one core, and drop the data from the page cache afterwards: for "
    "disks a broker is using.",
)
@kafka_version
@index_interval("The broker's setting; recovery rebuilds indexes with it.")
@common(
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
    kafka: PredictedFor | None,
    common: Common,
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
    from kfmt_cli.commands.check.checked_directory import CHECK_RESULT
    from kfmt_cli.commands.check.command import CheckPaths, of_codes
    from kfmt_cli.core.throttle import PACE

    takes = of_codes(only, ignore)
    run = replace(common, strict=common.strict or fail_on == "warning").run(
        CHECK_RESULT, finds=True
    )
    task = CheckPaths(
        run,
        common.jobs if throttle is None else 1,
        common.limit,
        index_interval_bytes,
        kafka,
        common.max_findings,
        takes,
    )
    with PACE.limited(None if throttle is None else int(throttle * 1_000_000)):
        return task.paths(paths or (".",))
