"""Check that a KRaft snapshot begins with a header and ends with a footer.

Source: `org.apache.kafka.snapshot.RecordsSnapshotWriter`. A snapshot without a footer is
unfinished.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.control import CONTROL_TYPES
from kfmt_cli.log.block import Block
from kfmt_cli.log.control import fill_control_types
from kfmt_cli.rows.log_tables import BatchTable

SNAPSHOT_HEADER_TYPE, SNAPSHOT_FOOTER_TYPE = (
    CONTROL_TYPES.index(control_type) for control_type in ("SNAPSHOT_HEADER", "SNAPSHOT_FOOTER")
)


def iter_with_snapshot_findings(file_name: str, blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks of a snapshot, with findings for a missing header or footer.

    Each block is delayed until the next one arrives.
    """
    pending_block: Block | None = None
    last_control_type: int | None = None
    end_position = 0
    for block in blocks:
        has_no_earlier_batch = last_control_type is None
        if pending_block is not None:
            yield pending_block
        pending_block = block
        if not len(block.batches):
            continue
        fill_control_types(block)
        control_types = block.batches.control_type
        last_control_type = int(control_types[-1])
        end_position = int(block.batches.position[-1] + block.batches.size[-1])
        if has_no_earlier_batch and int(control_types[0]) != SNAPSHOT_HEADER_TYPE:
            pending_block = _block_with_finding(
                pending_block,
                Finding(file_name, codes.SNAPSHOT_HEADER_MISSING, 0, _HEADER_MISSING_MESSAGE),
            )
    if last_control_type != SNAPSHOT_FOOTER_TYPE:
        pending_block = pending_block or Block(file_name, b"", 0, BatchTable.zeros(0))
        pending_block = _block_with_finding(
            pending_block,
            Finding(
                file_name, codes.SNAPSHOT_FOOTER_MISSING, end_position, _FOOTER_MISSING_MESSAGE
            ),
        )
    if pending_block is not None:
        yield pending_block


_HEADER_MISSING_MESSAGE = "the first batch is not a SNAPSHOT_HEADER"
_FOOTER_MISSING_MESSAGE = "the last batch is not a SNAPSHOT_FOOTER"


def _block_with_finding(block: Block, finding: Finding) -> Block:
    findings = [*block.findings, finding]
    return replace(block, findings=findings)
