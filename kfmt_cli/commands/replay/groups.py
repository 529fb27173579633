"""The offsets that groups had committed on the disks, to commit them for the same records in a
cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kfmt_cli.broker.cluster.coordinators import GROUPS_TOPIC
from kfmt_cli.broker.state import create_replay
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.state.internal_topics import iter_replay_findings
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.findings.finding import FindingCollector
from kfmt_cli.rows.types.state_rows import COMMITTED_OFFSET_ROW


def committed_offsets(
    run: CommandRun, partitions: Iterable[Partition], limit: DecompressionLimit
) -> list[FieldDict]:
    """The committed offsets in the partitions of __consumer_offsets, the latest commit of each.

    Each has the columns of `COMMITTED_OFFSET_ROW`, and in `source_name` the name of its partition
    in the state file. Reports partitions that cannot be read.
    """
    row_by_key: dict[tuple[str, str, int], FieldDict] = {}
    for partition in partitions:
        if partition.topic_partition[0] != GROUPS_TOPIC:
            continue
        with run.catch_unreadable():
            for row in _iter_committed_offsets(run, partition, limit):
                key = row.group, row.topic, row.partition
                if key not in row_by_key or row_by_key[key].commit_timestamp < row.commit_timestamp:
                    row_by_key[key] = row
    return [row_by_key[key] for key in sorted(row_by_key)]


def _iter_committed_offsets(
    run: CommandRun, partition: Partition, limit: DecompressionLimit
) -> Iterator[FieldDict]:
    replay = create_replay(GROUPS_TOPIC)
    for file in partition.logs:
        findings = FindingCollector(run.max_findings)
        run.report_findings(iter_replay_findings(replay, file, limit), findings)
        run.report_suppressed(file.name, findings)
    for row in replay.sorted_rows()[COMMITTED_OFFSET_ROW].values():
        commit = FieldDict(zip(COMMITTED_OFFSET_ROW.member_names, row, strict=True))
        commit.source_name = f"{commit.topic}-{commit.partition}"
        yield commit
