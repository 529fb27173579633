"""The records of logs one by one, for replaying a topic: plain objects in offset order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block, runs
from kfmt_cli.log.derived_columns import read_complete
from kfmt_cli.log.open_log import OpenLog
from kfmt_cli.log.records import Records


@dataclass(frozen=True, slots=True)
class Record:
    """A record."""

    offset: int
    key: bytes | None
    value: bytes | None
    control: int | None = None
    """The type of a control record, None for any other."""
    producer_id: int | None = None
    """None unless it is part of a transaction."""


_NAMES = ("offset", "key", "key_size", "value", "value_size", "control", "control_type")


def stream(log: OpenLog, limit: Limit) -> Iterator[Record | Finding]:
    """The records and findings of a log; records of damaged batches are skipped."""
    for block in log.blocks:
        yield from block.findings
        for run in runs(block):
            records = read_complete(run, limit)
            yield from records.findings
            yield from _records(run, records)


def _records(run: Block, records: Records) -> Iterator[Record]:
    batches, data = run.batches, records.data
    owner = records.owner
    of_batch = (
        batches[name][owner].tolist() for name in ("crc_valid", "transactional", "producer_id")
    )
    columns = (records.rows[name].tolist() for name in _NAMES)
    for valid, in_transaction, producer, *row in zip(*of_batch, *columns, strict=True):
        offset, key, key_size, value, value_size, control, control_type = row
        if valid:
            yield Record(
                offset,
                None if key_size < 0 else data[key : key + key_size],
                None if value_size < 0 else data[value : value + value_size],
                control_type if control else None,
                producer if in_transaction else None,
            )
