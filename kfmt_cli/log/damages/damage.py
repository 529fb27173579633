"""Damage in a log: what is wrong, and where the next undamaged batch begins.

A batch begins again at a byte with a plausible header and a matching checksum. The checksum covers
neither the length nor the magic. A batch whose checksum matches up to the next batch has lost only
those, and is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kfmt_cli.core.native import scan
from kfmt_cli.core.source import Source
from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Code
from kfmt_cli.log.block import HEADER_SIZE, LOG_OVERHEAD, STORED_CRC_AT
from kfmt_cli.log.damages.batch_candidates import (
    HEADER_UP_TO_MAGIC,
    MINIMUMS,
    Candidate,
    OffsetWindow,
)
from kfmt_cli.log.damages.search import REACH, WINDOW, BatchSearch
from kfmt_cli.log.damages.verdict import Verdict, Verdicts

OFFSET_SIZE = 8
CRC_SIZE = 4
LENGTH = slice(OFFSET_SIZE, LOG_OVERHEAD)
SIMILAR = 0.9  # of a torn batch's bytes match the complete batch, at least
MORE, SIZE, MAGIC = (scan.WALKS[name] for name in ("MORE", "SIZE", "MAGIC"))


class Damage(BatchSearch):
    """Finds what is wrong with a damaged part of a log, and where reading continues."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._verdicts = Verdicts(source.name)

    def judge(
        self, position: int, size: int, follows: bool, after_offset: int | None
    ) -> Verdict | None:
        """Judge the length of a batch that fails its checksum; None if the length is credible.

        follows: a batch, perhaps damaged, follows at the end that its length gives. after_offset:
        the lowest offset that the batch can have.
        """
        end = position + size
        header = self._header(position)
        window = OffsetWindow.after_damage(header, after_offset, None, self.sets)
        at = position + HEADER_UP_TO_MAGIC
        ends = (start for start in self._ends(at, end, header) if window.holds(self._header(start)))
        proven = self._proven_end(header, ends)
        if proven is not None and proven < end:
            return self._wrong_length(header, codes.LENGTH_TOO_BIG, proven)
        whole = self._whole_copy(header, end)
        if whole is not None:
            return self._wrong_length(header, codes.LENGTH_TOO_BIG, whole)
        beyond = self._header(end)
        leads = self.confirmed(end)
        if leads and header.magic == 2 and beyond.base_offset == header.next_offset:
            return None  # any batch inside is in a record
        if leads and window.holds(beyond):
            window = replace(window, last=beyond.base_offset - 1)
        is_credible = not self._source.block(end, 1, 1)
        inside = self._find_inside(header, window, end, is_credible)
        if inside is not None:
            # A value may contain a complete batch: then the checksum shows where this one ends.
            proven = self._proven_end(header, self._ends(end, end + REACH, header))
            if proven is not None and proven > end:
                return self._wrong_length(header, codes.LENGTH_TOO_SMALL, proven)
            inside = self._next_batch(header, inside)
            return self._wrong_length(header, codes.LENGTH_TOO_BIG, inside)
        if follows or leads or not self._source.block(end, 1, 1):
            return None
        proven = self._proven_end(header, self._ends(end, end + REACH, header))
        if proven is None or proven == end:
            return None
        return self._wrong_length(header, codes.LENGTH_TOO_SMALL, proven)

    def _find_inside(
        self, header: Candidate, window: OffsetWindow, end: int, is_credible: bool
    ) -> int | None:
        """The first batch of the log inside the supposed bytes of a damaged one.

        is_credible: its length leads to the end of the file. Then a batch inside must have the next
        offset, be followed by a batch with the next offset, or lead to that end batch by batch. A
        batch in a value does not, because a record ends with its headers; nor does it end outside.
        """
        for found in self.confirmed_from(header.position + 1, end):
            batch = self._header(found)
            is_repeated = found + batch.size > end and _same_offset(header, batch)
            if not (
                is_repeated or self._belongs(found, window) or window.is_behind_set(batch, end)
            ):
                continue
            after = self._header(found + batch.size)
            goes_on = header.magic == 2 and batch.base_offset == header.next_offset
            goes_on |= after.magic == 2 and after.base_offset == batch.next_offset
            goes_on |= window.is_behind_set(batch, end)
            if not is_credible or goes_on or self._walks(found, end):
                return found
        return None

    def _walks(self, at: int, end: int) -> bool:
        """Whether batches, perhaps damaged, lead from `at` exactly to `end`."""
        while at < end:
            header = self._header(at)
            if header.magic not in (0, 1, 2) or header.length < MINIMUMS[header.magic]:
                return False
            at += header.size
        return at == end

    def _whole_copy(self, header: Candidate, stop: int) -> int | None:
        """The position of the complete batch that repeats this torn one: an interrupted write,
        repeated right after it, perhaps more than once."""
        stop = min(stop, header.position + REACH)
        every = list(self._fronts(header))
        for is_same, fronts in ((self._has_checksum, every), (self._is_similar, [header])):
            for at in self._look_ahead(header.position + 1, stop):
                other = self._header(at)
                if not _same_offset(header, other):
                    continue
                torn = (front for front in fronts if front.position < at)
                if any(is_same(front, other) for front in torn) and self.confirmed(at, self._looks):
                    return at
        return None

    def _fronts(self, header: Candidate) -> Iterator[Candidate]:
        """A torn batch, and those with its offset that begin before its header would end: no record
        of it has them."""
        offset = header.data[:OFFSET_SIZE]
        data = self._source.block(header.position, HEADER_SIZE + OFFSET_SIZE, 1)
        yield header
        at = data.find(offset, 1)
        while at > 0:
            yield self._header(header.position + at)
            at = data.find(offset, at + 1)

    @staticmethod
    def _has_checksum(torn: Candidate, whole: Candidate) -> bool:
        """Whether a torn batch stores the same checksum as a complete one."""
        at = STORED_CRC_AT[min(max(whole.magic, 0), 2)]
        is_long = whole.position - torn.position >= at + CRC_SIZE
        return is_long and torn.data[at : at + CRC_SIZE] == whole.data[at : at + CRC_SIZE]

    def _is_similar(self, torn: Candidate, whole: Candidate) -> bool:
        """Whether nearly all bytes of a torn batch match the complete one.

        Length and checksum do not count, as they may be damaged.
        """
        size = min(whole.position - torn.position, WINDOW)
        left, right = (
            np.frombuffer(self._source.block(candidate.position, size, size), np.uint8)
            for candidate in (torn, whole)
        )
        common = min(len(left), len(right))
        equal = left[:common] == right[:common]
        checksum = STORED_CRC_AT[min(max(whole.magic, 0), 2)]
        equal[LENGTH] = equal[checksum : checksum + CRC_SIZE] = True
        return common > 0 and int(equal.sum()) >= SIMILAR * common

    def _next_batch(self, header: Candidate, found: int) -> int:
        """Where the next batch after a damaged one begins, perhaps damaged itself; at most `found`.

        Its offset shows it for magic 2, and the damaged batch's checksum for any magic.
        """
        at = header.position + HEADER_UP_TO_MAGIC
        for end in self._ends(at, found, header):
            goes_on = header.magic == 2 and self._header(end).base_offset == header.next_offset
            if goes_on or self._checksum_fits(header, end, header.magic):
                return end
        return found

    def _wrong_length(self, header: Candidate, code: Code, end: int) -> Verdict:
        intact = end - header.position <= REACH and self._checksum_fits(header, end, header.magic)
        return self._verdicts.wrong_length(header, code, end, intact)

    def _ends(self, at: int, stop: int, header: Candidate) -> Iterator[int]:
        """Where a batch may end: at an undamaged batch, at one whose offset continues from it, or
        at the end of the file."""
        for place in self._look_ahead(at, stop):
            follows = self._header(place).base_offset
            if follows == header.next_offset or self.confirmed(place, self._looks):
                yield place
        if not self._looks.is_spent and not self._source.block(stop, 1, 1):
            yield self._end_of_file(at)

    def look(self, at: int, reason: int, after_offset: int | None) -> Verdict:
        """Judge a byte where no complete batch begins; `reason` is why the walk stopped.

        after_offset: the lowest offset that the next batch can have.
        """
        if (start := self._overlapping(at)) is not None:
            return self._verdicts.overlapping(at, start)
        header = self._header(at)
        zeros = self._zeros(at)
        if not self._source.block(zeros, 1, 1):
            # Fewer zeros may be the start of a truncated batch: of its offset and length.
            few = zeros - at < LOG_OVERHEAD
            return (
                self._verdicts.truncated(header, zeros)
                if few
                else self._verdicts.zero_tail(at, zeros)
            )
        plausible = header.could_hold(after_offset) and zeros - at < HEADER_UP_TO_MAGIC
        if plausible and (proven := self._by_checksum(header, reason)):
            return proven
        if reason != MORE or plausible:
            size = max(front.position - at + front.size for front in self._fronts(header))
            stop = at + (REACH if reason == SIZE else max(HEADER_SIZE, size))
            if (whole := self._whole_copy(header, stop)) is not None:
                return self._verdicts.garbage(header, whole, whole)
        # A header's first bytes may be zeros themselves, up to its length field.
        window = OffsetWindow.after_damage(
            header if plausible else None, after_offset, None, self.sets
        )
        candidates = self.confirmed_from(max(at + 1, zeros - LOG_OVERHEAD), None)
        found = next((each for each in candidates if self._belongs(each, window)), None)
        if found is not None and plausible and reason != MAGIC:
            found = self._next_batch(header, found)
        end = self._end_of_file(at) if found is None else found
        if zeros - at >= HEADER_UP_TO_MAGIC or end <= zeros:
            return self._verdicts.zero_hole(at, min(zeros, end), end, found)
        if plausible and reason == MAGIC:
            return self._verdicts.unknown_magic(header, end, found, None)
        if plausible and (reason == SIZE or found is not None):
            return self._verdicts.bad_length(header, self._length_code(header, reason), end, found)
        cut = plausible or len(header.data) < HEADER_UP_TO_MAGIC
        if cut and found is None and reason == MORE:
            return self._verdicts.truncated(header, end)
        return self._verdicts.garbage(header, end, found)

    def _overlapping(self, at: int) -> int | None:
        """Where a batch begins whose first bytes are also the last of the batch before `at`, or
        None. If that one was cut short by its last zeros, the zeros of this one's offset complete
        it."""
        least = max(at - OFFSET_SIZE + 1, 0)
        before = self._source.block(least, at - least, at - least)
        for start in range(at - 1, at - 1 - len(before) + len(before.rstrip(b"\0")), -1):
            if self._header(start).could_hold(None) and self.confirmed(start):
                return start
        return None

    def _by_checksum(self, header: Candidate, reason: int) -> Verdict | None:
        """The verdict, by checksum, on a batch with an impossible length or magic, or None."""
        if len(header.data) < HEADER_SIZE:
            return None
        if reason == MAGIC:
            end = header.position + header.size
            for magic in (2, 1, 0):
                if header.length >= MINIMUMS[magic] and self._checksum_fits(header, end, magic):
                    return self._verdicts.unknown_magic(header, end, end, magic)
            return None
        at = header.position
        proven = self._proven_end(header, self._ends(at + HEADER_UP_TO_MAGIC, at + REACH, header))
        if proven is None:
            return None
        return self._wrong_length(header, self._length_code(header, reason), proven)

    @staticmethod
    def _length_code(header: Candidate, reason: int) -> Code:
        """The code for a length field at which a walk stopped."""
        if reason == MORE:
            return codes.LENGTH_TOO_BIG
        return codes.LENGTH_NEGATIVE if header.length < 0 else codes.LENGTH_TOO_SMALL


def _same_offset(one: Candidate, other: Candidate) -> bool:
    return one.data[:OFFSET_SIZE] == other.data[:OFFSET_SIZE]
