"""The jobs and their options. Tasks do not import this: their Python needs no click."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from kfmt_cli.formats.batch import CODECS
from kfmt_cli.options.common import ALL_REPLICAS_HELP

OptionDecorator = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Adds an option to a command."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job."""

    name: str
    description: str
    """Its description, in one line."""
    run_function: str
    """Module and function."""
    options: tuple[OptionDecorator, ...] = ()
    """Its own options, in addition to the common ones."""
    listing_table: str = "segments"
    """The table whose files are the inputs."""
    inputs_function: str = "kfmt_cli.arrow.input_files:list_input_files"
    """Module and function that list the inputs of a request."""
    prepare_function: str = ""
    """Module and function that check the output directory before Spark starts."""
    forecast_function: str = ""
    """Module and function that describe what the job would remove."""


_PACKAGE = "kfmt_cli.spark.jobs"
_SELECTION_OPTIONS = (
    click.option("--from-offset", help="Skip records before this offset.", type=int),
    click.option("--to-offset", help="Skip records after this offset.", type=int),
    click.option(
        "--from-time",
        help="Skip records older than this: ISO 8601 in UTC, now-1h or milliseconds.",
    ),
    click.option("--to-time", help="Skip records newer than this."),
    click.option(
        "--key",
        help="Only records with this key: text, ~REGEX, or a prefixed value such as int:5 or "
        "hex:….",
    ),
    click.option("--value", help="Only records with this value; same syntax as --key."),
    click.option(
        "--header",
        help="Only records with this header: NAME or NAME=VALUE, same syntax as --key; may be "
        "repeated.",
        multiple=True,
    ),
    click.option("--producer-id", help="Only records from this producer id.", type=int),
    click.option(
        "--last", help="Start at the N-th last of these records in each partition.", type=int
    ),
    click.option(
        "--isolation",
        help="read_committed: skip aborted transactions, and stop at the first open one.",
        type=click.Choice(("read_uncommitted", "read_committed")),
        default="read_uncommitted",
        show_default=True,
    ),
)
_ALL_REPLICAS_OPTION = click.option(
    "--all-replicas",
    help=ALL_REPLICAS_HELP,
    is_flag=True,
)
_EXPORT_OPTIONS = (
    click.option(
        "--mode",
        help="append: keep rows whose input is gone. sync: remove them. replace: keep only rows of "
        "these inputs.",
        type=click.Choice(("append", "sync", "replace")),
        default="append",
        show_default=True,
    ),
    click.option(
        "--table",
        help="Also commit the files to tables of this format, one per directory of --to. They "
        "have no partition columns, whatever --partition-by is.",
        type=click.Choice(("delta", "iceberg")),
    ),
    click.option(
        "--catalog",
        help="For --table iceberg: a catalog from the PyIceberg configuration and a namespace, as "
        "CATALOG.NAMESPACE. A local --to has its own catalog by default.",
    ),
    click.option(
        "--tables",
        help="Tables to write.",
        type=click.Choice(("records", "batches", "records,batches")),
        default="records",
        show_default=True,
    ),
    click.option("--columns", help="Record columns, comma-separated (Parquet only).", default=""),
    _ALL_REPLICAS_OPTION,
    *_SELECTION_OPTIONS,
)
_VERIFY_OPTIONS = (
    click.option("--deep", help="Also decode every record.", is_flag=True),
    click.option("--strict", help="Also exit with 1 on warnings.", is_flag=True),
)

_RESTORE_OPTIONS = (
    click.option(
        "--compression",
        help="Compression codec. By default as in the table of batches, else none.",
        type=click.Choice(CODECS),
    ),
)

JOB_SPECS: list[JobSpec] = [
    JobSpec(
        "segments",
        "Write one row per segment: offsets, timestamps, sizes, codecs, findings.",
        f"{_PACKAGE}.verify:run_job",
        prepare_function=f"{_PACKAGE}.verify:prepare_segments",
    ),
    JobSpec(
        "verify",
        "Check every batch; write tables of segments and findings, and a summary.",
        f"{_PACKAGE}.verify:run_job",
        _VERIFY_OPTIONS,
        prepare_function=f"{_PACKAGE}.verify:prepare",
    ),
    JobSpec(
        "export",
        "Write records, batches or both as files, by topic and partition.",
        f"{_PACKAGE}.export_job:run_job",
        _EXPORT_OPTIONS,
        prepare_function=f"{_PACKAGE}.export_job:prepare",
        forecast_function=f"{_PACKAGE}.export_job:forecast",
    ),
    JobSpec(
        "stats",
        "Write sizes, batch fill, codecs and skew by topic, partition and producer.",
        f"{_PACKAGE}.stats:run_job",
        (_ALL_REPLICAS_OPTION,),
        listing_table="batches",
        prepare_function=f"{_PACKAGE}.stats:prepare",
    ),
    JobSpec(
        "compare",
        "Compare two copies of partitions, A and B: replicas, a backup and its source, or segments "
        "and the records exported from them.",
        f"{_PACKAGE}.compare:run_job",
        listing_table="batches",
        inputs_function=f"{_PACKAGE}.compare:list_inputs",
        prepare_function=f"{_PACKAGE}.compare:prepare",
    ),
    JobSpec(
        "find",
        "Find records: the segment, batch and byte of each.",
        f"{_PACKAGE}.find_job:run_job",
        (_ALL_REPLICAS_OPTION, *_SELECTION_OPTIONS),
        listing_table="batches",
        prepare_function=f"{_PACKAGE}.find_job:prepare",
    ),
    JobSpec(
        "restore",
        "Rebuild the segments of partitions from exported records.",
        f"{_PACKAGE}.restore:run_job",
        _RESTORE_OPTIONS,
        listing_table="batches",
        inputs_function=f"{_PACKAGE}.restore:list_inputs",
        prepare_function=f"{_PACKAGE}.restore:prepare",
    ),
]
