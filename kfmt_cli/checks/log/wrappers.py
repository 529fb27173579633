"""Check where compressed messages of magic 0 and 1 begin.

Only decompression shows where a wrapper begins. A wrapper's first inner offset must be greater than
the previous batch's last offset, wherever that batch is: in the same run of batches, at the end of
the previous block, or in another worker's stretch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.checks.log.headers import Following, backwards, batch_facts
from kfmt_cli.findings import log as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block
from kfmt_cli.log.records import Records


class WrapperOffsets(Following):
    """The messages inside a wrapper come after the previous batch."""

    codes = (codes.OFFSETS_BACKWARDS,)
    magics = frozenset({0, 1})

    def take(self, run: Block, records: Records | None) -> Iterator[Finding]:
        if records is None or not len(records):
            return
        filled, batches = records.filled, run.batches
        first, last = records.spans.first_offset, records.spans.last_offset
        wrapper = (batches.is_v2[filled] == 0) & (batches.compression[filled] != 0)
        here = WrapperOffsets()
        self.file = here.file = run.name
        here.facts = {
            **batch_facts(run, int(filled[0])),
            "first_offset": int(first[0]),
            "begins_with_wrapper": int(wrapper[0]),
            "last_offset": int(last[-1]),
        }
        yield from self.join(here)
        for i in np.flatnonzero(wrapper[1:] & (first[1:] <= last[:-1])).tolist():
            place = batch_facts(run, int(filled[i + 1]))
            yield backwards(run.name, place, int(first[i + 1]), int(last[i]))
