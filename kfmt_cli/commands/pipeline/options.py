"""Options of pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.lake_options import add_lake_options
from kfmt_cli.cli.options import (
    COMMON_OPTIONS,
    ByteSizeType,
    add_options,
    parse_literal_path,
    private_key_option,
)
from kfmt_cli.cli.payload_options import add_decode_options
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.spark.jobs.registry import JOB_SPECS, JobSpec

# Options that jobs share with commands.
OPTION_DECORATORS_BY_JOB: dict[str, tuple[Callable[..., Any], ...]] = {
    "export": (add_lake_options, add_decode_options)
}


# PATH… and the options of every job.
_JOB_OPTIONS = (
    COMMON_OPTIONS["max-decompressed"],
    COMMON_OPTIONS["color"],
    private_key_option,
    click.option("--traceback", is_flag=True, help="Show Spark's full output when the job fails."),
    click.option(
        "--conf", multiple=True, metavar="NAME=VALUE", help="Spark setting; may be repeated."
    ),
    click.option(
        "--max-split-bytes",
        type=ByteSizeType(),
        default="128M",
        show_default=True,
        help="Segment bytes per task.",
    ),
    click.option("--topics", default="", help="Only these topics, comma-separated."),
    click.option("--dry-run", is_flag=True, help="Show what would be read and written, then exit."),
    click.option(
        "--patience",
        metavar="SECONDS",
        type=click.FloatRange(min=1),
        default=60,
        show_default=True,
        help="How long to wait for Spark to start, and for a cluster worker to respond.",
    ),
    click.option(
        "--format",
        "format_",
        type=click.Choice(["parquet", "json", "csv"]),
        default="parquet",
        show_default=True,
    ),
    click.option(
        "--master",
        default="local[*]",
        show_default=True,
        help="Spark master: local cores, a cluster such as spark://host, or a Spark Connect "
        "server, sc://host.",
    ),
    click.option(
        "--to", required=True, metavar="DIR", type=parse_literal_path, help="Output directory."
    ),
    click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=parse_literal_path),
)
_COMMON_OPTION_NAMES = frozenset(
    param.name for param in click.command(add_options(lambda: 0, _JOB_OPTIONS)).params
)


def _create_command(job: JobSpec) -> click.Command:
    """The command of a job, with its own options before the common ones."""

    def run_job_command(**options: Any) -> int:
        from kfmt_cli.cli.command_output import CommandOutput
        from kfmt_cli.commands.pipeline.job_command import PipelineCommand

        job_options = {
            name: value for name, value in options.items() if name not in _COMMON_OPTION_NAMES
        }
        return PipelineCommand(
            job, CommandOutput(options.pop("color")), FieldDict(options), job_options
        ).run()

    command_callback = add_options(run_job_command, _JOB_OPTIONS)
    for add_shared_options in OPTION_DECORATORS_BY_JOB.get(job.name, ()):
        command_callback = add_shared_options(command_callback)
    return grouped_command(job.name, help=job.description)(
        add_options(command_callback, job.options)
    )


class JobCommandGroup(click.Group):
    """The jobs of the registry as commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [job.name for job in JOB_SPECS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        return next((_create_command(job) for job in JOB_SPECS if job.name == cmd_name), None)


@click.group(
    name="pipeline", cls=JobCommandGroup, short_help="Decode, check and export with Spark."
)
def pipeline() -> None:
    """Decode, check and export thousands of segments with Spark.

    Runs on one machine with only Java 17 installed; the default master is local. A stopped job
    resumes when you run it again and skips finished inputs. Needs pip install 'kfmt-cli[spark]'.
    See docs/spark.md.

    \b
    Examples:
      kfmt pipeline verify sample_segments/kafka-3.9.1-broker1 --to DST
      kfmt pipeline export sample_segments/kafka-3.9.1-broker1/orders-0 --to DST --format json
    """
