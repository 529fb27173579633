"""Collects the data of a `report` page from `check`, `stat`, `txn`, `retention` and `state`.

Each runs as on the command line, so that the page shows the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial

from kfmt_cli import __version__
from kfmt_cli.broker.partitioners import GROUPS_TOPIC
from kfmt_cli.commands.check.command import CheckCommand
from kfmt_cli.commands.check.directory_result import CHECK_RESULT
from kfmt_cli.commands.check.options import CheckOptions
from kfmt_cli.commands.check.result_output import show_check_results
from kfmt_cli.commands.command_run import CommandRun, Progress, RunOutput
from kfmt_cli.commands.python.command_result import NullHost
from kfmt_cli.commands.replicas.advice import start_advice_lines
from kfmt_cli.commands.replicas.command import ReplicasCommand
from kfmt_cli.commands.replicas.options import ReplicasOptions
from kfmt_cli.commands.replicas.row_output import output_cluster_rows
from kfmt_cli.commands.report.options import ReportOptions
from kfmt_cli.commands.report.page.page_data import PageData
from kfmt_cli.commands.retention.command import RetentionCommand
from kfmt_cli.commands.retention.options import RetentionOptions
from kfmt_cli.commands.settings_resolver import TopicSettingsResolver
from kfmt_cli.commands.stat.command import StatCommand
from kfmt_cli.commands.stat.options import BY_TOPIC, StatOptions
from kfmt_cli.commands.stat.shape_totals import LogSummaryCache, create_shape_factory
from kfmt_cli.commands.state.command import StateCommand
from kfmt_cli.commands.state.internal_topics import find_internal_partitions
from kfmt_cli.commands.state.options import StateOptions
from kfmt_cli.commands.txn.command import TxnCommand
from kfmt_cli.commands.txn.options import TxnOptions
from kfmt_cli.core.codecs.compress import COMPRESSORS
from kfmt_cli.core.times import current_time_ms, now_ms
from kfmt_cli.disk.input_paths import InputPath, resolve_all_paths
from kfmt_cli.disk.partitions import Partition, find_partitions
from kfmt_cli.disk.topic_filter import TOPIC_PATTERNS
from kfmt_cli.render.sinks.objects import ObjectSink
from kfmt_cli.render.start_lines import NextStep, step_lines
from kfmt_cli.render.style import NO_COLOUR
from kfmt_cli.rows.columnar_rows import JsonObject
from kfmt_cli.rows.documents import (
    FINDING_ROW,
    REPORT_ROW,
    SEGMENT_MAP_ROW,
    SUPPRESSED_FINDINGS_ROW,
)
from kfmt_cli.rows.json_schemas import CONTRACT_VERSION

CODEC_SAMPLE_BYTES = 16 << 20  # to try other codecs on, over all partitions

# The types of `state` rows that the page needs.
_STATE_ROW_TYPES = frozenset({"group", "committed_offset"})


class _PageSink(ObjectSink):
    """Collects a command's objects and answers for a page."""

    def __init__(
        self, out: NullHost, page_data: PageData, is_selected: Callable[[JsonObject], bool]
    ) -> None:
        super().__init__(out)
        self._page_data = page_data
        self._is_selected = is_selected

    def format_object(self, row: JsonObject) -> str:
        if self._is_selected(row):
            self._page_data.add_object(row)
        return ""

    def add_answer(self, text: str) -> None:
        self._page_data.answers.append(text)

    def add_next_steps(self, steps: Sequence[NextStep]) -> None:
        self._page_data.next_steps = steps


class _ProgressOnlyHost(NullHost):
    """A host that shows only progress."""

    def __init__(self, host: RunOutput) -> None:
        super().__init__()
        self._host = host

    def progress(
        self, total: int | None, *, with_rows: bool = False
    ) -> AbstractContextManager[Progress]:
        return self._host.progress(total, with_rows=with_rows)


@dataclass(frozen=True)
class PageCollector:
    """Collects a page's data."""

    host: RunOutput
    options: ReportOptions
    page_data: PageData = field(default_factory=PageData)

    @cached_property
    def _current_time_ms(self) -> int:
        return current_time_ms(self.options.now)

    def gather_page_data(self) -> PageData:
        """Collect the data; raises UsageError."""
        paths = self.options.paths
        user_paths = resolve_all_paths(paths)
        partitions = find_partitions(user_paths, lambda _: None, lambda _: None)
        log_summaries = LogSummaryCache(
            create_shape_factory([log for partition in partitions for log in partition.logs])
        )
        run_check = partial(self._check_paths, user_paths=user_paths, log_summaries=log_summaries)
        self._run_command(run_check, is_selected=lambda _: True)
        self._run_command(
            partial(self._collect_statistics, user_paths=user_paths, log_summaries=log_summaries)
        )
        self._run_command(
            partial(self._find_transactions, partitions=partitions), is_selected=_is_transaction_row
        )
        self._run_command(partial(self._predict_retention, user_paths=user_paths))
        self._run_command(
            partial(self._replay_group_state, user_paths=user_paths),
            is_selected=lambda row: row["type"] in _STATE_ROW_TYPES,
        )
        add_page_row(self.page_data, paths, self._current_time_ms)
        return self.page_data

    def _run_command(
        self,
        command: Callable[[CommandRun], object],
        is_selected: Callable[[JsonObject], bool] | None = None,
    ) -> None:
        """Run a command and collect its output. is_selected: whether to keep an object; by default
        all except findings, which come from `check`."""
        host = _ProgressOnlyHost(self.host)
        sink = _PageSink(host, self.page_data, is_selected or _is_not_finding)
        command(CommandRun(host, sink))
        sink.flush_texts()
        for message in host.notes:
            self.page_data.add_message_lines(message)
        self.page_data.exit_code = max(self.page_data.exit_code, host.exit_code)

    def _check_paths(
        self, run: CommandRun, user_paths: Sequence[InputPath | str], log_summaries: LogSummaryCache
    ) -> None:
        options = self.options
        check_options = CheckOptions(
            jobs=options.jobs, max_decompressed=options.max_decompressed, kafka=options.kafka
        )
        check_command = CheckCommand(
            run, check_options, needs_fingerprints=True, log_summaries=log_summaries
        )
        run.set_result_type(CHECK_RESULT)
        run.sink.begin_results(CHECK_RESULT)
        results = check_command.check_paths(user_paths)
        show_check_results(run, results)
        if len(results.brokers) > 1:
            replicas_options = ReplicasOptions(
                paths=options.paths,
                topic=options.topic,
                max_decompressed=options.max_decompressed,
            )
            replicas_command = ReplicasCommand(run, replicas_options)
            offline_cluster = replicas_command.compare_checked_replicas(results)
            if offline_cluster.predictor is None or len(offline_cluster.predictor.broker_ids) < 2:
                return
            self.page_data.cluster_answers = [
                *start_advice_lines(offline_cluster),
                *offline_cluster.evidence,
            ]
            output_cluster_rows(
                run,
                offline_cluster,
                [partition for partition in offline_cluster.partitions if partition.needs_decision],
            )

    def _collect_statistics(
        self, run: CommandRun, user_paths: Sequence[InputPath | str], log_summaries: LogSummaryCache
    ) -> None:
        files_with_findings = frozenset(row.file for row in self.page_data.rows_of_type("finding"))
        stat_options = StatOptions(
            paths=self.options.paths,
            what_if=tuple(COMPRESSORS),
            all_replicas=self.options.all_replicas,
            plot=True,
            jobs=self.options.jobs,
            max_decompressed=self.options.max_decompressed,
        )
        stat_command = StatCommand(
            run,
            stat_options,
            extra_levels=(BY_TOPIC,),
            first_mapped_files=files_with_findings,
            log_summaries=log_summaries,
            trial_bytes=CODEC_SAMPLE_BYTES,
            settings_resolver=TopicSettingsResolver(self.options.config),
            current_time_ms=self._current_time_ms,
        )
        stat_command.show_paths(user_paths)

    def _predict_retention(self, run: CommandRun, user_paths: Sequence[InputPath | str]) -> None:
        retention_options = RetentionOptions(
            paths=self.options.paths, now=self._current_time_ms, config=self.options.config
        )
        RetentionCommand(run, retention_options, reports_skipped_partitions=False).show_paths(
            user_paths
        )

    def _replay_group_state(self, run: CommandRun, user_paths: Sequence[InputPath | str]) -> None:
        if self.options.topic:  # the groups are in another topic
            TOPIC_PATTERNS.set(())
            user_paths = resolve_all_paths(self.options.paths)
        partitions = find_internal_partitions(user_paths, None, lambda _: None)
        group_partitions = [
            partition for partition in partitions if partition.topic == GROUPS_TOPIC
        ]
        state_options = StateOptions(
            paths=self.options.paths,
            topic=self.options.topic,
            max_decompressed=self.options.max_decompressed,
        )
        StateCommand(run, state_options).show_partitions(group_partitions)

    def _find_transactions(self, run: CommandRun, partitions: Sequence[Partition]) -> None:
        """Search for transactions only in partitions with transactional or control batches."""
        partition_rows = self.page_data.partition_rows
        names_with_transactions = {
            row.file for row in partition_rows if row.transactional_batches or row.control_batches
        }
        txn_command = TxnCommand(run, TxnOptions(paths=self.options.paths))
        for partition in partitions:
            if partition.name in names_with_transactions:
                with run.catch_input_errors():
                    txn_command.show_partition(partition)


def _is_not_finding(row: JsonObject) -> bool:
    return row["type"] not in (FINDING_ROW.name, SUPPRESSED_FINDINGS_ROW.name)


def _is_transaction_row(row: JsonObject) -> bool:
    """Whether a row is neither a finding nor a summary of a partition without transactions."""
    if row["type"] != "transactions":
        return _is_not_finding(row)
    return bool(row["committed"] or row["aborted"] or row["open"])


def add_page_row(page_data: PageData, paths: tuple[str, ...], current_time_ms: int) -> None:
    """Add the page's own row, after all other data. current_time_ms: in milliseconds."""
    partition_rows = page_data.partition_rows
    n_logs = sum(row.segments for row in partition_rows)
    if n_logs > (n_segment_maps := len(page_data.rows_of_type(SEGMENT_MAP_ROW.name))):
        page_data.n_omitted_by_type[SEGMENT_MAP_ROW.name] = n_logs - n_segment_maps
    min_timestamps = (row.min_timestamp for row in partition_rows if row.min_timestamp is not None)
    max_timestamps = (row.max_timestamp for row in partition_rows if row.max_timestamp is not None)
    page_data.add_row(
        REPORT_ROW,
        {
            "paths": list(paths),
            "version": __version__,
            "json_version": CONTRACT_VERSION,
            "made_at": now_ms(),
            "now": current_time_ms,
            "topics": len({row.topic for row in partition_rows}),
            "partitions": len(partition_rows),
            "segments": n_logs,
            "bytes": sum(row.bytes for row in partition_rows),
            "records": sum(row.records or 0 for row in partition_rows),
            "min_timestamp": min(min_timestamps, default=None),
            "max_timestamp": max(max_timestamps, default=None),
            "answers": [*page_data.answers, *step_lines(page_data.next_steps, NO_COLOUR)],
            "left_out": dict(page_data.n_omitted_by_type),
            "said": list(page_data.message_lines),
        },
    )
