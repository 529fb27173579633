"""compaction --key: every record of a key, whether it is kept, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfmt_cli.broker.cleaning import Dirty
from kfmt_cli.broker.offsets.seek import blocks_from
from kfmt_cli.commands.compaction.lines import key_lines
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.log.block import runs
from kfmt_cli.log.decompress import decompress_ahead
from kfmt_cli.log.derived_columns import read_complete
from kfmt_cli.log.selection.record_match import Match
from kfmt_cli.render.style import count
from kfmt_cli.rows.documents import KEY_FATE


@dataclass(frozen=True, slots=True)
class RecordOfKey:
    """A record of the key: its place, and its value size, -1 for a tombstone."""

    file: str
    batch_position: int
    offset: int
    timestamp: int | None
    size: int


def show_key(
    run: Run, partition: Partition, key: bytes, dirty: Dirty, never: str | None, limit: Limit
) -> int:
    """Show every record of a key in a partition; returns their number.

    never: why the cleaner never cleans the partition, if so.
    """
    places = _places(partition, key, limit)
    for i, place in enumerate(places):
        stays, why = (True, never) if never else _fate(place, places[i + 1 :], dirty)
        row = Fields(
            file=place.file,
            batch_position=place.batch_position,
            offset=place.offset,
            timestamp=place.timestamp,
            value_size=place.size,
            stays=stays,
            why=why,
        )
        heading = partition.name if i == 0 else None
        lines = key_lines(row, run.sink.out.theme, heading)
        run.sink.document(KEY_FATE, row, lines)
    if places:
        run.sink.remark(count(len(places), "record"))
    return len(places)


def _places(partition: Partition, key: bytes, limit: Limit) -> list[RecordOfKey]:
    match, found = Match(key=key), []
    for file in partition.logs:
        for block in blocks_from(file, read_ahead=True):
            sound = block.batches.crc_valid == 1
            block.batches = block.batches.select(sound)
            for run in (run for part in decompress_ahead(block, limit) for run in runs(part)):
                records = read_complete(run, limit)
                rows = records.rows
                for row in match.rows(run, records, np.arange(len(rows))).tolist():
                    batch = int(np.searchsorted(records.ends, row, side="right"))
                    time = int(rows.timestamp[row]) if rows.has_timestamp[row] else None
                    position = int(run.batches.position[batch])
                    offset, size = int(rows.offset[row]), int(rows.value_size[row])
                    found.append(RecordOfKey(file.name, position, offset, time, size))
    return found


LATEST = "latest record for its key"


def _fate(record: RecordOfKey, later: list[RecordOfKey], dirty: Dirty) -> tuple[bool, str]:
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
    if record.size < 0:
        return True, f"{LATEST}: a tombstone, removed at its delete horizon"
    return True, LATEST
