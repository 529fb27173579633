"""Base classes of checks: a rule, its codes, and its state.

A check of a log receives batches and records in reading order. Threads, processes or cluster tasks
may each check a range of a log with their own check. `merge_later` combines two ranges in reading
order, and compares the batches on the two sides of the boundary. So no check needs to know how the
work was divided.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import ClassVar, TypeVar

from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block
from kfmt_cli.log.records import RecordColumns

BoundaryState = dict[str, int]
LogCheckT = TypeVar("LogCheckT", bound="LogCheck")


class Scope(enum.Enum):
    """The subject of a check."""

    HEADERS = "batch headers"
    RECORDS = "records"
    SEGMENT = "a log and its indexes"
    PARTITION = "the segments of a partition"
    DIRECTORY = "file and directory names"
    HISTORY = "producers, transactions and leader epochs"
    OFFSETS = "offsets that should be in the partition"
    CHECKPOINTS = "the checkpoints of a log directory"
    BROKERS = "the owner of log directories and their replicas"
    STARTS = "what a broker start would do"


class LogCheck:
    """A rule about a log, for a range of it.

    base_offset: the segment's base offset, None if the file name has none. needs_previous_batch:
    compares a batch with the previous one. magics: the magics of the batches that it can report.
    facts_key: the unique name under which jobs store its facts; it never changes.
    """

    facts_key: ClassVar[str]
    needs_previous_batch: ClassVar[bool] = False
    magics: ClassVar[frozenset[int]] = frozenset({0, 1, 2})

    def __init__(self, base_offset: int | None = None) -> None:
        self.base_offset = base_offset
        self.file_name = ""
        """The name of the log, for `merge_later`."""
        self.facts: BoundaryState = {}
        """The state that `merge_later` needs, as numbers that can be stored."""

    @classmethod
    def is_per_batch(cls) -> bool:
        """Whether it checks each batch by itself, wherever a log begins or ends."""
        return (
            cls.merge_later_range is LogCheck.merge_later_range
            and cls.__init__ is LogCheck.__init__
        )

    def check_block(self, run: Block, records: RecordColumns | None) -> Iterable[Finding]:
        """Check the next batches of the range, with their records if decoded.

        records: None for a check of headers.
        """
        raise NotImplementedError

    def merge_later_range(self: LogCheckT, later_check: LogCheckT) -> Iterable[Finding]:
        """Add the following range; returns findings about the boundary between the two."""
        del later_check
        return ()
