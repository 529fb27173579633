"""The offsets that groups had committed on the disks, to commit them for the same records in a
cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kfmt_cli.broker.partitioners import GROUPS_TOPIC
from kfmt_cli.broker.state import create_replay
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.state.internal_topics import replay_log_records
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.findings.finding import FindingCollector
from kfmt_cli.rows.types.state_rows import COMMITTED_OFFSET_ROW


def read_committed_offsets(
    run: CommandRun, partitions: Iterable[Partition], decompression_limit: DecompressionLimit
) -> list[FieldDict]:
    """The committed offsets in the partitions of __consumer_offsets, the latest commit of each.

    Each has the columns of `COMMITTED_OFFSET_ROW`, and in `source_name` the name of its partition
    in the state file. Reports partitions that cannot be read.
    """
    commit_by_group_partition: dict[tuple[str, str, int], FieldDict] = {}
    for partition in partitions:
        if partition.topic_partition[0] != GROUPS_TOPIC:
            continue
        with run.catch_input_errors():
            for commit in _iter_committed_offsets(run, partition, decompression_limit):
                group_partition = commit.group, commit.topic, commit.partition
                if (
                    group_partition not in commit_by_group_partition
                    or commit_by_group_partition[group_partition].commit_timestamp
                    < commit.commit_timestamp
                ):
                    commit_by_group_partition[group_partition] = commit
    return [commit_by_group_partition[key] for key in sorted(commit_by_group_partition)]


def _iter_committed_offsets(
    run: CommandRun, partition: Partition, decompression_limit: DecompressionLimit
) -> Iterator[FieldDict]:
    topic_replay = create_replay(GROUPS_TOPIC)
    for log_file in partition.logs:
        finding_collector = FindingCollector(run.max_findings)
        run.report_findings(
            replay_log_records(topic_replay, log_file, decompression_limit), finding_collector
        )
        run.report_suppressed_findings(log_file.name, finding_collector)
    for row in topic_replay.sorted_rows()[COMMITTED_OFFSET_ROW].values():
        commit = FieldDict(zip(COMMITTED_OFFSET_ROW.member_names, row, strict=True))
        commit.source_name = f"{commit.topic}-{commit.partition}"
        yield commit
