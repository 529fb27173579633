"""The two ends of a KRaft snapshot: it begins with a header and ends with a footer.

Source: `org.apache.kafka.snapshot.RecordsSnapshotWriter`. A snapshot without a footer is
unfinished.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.control import CONTROL_TYPES
from kfmt_cli.log.block import Block
from kfmt_cli.log.control import name_control_batches
from kfmt_cli.rows.log_tables import BatchTable

HEADER, FOOTER = (
    CONTROL_TYPES.index(control_type) for control_type in ("SNAPSHOT_HEADER", "SNAPSHOT_FOOTER")
)


def with_ends_checked(name: str, blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks of a snapshot, with findings for a missing header or footer.

    Each block is delayed until the next one arrives.
    """
    held: Block | None = None
    last: int | None = None
    end = 0
    for block in blocks:
        first = last is None
        if held is not None:
            yield held
        held = block
        if not len(block.batches):
            continue
        name_control_batches(block)
        types = block.batches.control_type
        last = int(types[-1])
        end = int(block.batches.position[-1] + block.batches.size[-1])
        if first and int(types[0]) != HEADER:
            held = _with(held, Finding(name, codes.SNAPSHOT_HEADER_MISSING, 0, _HEADER))
    if last != FOOTER:
        held = held or Block(name, b"", 0, BatchTable.zeros(0))
        held = _with(held, Finding(name, codes.SNAPSHOT_FOOTER_MISSING, end, _FOOTER))
    if held is not None:
        yield held


_HEADER = "the first batch is not a SNAPSHOT_HEADER"
_FOOTER = "the last batch is not a SNAPSHOT_FOOTER"


def _with(block: Block, finding: Finding) -> Block:
    findings = [*block.findings, finding]
    return replace(block, findings=findings)
