"""The jobs on Spark. To add one, write a file with `run_job(context)` and add a line to `JOBS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.lazy import load
from kfmt_cli.formats.batch import CODECS


@dataclass(frozen=True, slots=True)
class JobOption:
    """An option of a job."""

    flag: str
    help: str
    is_flag: bool = False
    is_list: bool = False
    """Whether it may be repeated."""
    type: type = str
    choices: tuple[str, ...] = ()
    """The valid values; empty for any text."""
    default: str | None = None

    @property
    def name(self) -> str:
        """Its key in `Context.options`."""
        return self.flag.removeprefix("--").replace("-", "_")


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job."""

    name: str
    help: str
    """Its description, in one line."""
    target: str
    """Module and function."""
    options: tuple[JobOption, ...] = ()
    """Its own options, in addition to the common ones."""
    table: str = "segments"
    """The table whose files are the inputs."""
    inputs: str = "kfmt_cli.arrow.inputs:files_of"
    """Module and function that list the inputs of a request."""
    prepare: str = ""
    """Module and function that look at the output directory before Spark starts."""
    forecast: str = ""
    """Module and function that say what the job would remove."""

    def load(self) -> Callable[[Any], Any]:
        """Import its function."""
        run: Callable[[Any], Any] = load(self.target)
        return run


_HERE = "kfmt_cli.spark.jobs"
_SELECTION = (
    JobOption("--from-offset", "Skip records before this offset.", type=int),
    JobOption("--to-offset", "Skip records after this offset.", type=int),
    JobOption(
        "--from-time", "Skip records older than this: ISO 8601 in UTC, now-1h or milliseconds."
    ),
    JobOption("--to-time", "Skip records newer than this."),
    JobOption(
        "--key",
        "Only records with this key: text, ~REGEX, or a prefixed value such as int:5 or hex:….",
    ),
    JobOption("--value", "Only records with this value; same syntax as --key."),
    JobOption(
        "--header",
        "Only records with this header: NAME or NAME=VALUE, same syntax as --key; may be repeated.",
        is_list=True,
    ),
    JobOption("--producer-id", "Only records from this producer id.", type=int),
    JobOption("--last", "Only the last N of these records in each partition.", type=int),
    JobOption(
        "--isolation",
        "read_committed: skip aborted transactions, and stop at the first open one.",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
    ),
)
_EXPORT = (
    JobOption(
        "--mode",
        "append: keep rows whose input is gone. sync: remove them. replace: keep only rows of "
        "these inputs.",
        choices=("append", "sync", "replace"),
        default="append",
    ),
    JobOption(
        "--table",
        "Also commit the files to tables of this format, one per directory of --to.",
        choices=("delta", "iceberg"),
    ),
    JobOption(
        "--catalog",
        "For --table iceberg: a catalog of PyIceberg's configuration and a namespace, as "
        "CATALOG.NAMESPACE. A local --to has its own catalog by default.",
    ),
    JobOption(
        "--tables",
        "Tables to write.",
        choices=("records", "batches", "records,batches"),
        default="records",
    ),
    JobOption("--columns", "Record columns, comma-separated (Parquet only).", default=""),
    *_SELECTION,
)
_VERIFY = (
    JobOption("--deep", "Also decode every record.", is_flag=True),
    JobOption("--strict", "Also exit with 1 on warnings.", is_flag=True),
)

_RESTORE = (
    JobOption(
        "--compression",
        "Compression codec. By default as in the table of batches, else none.",
        choices=CODECS,
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
