"""Options of pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from kfmt_cli.cli.click_command import GroupedCommand
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.options.common import InputOptions
from kfmt_cli.options.declaration import argument, iter_parameters, option, options_class
from kfmt_cli.options.lake import LakeFileOptions
from kfmt_cli.options.parameter_types import ByteSizeType, parse_literal_path
from kfmt_cli.options.payload_options import DecodeOptions
from kfmt_cli.spark.jobs.registry import JOB_SPECS, JobSpec


@options_class
class ExportJobOptions(LakeFileOptions, DecodeOptions):
    """Options that the job `export` shares with the command."""


# Options that jobs share with commands.
OPTIONS_CLASS_BY_JOB: dict[str, type[Any]] = {"export": ExportJobOptions}


@options_class
class JobOptions(InputOptions):
    """PATH… and the options of every job."""

    traceback: bool = option(default=False, help="Show Spark's full output when the job fails.")
    conf: tuple[str, ...] = option(
        default=(), metavar="NAME=VALUE", help="Spark setting; may be repeated."
    )
    max_split_bytes: int = option(
        default=128 << 20,
        type=ByteSizeType(),
        show_default=False,  # click would show bytes
        help="Segment bytes per task.  [default: 128M]",
    )
    topics: str = option(default="", help="Only these topics, comma-separated.")
    dry_run: bool = option(default=False, help="Show what would be read and written, then exit.")
    patience: float = option(
        default=60,
        metavar="SECONDS",
        type=click.FloatRange(min=1),
        help="How long to wait for Spark to start, and for a cluster worker to respond.",
    )
    format_: str = option(
        "--format", default="parquet", type=click.Choice(["parquet", "json", "csv"])
    )
    master: str = option(
        default="local[*]",
        help="Spark master: local cores, a cluster such as spark://host, or a Spark Connect "
        "server, sc://host.",
    )
    to: str = option(metavar="DIR", type=parse_literal_path, help="Output directory.")
    paths: tuple[str, ...] = argument("PATH...", nargs=-1, type=parse_literal_path)


_COMMON_PARAMETERS = [
    param
    for param in iter_parameters(JobOptions)
    if param.name in ("color", "max_decompressed", "rsm_private_key", *JobOptions.__annotations__)
]
_COMMON_OPTION_NAMES = {param.name for param in _COMMON_PARAMETERS}


def _create_command(job: JobSpec) -> click.Command:
    """The command of a job, with its own options before the common ones."""

    def execute(**values: Any) -> int:
        from kfmt_cli.cli.command_output import CommandOutput
        from kfmt_cli.commands.payload_formats import payload_declarations
        from kfmt_cli.commands.pipeline.job_command import PipelineCommand
        from kfmt_cli.disk.path_resolution import RSM_PRIVATE_KEY_PATH

        RSM_PRIVATE_KEY_PATH.set(values.pop("rsm_private_key"))
        if job.name in OPTIONS_CLASS_BY_JOB:
            payload_values = {field.name: values.pop(field.name) for field in fields(DecodeOptions)}
            values["payloads"] = payload_declarations(
                DecodeOptions(**payload_values), values["paths"]
            )
        job_options = {
            name: value for name, value in values.items() if name not in _COMMON_OPTION_NAMES
        }
        output = CommandOutput(values.pop("color"))
        return PipelineCommand(job, output, FieldDict(values), job_options).run()

    own_command: Callable[..., Any] = execute
    for add_option in reversed(job.options):
        own_command = add_option(own_command)
    shared_class = OPTIONS_CLASS_BY_JOB.get(job.name)
    return GroupedCommand(
        job.name,
        callback=execute,
        params=[
            *click.command()(own_command).params,
            *(iter_parameters(shared_class) if shared_class else ()),
            *_COMMON_PARAMETERS,
        ],
        help=job.description,
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
