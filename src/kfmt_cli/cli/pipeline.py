"""pipeline: the same decoding on Spark, for as many segments as there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kfmt_cli.cli.options import Size, color, max_decompressed, strict


def _common(function: Callable[..., Any]) -> Callable[..., Any]:
    """PATH… and the options of every job."""
    for decorate in (
        click.argument("paths", nargs=-1, required=True, metavar="PATH..."),
        click.option("--to", required=True, metavar="DIR", help="Where the results go."),
        click.option(
            "--master",
            default="local[*]",
            show_default=True,
            help="Spark's master: all cores of this machine, or a cluster such as spark://host.",
        ),
        click.option(
            "--format",
            "format_",
            type=click.Choice(["parquet", "json", "csv"]),
            default="parquet",
            show_default=True,
        ),
        click.option("--topics", default="", help="Only these, with commas between them."),
        click.option(
            "--max-split-bytes",
            type=Size(),
            default="128M",
            show_default=True,
            help="Bytes of segments for one task.",
        ),
        click.option(
            "--conf",
            multiple=True,
            metavar="NAME=VALUE",
            help="A setting of Spark's; may be repeated.",
        ),
        click.option(
            "--traceback", is_flag=True, help="Show all that Spark says when the job fails."
        ),
        color,
        max_decompressed,
    ):
        function = decorate(function)
    return function


@click.group(name="pipeline")
def pipeline() -> None:
    """Decode, check and export thousands of segments on Spark.

    Works on one machine with nothing to set up but Java 17: the default master is this machine. A
    job that is stopped goes on where it was when it is called again; inputs that are done are
    skipped. Needs pip install 'kfmt-cli[spark]'. See docs/spark.md.

    \b
    Examples:
      kfmt pipeline verify sample_segments/kafka-3.9.1-broker1 --to DST
      kfmt pipeline export sample_segments/kafka-3.9.1-broker1/orders-0 --to DST --format json
    """


@pipeline.command()
@_common
def segments(**options: Any) -> int:
    """One row a segment: offsets, times, sizes, codecs, findings."""
    return _run("segments", options)


@pipeline.command()
@click.option("--deep", is_flag=True, help="Decode every record, too.")
@strict
@_common
def verify(**options: Any) -> int:
    """Check every batch; tables of segments and findings, a summary."""
    return _run("verify", options)


@pipeline.command()
@click.option(
    "--tables",
    type=click.Choice(["records", "batches", "records,batches"]),
    default="records",
    show_default=True,
)
@click.option("--columns", default="", help="Columns of the records, with commas (Parquet only).")
@click.option("--from-offset", type=int, help="Leave out what comes before this offset.")
@click.option("--to-offset", type=int, help="Leave out what comes after this offset.")
@click.option("--from-time", help="Leave out what is older: ISO-8601 in UTC, or milliseconds.")
@click.option("--to-time", help="Leave out what is younger.")
@_common
def export(**options: Any) -> int:
    """Write records, batches or both as files, by topic and partition."""
    return _run("export", options)


@pipeline.command()
@_common
def stats(**options: Any) -> int:
    """Sizes, batch fill, codecs and skew by topic, partition and producer."""
    return _run("stats", options)


def _run(job: str, options: dict[str, Any]) -> int:
    from kfmt_cli.cli.pipelining import Task
    from kfmt_cli.cli.screen import Screen

    return Task(job, Screen(options.pop("color")), options).run()
