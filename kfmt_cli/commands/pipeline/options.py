"""Options of pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kfmt_cli.cli.grouped_options import command
from kfmt_cli.cli.lake_options import lake
from kfmt_cli.cli.options import COMMON, Size, private_key, stored_path, with_options
from kfmt_cli.cli.payload_options import decoded
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.spark.jobs.registry import JOBS, ListedJob

# Options that jobs share with commands.
SHARED: dict[str, tuple[Callable[..., Any], ...]] = {"export": (lake, decoded)}


# PATH… and the options of every job.
_OPTIONS = (
    COMMON["max-decompressed"],
    COMMON["color"],
    private_key,
    click.option("--traceback", is_flag=True, help="Show Spark's full output when the job fails."),
    click.option(
        "--conf", multiple=True, metavar="NAME=VALUE", help="Spark setting; may be repeated."
    ),
    click.option(
        "--max-split-bytes",
        type=Size(),
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
    click.option("--to", required=True, metavar="DIR", type=stored_path, help="Output directory."),
    click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=stored_path),
)
_COMMON = frozenset(param.name for param in click.command(with_options(lambda: 0, _OPTIONS)).params)


def _command(job: ListedJob) -> click.Command:
    """The command of a job, with its own options before the common ones."""

    def call(**options: Any) -> int:
        from kfmt_cli.cli.screen import Screen
        from kfmt_cli.commands.pipeline.pipelining import PipelineCall

        own = {name: value for name, value in options.items() if name not in _COMMON}
        return PipelineCall(job, Screen(options.pop("color")), Fields(options), own).run()

    function = with_options(call, _OPTIONS)
    for decorate in SHARED.get(job.name, ()):
        function = decorate(function)
    return command(job.name, help=job.help)(with_options(function, job.options))


class Jobs(click.Group):
    """The jobs of the registry as commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [job.name for job in JOBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        return next((_command(job) for job in JOBS if job.name == cmd_name), None)


@click.group(name="pipeline", cls=Jobs, short_help="Decode, check and export with Spark.")
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
