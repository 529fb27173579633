"""Ranges of offsets: which a log holds, and what is left of some when others are taken away."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from kfmt_cli.core.finding import Finding, Severity
from kfmt_cli.core.source import open_source
from kfmt_cli.files.codes import BATCH_TRUNCATED
from kfmt_cli.files.kinds.kind import Input
from kfmt_cli.files.log import LogReader
from kfmt_cli.formats.batch import RECORD_BATCH
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET

Range = tuple[int, int]
Ranges = list[Range]


def merged(ranges: Iterable[Range]) -> Ranges:
    """Ranges in order, those that touch or overlap as one."""
    found: Ranges = []
    for first, last in sorted(it for it in ranges if it[0] <= it[1]):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def without(ranges: Iterable[Range], others: Iterable[Range]) -> Ranges:
    """What is left of ranges outside of others."""
    left = merged(ranges)
    for low, high in merged(others):
        parts: Ranges = []
        for first, last in left:
            parts += [(first, min(last, low - 1)), (max(first, high + 1), last)]
        left = [it for it in parts if it[0] <= it[1]]
    return merged(left)


@dataclass(slots=True)
class LogRanges:
    """The batches of a log as kfmt finds them, damaged ones too.

    batches: position, base and last offset of each. bad: those whose checksum does not fit.
    findings: of reading it.
    """

    base: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    bad: set[int] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_damaged(self) -> bool:
        """Whether bytes of it are lost."""
        return bool(self.bad) or any(it.code.severity is Severity.ERROR for it in self.findings)

    def held(self, next_base: int | None) -> Ranges:
        """The offsets that it holds, or held before it was damaged."""
        ranges = merged((first, last) for _, first, last in self.batches)
        if not self.is_damaged:
            return ranges
        last = max([it[1] for it in ranges], default=self.base - 1)
        first = min([self.base, *(it[0] for it in ranges)])
        if next_base is not None:
            last = max(last, next_base - 1)
        return merged([(first, last)])

    def before(self, position: int) -> Ranges:
        """The offsets of the batches before a byte."""
        return merged((first, last) for at, first, last in self.batches if at < position)


def ranges_of(file: Input, base: int) -> LogRanges:
    """The batches of a log; raises InputError."""
    found = LogRanges(base)
    source = open_source(file.path, file.name)
    try:
        for block in LogReader(source, base).blocks():
            found.findings += block.findings
            names = ("position", "base_offset", "last_offset", "has_base_offset", "crc_valid")
            columns = (block.batches[name].tolist() for name in names)
            for at, first, last, has_first, is_valid in zip(*columns, strict=True):
                before = found.batches[-1][2] + 1 if found.batches else base
                low = first if has_first else min(before, last)
                if not is_valid:
                    found.bad.add(at)
                if low <= last <= low + MAX_RELATIVE_OFFSET:
                    found.batches.append((at, low, last))
        for it in found.findings:
            if it.code is BATCH_TRUNCATED and it.position is not None:
                _add_truncated(found, source.block(it.position, RECORD_BATCH.dtype.itemsize, 1), it)
    finally:
        source.close()
    return found


def _add_truncated(found: LogRanges, head: bytes, finding: Finding) -> None:
    """The offsets of a batch that the file's end cuts, where its header is whole."""
    if len(head) < RECORD_BATCH.dtype.itemsize or head[RECORD_BATCH.offset_of("magic")] != 2:
        return
    first = struct.unpack_from(">q", head)[0]
    delta = struct.unpack_from(">i", head, RECORD_BATCH.offset_of("last_offset_delta"))[0]
    near = found.base <= first <= found.base + MAX_RELATIVE_OFFSET
    if near and delta >= 0:
        found.batches.append((finding.position or 0, first, first + delta))
        found.bad.add(finding.position or 0)


def size_of_ranges(ranges: Iterable[Range]) -> int:
    """How many offsets there are."""
    return sum(last - first + 1 for first, last in ranges)
