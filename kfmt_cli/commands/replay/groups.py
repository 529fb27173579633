"""The offsets that groups had committed on the disks, for the same records in a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kfmt_cli.broker.cluster.placement import GROUPS
from kfmt_cli.broker.state import replay_of
from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding, Findings
from kfmt_cli.log.stream import stream
from kfmt_cli.rows.types.state_types import COMMITTED_OFFSET


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """Where a group stood in a partition."""

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str | None
    commit_timestamp: int

    @property
    def place(self) -> str:
        """The partition, as in the state file."""
        return f"{self.topic}-{self.partition}"


def committed_offsets(
    run: Run, partitions: Iterable[Partition], limit: Limit
) -> list[CommittedOffset]:
    """The offsets in the partitions of __consumer_offsets, each of the latest commit; complains
    about unreadable ones."""
    found: dict[tuple[str, str, int], CommittedOffset] = {}
    for partition in partitions:
        if partition.place[0] != GROUPS:
            continue
        try:
            rows = list(_rows(run, partition, limit))
        except InputError as error:
            run.complain(str(error))
            continue
        for row in rows:
            key = row.group, row.topic, row.partition
            if key not in found or found[key].commit_timestamp < row.commit_timestamp:
                found[key] = row
    return [found[key] for key in sorted(found)]


def _rows(run: Run, partition: Partition, limit: Limit) -> Iterable[CommittedOffset]:
    replay = replay_of(GROUPS)
    for file in partition.logs:
        findings = Findings(run.most_findings)
        with open_checked(file, read_ahead=False) as log:
            for record in stream(log, limit):
                if isinstance(record, Finding):
                    run.tell(record, findings)
                else:
                    replay.take(record)
        run.left_out(file.name, findings)
    for row in replay.state()[COMMITTED_OFFSET].values():
        values: Mapping[str, object] = dict(zip(COMMITTED_OFFSET.names, row, strict=True))
        topic, number, offset = values["topic"], values["partition"], values["offset"]
        if isinstance(number, int) and isinstance(offset, int):
            metadata, at = values["metadata"], values["commit_timestamp"]
            yield CommittedOffset(
                str(values["group"]),
                str(topic),
                number,
                offset,
                None if metadata is None else str(metadata),
                at if isinstance(at, int) else -1,
            )
