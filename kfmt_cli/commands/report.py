"""What a page of `report` shows: what `check`, `stat`, `txn`, `retention` and `state` say.

Each is run as on the command line, so that the numbers of the page are theirs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli import __version__
from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
from kfmt_cli.broker.placement import GROUPS
from kfmt_cli.commands.answer import Collected, Nobody
from kfmt_cli.commands.check.checked_directory import CHECK_RESULT
from kfmt_cli.commands.check.command import CheckPaths
from kfmt_cli.commands.codec_trial import SAMPLE, Codec
from kfmt_cli.commands.internal import partitions_of
from kfmt_cli.commands.log_settings import SettingsOf
from kfmt_cli.commands.retention import Retention
from kfmt_cli.commands.run import Host, Progress, Run
from kfmt_cli.commands.shapes import Strips
from kfmt_cli.commands.stat import PARTITION, TOPIC, Stat
from kfmt_cli.commands.state import ShowState, Wanted
from kfmt_cli.commands.txn import ShowTransactions
from kfmt_cli.core.codecs.compress import COMPRESSORS
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.json_text import json_text
from kfmt_cli.disk.partitions import partitions_below
from kfmt_cli.disk.tree import printable
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.render.report.charts import runtime
from kfmt_cli.render.report.document import document
from kfmt_cli.render.report.page_data import PageData
from kfmt_cli.render.style import human
from kfmt_cli.rows.documents import FINDING, FINDINGS_LEFT_OUT
from kfmt_cli.rows.result import ResultType
from kfmt_cli.rows.section import Object
from kfmt_cli.rows.shapes import PAGE
from kfmt_cli.writing.output import OutputFile, Staging, staged

CELLS = 16_000  # of the strips of all logs
MOST_STRIPS = 1_500
TRIED_BYTES = 16 << 20  # of all partitions, that other codecs are tried on
LEAST_TRIED = 64 << 10  # of each partition

# What replaying the topics of a cluster gives that is on no page.
_KEPT_STATE = frozenset({"group", "committed_offset"})


class _Kept(Collected):
    """Keeps the objects of a command for a page."""

    def __init__(self, out: Nobody, data: PageData, keeps: Callable[[Object], bool]) -> None:
        super().__init__(out)
        self._data = data
        self._keeps = keeps

    def line(self, row: Object) -> str:
        if self._keeps(row):
            self._data.keep(row)
        return ""

    def remark(self, words: str, style: str = "dim") -> None:
        del style
        self._data.answers.append(words)


class _Quiet(Nobody):
    """A host that shows nothing but progress."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host

    def progress(
        self, total: int | None, *, beside_rows: bool = False
    ) -> AbstractContextManager[Progress]:
        return self._host.progress(total, beside_rows=beside_rows)


@dataclass(frozen=True, slots=True)
class Gathering:
    """Where a page's data come from, and how."""

    host: Host
    settings: SettingsOf
    now: int
    """In milliseconds."""
    jobs: int = 1
    limit: Limit = field(default_factory=Limit)

    def gather(self, paths: tuple[str, ...]) -> PageData:
        """The data of some paths; raises UsageError."""
        data = PageData()
        self._run(data, lambda run: self._check(run, paths), CHECK_RESULT, keeps=lambda _: True)
        checked, data.answers = data.answers, []
        self._run(data, lambda run: self._stat(run, paths, data))
        self._run(data, lambda run: self._txn(run, paths, data), keeps=_is_of_transactions)
        self._run(data, lambda run: Retention(run, self.settings, self.now).paths(paths))
        offsets = [
            partition
            for partition in partitions_of(paths, None, lambda _: None)
            if partition.topic == GROUPS
        ]
        self._run(
            data,
            lambda run: ShowState(run, Wanted(), self.limit).show(offsets),
            keeps=lambda row: row["type"] in _KEPT_STATE,
        )
        data.answers = checked
        about(data, paths)
        return data

    def _run(
        self,
        data: PageData,
        command: Callable[[Run], object],
        type_: ResultType | None = None,
        keeps: Callable[[Object], bool] | None = None,
    ) -> None:
        """Run a command for what it says. keeps: whether an object is kept; without it, all but
        findings, which `check` gives."""
        host = _Quiet(self.host)
        sink = _Kept(host, data, keeps or _is_no_finding)
        command(Run(host, sink, type_))
        sink.flush()
        for words in host.notes:
            data.tell(words)
        data.exit_code = max(data.exit_code, host.exit_code)

    def _check(self, run: Run, paths: tuple[str, ...]) -> None:
        CheckPaths(run, self.jobs, self.limit, INDEX_INTERVAL_BYTES).paths(paths)

    def _stat(self, run: Run, paths: tuple[str, ...], data: PageData) -> None:
        found = frozenset(str(row["file"]) for row in data.of("finding"))
        n_partitions = max(len(data.of("partition")), 1)
        task = Stat(
            run,
            (PARTITION, TOPIC),
            what_if=tuple(map(Codec, COMPRESSORS)),
            jobs=self.jobs,
            limit=self.limit,
            plot=True,
            strips=Strips(CELLS, MOST_STRIPS, first=found),
            codec_sample=min(max(TRIED_BYTES // n_partitions, LEAST_TRIED), SAMPLE),
        )
        task.paths(paths)

    def _txn(self, run: Run, paths: tuple[str, ...], data: PageData) -> None:
        """Transactions are only looked for where there are batches of some."""
        named = {
            row["file"]
            for row in data.partitions
            if row["transactional_batches"] or row["control_batches"]
        }
        task = ShowTransactions(run)
        for partition in partitions_below(paths, lambda _: None, lambda _: None):
            if partition.name in named:
                try:
                    task.partition(partition)
                except InputError as error:
                    run.complain(str(error))


def _is_no_finding(row: Object) -> bool:
    return row["type"] not in (FINDING.name, FINDINGS_LEFT_OUT.name)


def _is_of_transactions(row: Object) -> bool:
    """Whether it is more than that a partition has no transactions."""
    if row["type"] != "transactions":
        return _is_no_finding(row)
    return bool(row["committed"] or row["aborted"] or row["open"])


def about(data: PageData, paths: tuple[str, ...]) -> None:
    """Put what the page is about, once all else is there."""
    rows = data.partitions
    data.put(
        PAGE,
        {
            "paths": list(paths),
            "version": __version__,
            "made_at": int(time.time() * 1000),
            "topics": len({row["topic"] for row in rows}),
            "partitions": len(rows),
            **{name: sum(_number(row, name) for row in rows) for name in _SUMS},
            "min_timestamp": _extreme(min, rows, "min_timestamp"),
            "max_timestamp": _extreme(max, rows, "max_timestamp"),
            "answers": data.answers,
            "left_out": dict(data.left_out),
            "said": data.said,
        },
    )


_SUMS = ("segments", "bytes", "records")


def _number(row: Object, name: str) -> int:
    value = row[name]
    return value if isinstance(value, int) else 0


def _extreme(of: Callable[[list[int]], int], rows: list[Object], name: str) -> int | None:
    known = [value for row in rows if isinstance(value := row[name], int)]
    return of(known) if known else None


def write_page(
    run: Run,
    gather: Callable[[], PageData],
    to: str,
    data_to: str | None,
    inputs: Sequence[str],
    *,
    force: bool = False,
) -> None:
    """Write the page of what is gathered, and its data where that is asked for; neither of them
    appears unless both are whole. inputs: paths below which nothing is written. Raises UsageError,
    OutputError."""
    outputs = [path for path in (to, data_to) if path is not None]
    if len(set(map(os.path.abspath, outputs))) < len(outputs):
        raise UsageError(f"{to}: the page and its data cannot be one file")
    for path in outputs:
        _need_apart(path, inputs)
        _need_ours(path)
    with ExitStack() as stack, ThreadPoolExecutor(1) as aside:
        stagings: dict[str, Staging] = {}
        for path in outputs:
            folder = os.path.dirname(path) or os.curdir  # noqa: PTH120 (as it was given)
            if folder not in stagings:
                stagings[folder] = stack.enter_context(staged(folder, force))
                run.left_over(stagings[folder].left_over)
        files = [_begun(stack, stagings, path) for path in outputs]
        script = aside.submit(runtime)  # takes a second, in which files are read
        data = gather()
        run.host.reached(data.exit_code)
        for words in data.said:
            run.sink.note(f"{words}\n")
        if data.exit_code is ExitCode.UNREADABLE and not data.partitions:
            for staging in stagings.values():
                staging.refuse()
            return
        lines = ",\n".join(map(json_text, data.objects()))
        contents = (document(data, script.result), f"[\n{lines}\n]\n")
        for file, words in zip(files, contents, strict=False):  # there may be no data
            file.write(words.encode("utf-8", "backslashreplace"))
            file.close()
    for file in files:
        run.sink.put(f"{file.path}  {human(file.size)}\n")
    run.sink.flush()


# How files begin that are replaced when that is asked for.
_OURS = (b"<!doctype html>", b'[\n{"type":"report"')


def _need_apart(path: str, inputs: Sequence[str]) -> None:
    """Raises UsageError for an output among what is looked at, which is never changed."""
    place = Path(path).resolve()
    for given in inputs:
        looked_at = Path(given).resolve()
        if place == looked_at or looked_at in place.parents:
            words = f"lies in {printable(given)}, in which nothing is written"
            raise UsageError(f"{path}: {words}; choose another place")


def _need_ours(path: str) -> None:
    """Raises UsageError for what is there and is neither a page nor its data."""
    if not os.path.basename(path) or Path(path).is_dir():  # noqa: PTH119 (as it was given)
        raise UsageError(f"{path}: is a directory; give the name of a file")
    if Path(path).is_file():
        with Path(path).open("rb") as there:
            begins = there.read(len(max(_OURS, key=len)))
        if not begins.startswith(_OURS):
            raise UsageError(f"{path}: is there already, and is no page; choose another name")


def _begun(stack: ExitStack, stagings: Mapping[str, Staging], path: str) -> OutputFile:
    """A file that appears with its folder; raises UsageError where one is there already."""
    folder, name = os.path.split(path)
    file = stagings[folder or os.curdir].file(name)
    stack.callback(file.abandon)
    return file
