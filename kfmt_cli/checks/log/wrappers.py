"""Check the first offsets of compressed messages of magic 0 and 1.

Only decompression shows a wrapper's first inner offset. It must be greater than the previous
batch's last offset, wherever that batch is: in the same run of batches, at the end of the previous
block, or in another worker's range.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.checks.log.headers import PrecedingOffsetCheck, backwards_finding, batch_identity
from kfmt_cli.findings import log as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block
from kfmt_cli.log.records import RecordColumns


class WrapperOffsetsCheck(PrecedingOffsetCheck):
    """The messages inside a wrapper come after the previous batch."""

    facts_key = "WrapperOffsets"
    codes = (codes.OFFSETS_BACKWARDS,)
    magics = frozenset({0, 1})

    def check_block(self, run: Block, records: RecordColumns | None) -> Iterator[Finding]:
        if records is None or not len(records):
            return
        nonempty_batches, batches = records.nonempty_batches, run.batches
        first_offsets, last_offsets = records.ranges.first_offset, records.ranges.last_offset
        is_wrapper = (batches.is_v2[nonempty_batches] == 0) & (
            batches.compression[nonempty_batches] != 0
        )
        run_check = WrapperOffsetsCheck()
        self.file_name = run_check.file_name = run.name
        run_check.facts = {
            **batch_identity(run, int(nonempty_batches[0])),
            "first_offset": int(first_offsets[0]),
            "begins_with_wrapper": int(is_wrapper[0]),
            "last_offset": int(last_offsets[-1]),
        }
        yield from self.merge_later(run_check)
        for i in np.flatnonzero(is_wrapper[1:] & (first_offsets[1:] <= last_offsets[:-1])).tolist():
            identity = batch_identity(run, int(nonempty_batches[i + 1]))
            yield backwards_finding(
                run.name, identity, int(first_offsets[i + 1]), int(last_offsets[i])
            )
