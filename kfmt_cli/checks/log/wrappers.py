"""Check the first offsets of compressed messages of magic 0 and 1.

Only decompression shows a wrapper's first inner offset. It must be greater than the previous
batch's last offset, wherever that batch is: in the same run of batches, at the end of the previous
block, or in another worker's range.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.checks.log.headers import (
    PrecedingOffsetCheck,
    identify_batch,
    offset_backwards_finding,
)
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block
from kfmt_cli.log.records import RecordColumns


class WrapperOffsetsCheck(PrecedingOffsetCheck):
    """The messages inside a wrapper come after the previous batch."""

    facts_key = "WrapperOffsets"
    magics = frozenset({0, 1})

    def check_block(self, run: Block, records: RecordColumns | None) -> Iterator[Finding]:
        if records is None or not len(records):
            return
        nonempty_batches, batches = records.nonempty_batch_indexes, run.batches
        first_offsets, last_offsets = (
            records.record_ranges.first_offset,
            records.record_ranges.last_offset,
        )
        is_wrapper = (batches.is_v2[nonempty_batches] == 0) & (
            batches.compression[nonempty_batches] != 0
        )
        run_check = WrapperOffsetsCheck()
        self.file_name = run_check.file_name = run.file_name
        run_check.facts = {
            **identify_batch(run, int(nonempty_batches[0])),
            "first_offset": int(first_offsets[0]),
            "begins_with_wrapper": int(is_wrapper[0]),
            "last_offset": int(last_offsets[-1]),
        }
        yield from self.merge_later_range(run_check)
        for i in np.flatnonzero(is_wrapper[1:] & (first_offsets[1:] <= last_offsets[:-1])).tolist():
            batch_facts = identify_batch(run, int(nonempty_batches[i + 1]))
            yield offset_backwards_finding(
                run.file_name, batch_facts, int(first_offsets[i + 1]), int(last_offsets[i])
            )
