"""The jobs and their options. Tasks do not import this: their Python needs no click."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from kfmt_cli.formats.batch import CODECS

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Adds an option to a command."""


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job."""

    name: str
    help: str
    """Its description, in one line."""
    target: str
    """Module and function."""
    options: tuple[Option, ...] = ()
    """Its own options, in addition to the common ones."""
    table: str = "segments"
    """The table whose files are the inputs."""
    inputs: str = "kfmt_cli.arrow.inputs:files_of"
    """Module and function that list the inputs of a request."""
    prepare: str = ""
    """Module and function that look at the output directory before Spark starts."""
    forecast: str = ""
    """Module and function that say what the job would remove."""


_HERE = "kfmt_cli.spark.jobs"
_SELECTION = (
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
_EXPORT = (
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
        help="Also commit the files to tables of this format, one per directory of --to.",
        type=click.Choice(("delta", "iceberg")),
    ),
    click.option(
        "--catalog",
        help="For --table iceberg: a catalog of PyIceberg's configuration and a namespace, as "
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
    *_SELECTION,
)
_VERIFY = (
    click.option("--deep", help="Also decode every record.", is_flag=True),
    click.option("--strict", help="Also exit with 1 on warnings.", is_flag=True),
)

_RESTORE = (
    click.option(
        "--compression",
        help="Compression codec. By default as in the table of batches, else none.",
        type=click.Choice(CODECS),
    ),
)

JOBS: list[ListedJob] = [
    ListedJob(
        "segments",
        "Write one row per segment: offsets, timestamps, sizes, codecs, findings.",
        f"{_HERE}.verify:run_job",
        prepare=f"{_HERE}.verify:prepare_segments",
    ),
    ListedJob(
        "verify",
        "Check every batch; write tables of segments and findings, and a summary.",
        f"{_HERE}.verify:run_job",
        _VERIFY,
        prepare=f"{_HERE}.verify:prepare",
    ),
    ListedJob(
        "export",
        "Write records, batches or both as files, by topic and partition.",
        f"{_HERE}.export_job:run_job",
        _EXPORT,
        prepare=f"{_HERE}.export_job:prepare",
        forecast=f"{_HERE}.export_job:forecast",
    ),
    ListedJob(
        "stats",
        "Write sizes, batch fill, codecs and skew by topic, partition and producer.",
        f"{_HERE}.stats:run_job",
        table="batches",
        prepare=f"{_HERE}.stats:prepare",
    ),
    ListedJob(
        "compare",
        "Compare two copies of partitions, A and B: replicas, a backup and its source, or segments "
        "and the records exported from them.",
        f"{_HERE}.compare:run_job",
        table="batches",
        inputs=f"{_HERE}.compare:inputs_of",
        prepare=f"{_HERE}.compare:prepare",
    ),
    ListedJob(
        "find",
        "Find records: the segment, batch and byte of each.",
        f"{_HERE}.find_job:run_job",
        _SELECTION,
        table="batches",
        prepare=f"{_HERE}.find_job:prepare",
    ),
    ListedJob(
        "restore",
        "Rebuild the segments of partitions from exported records.",
        f"{_HERE}.restore:run_job",
        _RESTORE,
        table="batches",
        inputs=f"{_HERE}.restore:inputs_of",
        prepare=f"{_HERE}.restore:prepare",
    ),
]
