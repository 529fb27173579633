"""compaction --key: every record of a key, whether it is kept, and why."""

from __future__ import annotations

import numpy as np

from kfmt_cli.broker.cleaning import Dirty
from kfmt_cli.broker.offsets.seek import blocks_from
from kfmt_cli.commands.compaction.lines import key_lines
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.log.selection.record_match import Match
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.render.style import count
from kfmt_cli.rows.documents import KEY_FATE


def show_key(
    run: Run, partition: Partition, key: bytes, dirty: Dirty, never: str | None, limit: Limit
) -> int:
    """Show every record of a key in a partition; returns their number.

    never: why the cleaner does not clean the partition, if so.
    """
    rows = _records(partition, key, limit)
    for i, row in enumerate(rows):
        row.stays, row.why = (True, never) if never else _fate(row, rows[i + 1 :], dirty)
        heading = partition.name if i == 0 else None
        run.sink.document(KEY_FATE, row, key_lines(row, run.sink.out.theme, heading))
    if rows:
        run.sink.remark(count(len(rows), "record"))
    return len(rows)


def _records(partition: Partition, key: bytes, limit: Limit) -> list[Fields]:
    """The records of a key, with the members of `KEY_FATE` that do not depend on a cleaning."""
    wanted, found = Selection(match=Match(key=key)), []
    for file in partition.logs:
        for block in blocks_from(file, read_ahead=True):
            block.batches = block.batches.select(block.batches.crc_valid == 1)
            for run, records in wanted.near(block, limit):
                rows = records.rows
                for row in np.flatnonzero(wanted.of_records(run, records)).tolist():
                    batch = int(np.searchsorted(records.ends, row, side="right"))
                    found.append(
                        Fields(
                            file=file.name,
                            batch_position=int(run.batches.position[batch]),
                            offset=int(rows.offset[row]),
                            timestamp=int(rows.timestamp[row]) if rows.has_timestamp[row] else None,
                            value_size=int(rows.value_size[row]),
                        )
                    )
    return found


LATEST = "latest record for its key"


def _fate(record: Fields, later: list[Fields], dirty: Dirty) -> tuple[bool, str]:
    """Whether the next cleaning keeps a record, and why."""
    if record.offset >= dirty.end:
        if not later:
            return True, LATEST
        return True, f"not cleanable yet: {dirty.why}"
    replaced = next((other for other in reversed(later) if other.offset < dirty.end), None)
    if replaced is not None:
        return False, f"superseded by offset {replaced.offset}: removed by the next cleaning"
    if later:
        words = f"superseded by offset {later[-1].offset}"
        return True, f"{words}, which is not cleanable yet: {dirty.why}"
    if record.value_size < 0:
        return True, f"{LATEST}: a tombstone, removed at its delete horizon"
    return True, LATEST
