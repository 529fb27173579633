"""The offset at which the last records of a partition begin."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from kfmt_cli.broker.offsets.seek import blocks_from
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.log.block import part_of, runs, undamaged_data
from kfmt_cli.log.derived_columns import read_complete
from kfmt_cli.log.selection.select import Selection


def first_of_last(logs: Sequence[Input], number: int, wanted: Selection, limit: Limit) -> int:
    """The offset of the first of the last `number` wanted records, without markers; raises
    InputError.

    logs: a partition's logs in base offset order.
    """
    if wanted:
        return _first_wanted(wanted.logs(logs), number, wanted, limit)
    first = 0
    for log in reversed(logs):
        for batches in reversed(_blocks(log)):
            for position, base, count in reversed(batches.T.tolist()):
                if 0 <= count < number:
                    number, first = number - count, base
                    continue
                offsets = _offsets(log, position, limit)
                if len(offsets) >= number:
                    return offsets[-number]
                number, first = number - len(offsets), min([base, *offsets[:1]])
    return first


def _first_wanted(logs: Sequence[Input], number: int, wanted: Selection, limit: Limit) -> int:
    """The same by the records themselves; 0 if none is wanted."""
    found: list[int] = []
    for log in reversed(logs):
        here: deque[int] = deque(maxlen=number - len(found))
        for block in map(undamaged_data, blocks_from(log, read_ahead=True)):
            for run, records in wanted.near(block, limit):
                here.extend(records.rows.offset[wanted.of_records(run, records)].tolist())
        found = sorted([*here, *found])
        if len(found) == number:
            break
    return found[0] if found else 0


def _blocks(log: Input) -> list[IntArray]:
    """Position, base offset and record count of a log's undamaged batches, block by block; the
    count of a wrapper, which only its content shows, is -1."""
    found = []
    for block in map(undamaged_data, blocks_from(log, read_ahead=True)):
        batches = block.batches
        of_old = np.where(batches.compression == 0, 1, -1)
        counts = np.where(batches.is_v2 == 1, batches.records_count.clip(0), of_old)
        found.append(np.stack([batches.position, batches.base_offset, counts]))
    return found


def _offsets(log: Input, position: int, limit: Limit) -> list[int]:
    """The sorted offsets of the records in the batch at a byte."""
    block = next(blocks_from(log, position))
    found: list[int] = []
    for run in runs(part_of(block, 0, 1)):
        records = read_complete(run, limit)
        found += np.sort(records.rows.offset).tolist()
    return found
