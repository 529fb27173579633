"""Collects the data of a `report` page from `check`, `stat`, `txn`, `retention` and `state`.

Each runs as on the command line, so that the page shows the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from kfmt_cli import __version__
from kfmt_cli.broker.cluster.placement import GROUPS
from kfmt_cli.broker.version import PredictedFor
from kfmt_cli.commands.check.checked_directory import CHECK_RESULT
from kfmt_cli.commands.check.command import CheckPaths
from kfmt_cli.commands.check.show import show
from kfmt_cli.commands.log_settings import SettingsOf
from kfmt_cli.commands.python.python_answer import Nobody
from kfmt_cli.commands.replicas.advice import answers
from kfmt_cli.commands.replicas.command import CompareDisks
from kfmt_cli.commands.replicas.show import put_rows
from kfmt_cli.commands.report.page.page_data import PageData
from kfmt_cli.commands.retention.command import Retention
from kfmt_cli.commands.run import Host, Progress, Run
from kfmt_cli.commands.stat.codec_trial import Codec
from kfmt_cli.commands.stat.command import PARTITION, TOPIC, Stat
from kfmt_cli.commands.stat.log_shapes import CountedLogs, with_strips
from kfmt_cli.commands.state.command import ShowState, Wanted
from kfmt_cli.commands.state.internal_topics import partitions_of
from kfmt_cli.commands.txn.command import ShowTransactions
from kfmt_cli.core.codecs.compress import COMPRESSORS
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.times import now_ms
from kfmt_cli.disk.partitions import Partition, partitions_below
from kfmt_cli.disk.targets import GivenPath, listed
from kfmt_cli.render.sinks.objects import ObjectSink
from kfmt_cli.render.start_lines import NextStep, step_lines
from kfmt_cli.render.style import PLAIN
from kfmt_cli.rows.documents import FINDING, FINDINGS_LEFT_OUT
from kfmt_cli.rows.json_shapes import VERSION
from kfmt_cli.rows.result import ResultType
from kfmt_cli.rows.section import Object
from kfmt_cli.rows.types.shapes import PAGE, SEGMENT_STRIP

TRIED_BYTES = 16 << 20  # to try other codecs on, over all partitions

# Replayed rows that the page needs.
_KEPT_STATE = frozenset({"group", "committed_offset"})


class _Kept(ObjectSink):
    """Collects a command's objects and answers for a page."""

    def __init__(self, out: Nobody, data: PageData, keeps: Callable[[Object], bool]) -> None:
        super().__init__(out)
        self._data = data
        self._keeps = keeps

    def line(self, row: Object) -> str:
        if self._keeps(row):
            self._data.keep(row)
        return ""

    def answer(self, words: str) -> None:
        self._data.answers.append(words)

    def next_steps(self, steps: Sequence[NextStep]) -> None:
        self._data.steps = steps


class _Quiet(Nobody):
    """A host that shows only progress."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host

    def progress(
        self, total: int | None, *, beside_rows: bool = False
    ) -> AbstractContextManager[Progress]:
        return self._host.progress(total, beside_rows=beside_rows)


@dataclass(frozen=True, slots=True)
class Gathering:
    """Collects a page's data."""

    host: Host
    settings: SettingsOf
    now: int
    """Current time in milliseconds."""
    jobs: int = 1
    limit: Limit = field(default_factory=Limit)
    kafka: PredictedFor | None = None
    """The broker's version that the user named."""
    data: PageData = field(default_factory=PageData)

    def gather(self, paths: tuple[str, ...]) -> PageData:
        """Collect the data of some paths; raises UsageError."""
        given = listed(paths)
        partitions = partitions_below(given, lambda _: None, lambda _: None)
        counted = CountedLogs(with_strips([log for each in partitions for log in each.logs]))
        check = partial(self._check, given=given, counted=counted)
        self._run(check, CHECK_RESULT, keeps=lambda _: True)
        self._run(partial(self._stat, given=given, counted=counted))
        self._run(partial(self._txn, partitions=partitions), keeps=_is_of_transactions)
        self._run(partial(self._retention, given=given))
        self._run(partial(self._state, given=given), keeps=lambda row: row["type"] in _KEPT_STATE)
        about(self.data, paths, self.now)
        return self.data

    def _run(
        self,
        command: Callable[[Run], object],
        type_: ResultType | None = None,
        keeps: Callable[[Object], bool] | None = None,
    ) -> None:
        """Run a command and collect its output. keeps: whether to keep an object; by default all
        except findings, which come from `check`."""
        host = _Quiet(self.host)
        sink = _Kept(host, self.data, keeps or _is_no_finding)
        command(Run(host, sink, type_))
        sink.flush()
        for words in host.notes:
            self.data.tell(words)
        self.data.exit_code = max(self.data.exit_code, host.exit_code)

    def _check(self, run: Run, given: Sequence[GivenPath | str], counted: CountedLogs) -> None:
        task = CheckPaths(
            run, self.jobs, self.limit, kafka=self.kafka, prints=True, counted=counted
        )
        run.sink.results(CHECK_RESULT)
        found = task.look(given)
        show(run, found)
        if len(found.brokers) > 1:
            cluster = CompareDisks(run, self.jobs, self.limit).compare(found)
            if cluster.elections is None or len(cluster.elections.brokers) < 2:
                return
            self.data.cluster = [*answers(cluster), *cluster.evidence]
            put_rows(run, cluster, [p for p in cluster.partitions if p.needs_decision])

    def _stat(self, run: Run, given: Sequence[GivenPath | str], counted: CountedLogs) -> None:
        found = frozenset(row.file for row in self.data.of("finding"))
        task = Stat(
            run,
            (PARTITION, TOPIC),
            what_if=tuple(map(Codec, COMPRESSORS)),
            jobs=self.jobs,
            limit=self.limit,
            plot=True,
            strips=found,
            counted=counted,
            codec_sample=TRIED_BYTES,
            settings=self.settings,
            now=self.now,
        )
        task.paths(given)

    def _retention(self, run: Run, given: Sequence[GivenPath | str]) -> None:
        Retention(run, self.settings, self.now, tells_skipped=False).paths(given)

    def _state(self, run: Run, given: Sequence[GivenPath | str]) -> None:
        every = partitions_of(given, None, lambda _: None)
        offsets = [partition for partition in every if partition.topic == GROUPS]
        ShowState(run, Wanted(), self.limit).show(offsets)

    def _txn(self, run: Run, partitions: Sequence[Partition]) -> None:
        """Search for transactions only in partitions with transactional or control batches."""
        every = self.data.partitions
        named = {row.file for row in every if row.transactional_batches or row.control_batches}
        task = ShowTransactions(run)
        for partition in partitions:
            if partition.name in named:
                with run.complaining():
                    task.partition(partition)


def _is_no_finding(row: Object) -> bool:
    return row["type"] not in (FINDING.name, FINDINGS_LEFT_OUT.name)


def _is_of_transactions(row: Object) -> bool:
    """Whether to keep a row: no findings, no summaries of partitions without transactions."""
    if row["type"] != "transactions":
        return _is_no_finding(row)
    return bool(row["committed"] or row["aborted"] or row["open"])


def about(data: PageData, paths: tuple[str, ...], now: int) -> None:
    """Add the page's own row, once all other data are there. now: in milliseconds."""
    rows = data.partitions
    n_logs = sum(row.segments for row in rows)
    if n_logs > (n_strips := len(data.of(SEGMENT_STRIP.name))):
        data.left_out[SEGMENT_STRIP.name] = n_logs - n_strips
    firsts = (row.min_timestamp for row in rows if row.min_timestamp is not None)
    lasts = (row.max_timestamp for row in rows if row.max_timestamp is not None)
    data.put(
        PAGE,
        {
            "paths": list(paths),
            "version": __version__,
            "json_version": VERSION,
            "made_at": now_ms(),
            "now": now,
            "topics": len({row.topic for row in rows}),
            "partitions": len(rows),
            "segments": n_logs,
            "bytes": sum(row.bytes for row in rows),
            "records": sum(row.records or 0 for row in rows),
            "min_timestamp": min(firsts, default=None),
            "max_timestamp": max(lasts, default=None),
            "answers": [*data.answers, *step_lines(data.steps, PLAIN)],
            "left_out": dict(data.left_out),
            "said": list(data.said),
        },
    )
