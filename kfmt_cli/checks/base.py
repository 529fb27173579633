"""What a check is: a rule with a scope, its codes, and what it remembers from place to place.

A check of a log is told of batches and records in reading order. A log may be looked at in
stretches, by threads, processes or the tasks of a cluster; each has a check of its own, and `join`
puts two of them together in reading order, which is where neighbours on the two sides of a cut are
compared. So no check needs to know how the work was shared out.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import ClassVar, TypeVar

from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.log.block import Block
from kfmt_cli.log.records import Records

Facts = dict[str, int | None]
C = TypeVar("C", bound="LogCheck")


class Scope(enum.Enum):
    """What a check looks at."""

    HEADERS = "batch headers"
    RECORDS = "records"
    SEGMENT = "a log and its indexes"
    PARTITION = "the segments of a partition"
    DIRECTORY = "file and directory names"
    HISTORY = "producers, transactions and leader epochs"
    OFFSETS = "offsets that should be in the partition"
    CHECKPOINTS = "the checkpoints of a log directory"
    STARTS = "what a broker start would do"


class Check:
    """A rule. codes: the kinds of findings that it may make."""

    scope: ClassVar[Scope]
    codes: ClassVar[tuple[Code, ...]] = ()


class LogCheck(Check):
    """A rule about a log, for a stretch of it.

    base_offset: of the segment, None where the file's name says none. looks_back: it compares a
    batch with the one before it. magics: of the batches that it can find something wrong with.
    """

    scope = Scope.RECORDS
    looks_back: ClassVar[bool] = False
    magics: ClassVar[frozenset[int]] = frozenset({0, 1, 2})

    def __init__(self, base_offset: int | None = None) -> None:
        self.base_offset = base_offset

    @classmethod
    def is_local(cls) -> bool:
        """Whether it looks at each batch by itself, wherever a log begins or ends."""
        return cls.join is LogCheck.join and cls.__init__ is LogCheck.__init__

    def take(self, run: Block, records: Records | None) -> Iterable[Finding]:
        """The next batches of the stretch, with their records where these were decoded.

        Of a check of headers, records are None.
        """
        raise NotImplementedError

    def join(self: C, later: C) -> Iterable[Finding]:
        """Add the stretch that follows on this one; what is wrong where they meet."""
        del later
        return ()

    def facts(self) -> Facts:
        """What `join` must know of the stretch, as numbers that can be kept."""
        return {}

    def recall(self, facts: Facts) -> None:
        """Become a check that was asked for these facts."""
        del facts
