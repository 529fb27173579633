"""Starts Spark for `pipeline`, runs a job and reports the result."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kfmt_cli import __version__
from kfmt_cli.cli.screen import Screen
from kfmt_cli.cli.selection_options import asked_of
from kfmt_cli.core.credentials import hidden
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.lazy import load
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.render.style import count, grouped, safe
from kfmt_cli.render.tables.results import NO_DAMAGE, counted
from kfmt_cli.spark.jobs.registry import ListedJob

NOT_HERE = (
    "none of the inputs could be opened by the Spark executors. A local path must exist on every "
    "executor: put the segments on shared storage (s3://, gs://, hdfs://, NFS), or run with "
    "--master 'local[*]' on the machine that has them"
)


@dataclass(slots=True)
class PipelineCall:
    """One call of a job."""

    job: ListedJob
    screen: Screen
    options: Fields
    own: dict[str, Any]
    """Options that not every job has."""

    def run(self) -> int:
        """Run the job; returns the exit code. Raises UsageError, InputError, OutputError."""
        from kfmt_cli.spark.session import check_packages, started

        check_packages()
        from kfmt_cli.arrow.export.output import put_json, take_away_unfinished
        from kfmt_cli.spark.jobs.context import Context
        from kfmt_cli.spark.lake.lease import leased

        is_without = self.own.get("tables") == "batches"  # of KRaft snapshots
        request = replace(self._request(), table="batches" if is_without else self.job.table)
        to = self._destination()
        context = Context(None, request, to, self.options.format_, lambda _: None, self.own)
        if self.options.dry_run:
            return self._tell_plan(context)
        run_job = load(self.job.target)
        settings = dict(self._setting(option) for option in self.options.conf)
        conf = self.options.master, settings, self.options.patience
        with leased(to, self.job.name) as context.lease:
            if self.job.prepare:
                context.prepared = load(self.job.prepare)(context)
            with started(*conf) as ready:
                files = context.files = self._inputs(request)
                context.spark = ready()
                with self.screen.progress(files.n_bytes) as progress:
                    context.advance = progress.advance
                    summary = self._job(run_job, context)
            take_away_unfinished(to)
        summary.unread += [f"{path}: {why}" for path, why in files.troubles.items()]
        put_json(f"{to}/_kfmt/summary.json", self._summed_up(summary, files))
        if summary.vanished and summary.vanished >= summary.numbers.get("segments", 0):
            raise InputError(NOT_HERE)
        return self._say(summary)

    def _inputs(self, request: Any) -> Any:
        """The inputs of the job; raises InputError, UsageError."""
        return load(self.job.inputs)(request, self.screen.note, is_checked=True)

    def _tell_plan(self, context: Any) -> ExitCode:
        """Show what the job would do."""
        from kfmt_cli.arrow.dry_run import dry_run
        from kfmt_cli.sharing.piece import cut, pack
        from kfmt_cli.sharing.request import share_of

        context.is_dry = True
        if self.job.prepare:
            context.prepared = load(self.job.prepare)(context)
        context.files = self._inputs(context.request)
        files = context.inputs()
        share = share_of(context.request, files)
        plan = dry_run(files, pack(cut(files, share), share), context.to)
        removed = load(self.job.forecast)(context) if self.job.forecast else ()
        for line in (*plan[:-1], *removed, plan[-1]):
            self.screen.text(f"{safe(line)}\n")
        return ExitCode.CLEAN

    def _summed_up(self, summary: Any, files: Sequence[Any]) -> dict[str, Any]:
        """The summary of a job for programs."""
        return {
            "version": __version__,
            "job": self.job.name,
            "inputs": list(self.options.paths),
            "files": len(files),
            "numbers": summary.numbers,
            "written": summary.written,
            "unread": summary.unread,
        }

    def _say(self, summary: Any) -> ExitCode:
        """Show the result of a finished job; returns the exit code."""
        for line in summary.lines:
            self.screen.text(f"  {safe(line)}\n")
        words = [_words(name, n) for name, n in summary.numbers.items()]
        bad = summary.errors or (self.options.get("strict") and summary.numbers.get("warnings"))
        exit_code = ExitCode.FINDINGS if bad else ExitCode.CLEAN
        if summary.unread:
            exit_code = ExitCode.UNREADABLE
            words = [word for word in words if word != NO_DAMAGE]
            words.append(f"{count(len(summary.unread), 'input')} not read")
        style = "bad" if summary.errors or summary.unread else "good"
        told = self.screen.theme.paint(style, ", ".join(words))
        self.screen.text(f"{told}   exit {int(exit_code)}\n")
        for path in summary.written:
            self.screen.text(f"  {safe(path)}\n")
        for line in summary.unread:
            self.screen.note(f"kfmt: {safe(line)}\n")
        return exit_code

    def _job(self, run_job: Callable[[Any], Any], context: Any) -> Any:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from kfmt_cli.spark.session import reason

        try:
            return run_job(context)
        except (PySparkException, Py4JError) as error:
            why = hidden(reason(error))
            if self.options.traceback:
                self.screen.note(
                    "".join(f"{safe(line)}\n" for line in hidden(str(error)).splitlines())
                )
                raise InputError(f"job failed: {why}") from error
            again = hidden(shlex.join(["kfmt", *sys.argv[1:], "--traceback"]))
            raise InputError(f"job failed: {why}; for the full traceback, run: {again}") from error

    def _request(self) -> Any:
        """The request from the options; raises UsageError."""
        from kfmt_cli.arrow.export.file_formats import FILE_FORMATS
        from kfmt_cli.core.codecs.decompress import Limit
        from kfmt_cli.sharing.request import Request, request_with
        from kfmt_cli.topics.payloads import NOTHING_SAID

        options = self.options
        columns = options.get("columns") or ""
        if columns and not FILE_FORMATS[options.format_].takes_columns:
            raise UsageError("--columns applies only to Parquet files")
        request = Request(
            asked=asked_of(options),
            max_split=options.max_split_bytes,
            limit=Limit.of_option(options.max_decompressed),
            deep=options.get("deep", False),
            payloads=options.get("payloads", NOTHING_SAID),
        )
        return request_with(request, options.paths, columns, options.topics)

    def _destination(self) -> str:
        """Where to write: a URL, or an absolute path, which is valid in every process."""
        from kfmt_cli.writing.output import need_apart

        to: str = self.options.to
        if "://" in to:
            return to
        if Path(to).exists() and not Path(to).is_dir():
            raise UsageError(f"{to}: exists and is not a directory")
        need_apart(to, self.options.paths)
        return str(Path(to).absolute())

    @staticmethod
    def _setting(text: str) -> tuple[str, str]:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--conf {text!r} is not NAME=VALUE")
        return name, value


def _words(name: str, n: int) -> str:
    if name == "damaged":
        return f"{grouped(n)} damaged" if n else NO_DAMAGE
    return counted(n, name)
