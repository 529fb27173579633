"""Options of check."""

from __future__ import annotations

import click

from kfmt_cli.options import completion
from kfmt_cli.options.common import (
    FINDING_OPTIONS,
    OptionalPathsOptions,
    TopicOptions,
    format_option,
    index_interval_option,
    kafka_version_option,
)
from kfmt_cli.options.declaration import command_options, option
from kfmt_cli.render.output_formats import REPORT_FORMATS


def _codes_option(help_text: str) -> tuple[str, ...]:
    """Declare a repeatable option that takes finding codes."""
    return option(
        default=(),
        metavar="CODE",
        shell_complete=completion.complete_codes,
        help=help_text,
    )


@command_options(
    "check",
    "Check everything, and predict the next broker start.",
    common=FINDING_OPTIONS,
    shows_findings=True,
)
class CheckOptions(TopicOptions, OptionalPathsOptions):
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

    format_: str = format_option(REPORT_FORMATS)
    fail_on: str = option(
        default="error",
        type=click.Choice(["error", "warning"]),
        help="Exit with 1 on findings of this severity or worse.",
    )
    only: tuple[str, ...] = _codes_option("Show only this kind of finding.")
    ignore: tuple[str, ...] = _codes_option("Hide this kind of finding.")
    throttle: float | None = option(
        default=None,
        type=click.FloatRange(min=0, min_open=True),
        metavar="MB/S",
        help="Limit the read rate, use one core, and drop the data from the page cache afterwards: "
        "for disks a broker is using.",
    )
    both: bool = option(
        default=False,
        help="Show the start after a crash and the one after a clean shutdown, not only the one "
        "that .kafka_cleanshutdown says is next.",
    )
    kafka: str | None = kafka_version_option()
    index_interval_bytes: int = index_interval_option(
        "The broker's setting; recovery rebuilds indexes with it."
    )

    @property
    def counts_warnings(self) -> bool:
        """Whether warnings lead to exit code 1."""
        return self.strict or self.fail_on == "warning"

    @property
    def n_jobs(self) -> int:
        """Number of CPU cores to use."""
        return super().n_jobs if self.throttle is None else 1
