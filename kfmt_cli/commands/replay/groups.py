"""The offsets that groups had committed on the disks, for the same records in a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kfmt_cli.broker.cluster.placement import GROUPS
from kfmt_cli.broker.state import replay_of
from kfmt_cli.commands.run import Run
from kfmt_cli.commands.state.internal_topics import taken
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.findings.finding import Findings
from kfmt_cli.rows.types.state_types import COMMITTED_OFFSET


def committed_offsets(run: Run, partitions: Iterable[Partition], limit: Limit) -> list[Fields]:
    """The rows of the offsets in the partitions of __consumer_offsets, each of the latest commit,
    with the `place` of its partition in the state file; complains about unreadable ones."""
    found: dict[tuple[str, str, int], Fields] = {}
    for partition in partitions:
        if partition.place[0] != GROUPS:
            continue
        with run.complaining():
            for row in _rows(run, partition, limit):
                key = row.group, row.topic, row.partition
                if key not in found or found[key].commit_timestamp < row.commit_timestamp:
                    found[key] = row
    return [found[key] for key in sorted(found)]


def _rows(run: Run, partition: Partition, limit: Limit) -> Iterator[Fields]:
    replay = replay_of(GROUPS)
    for file in partition.logs:
        findings = Findings(run.most_findings)
        run.tell(taken(replay, file, limit), findings)
        run.left_out(file.name, findings)
    for row in replay.state()[COMMITTED_OFFSET].values():
        of = Fields(zip(COMMITTED_OFFSET.names, row, strict=True))
        of.place = f"{of.topic}-{of.partition}"
        yield of
