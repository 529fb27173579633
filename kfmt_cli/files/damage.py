"""Where a log is damaged: what is wrong there, and where the next undamaged batch begins.

A byte counts as the start of a batch again when a plausible header stands there and its checksum is
right. The checksum covers neither the length nor the magic, so a batch whose checksum is right up
to the next batch has lost nothing but those: it is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kfmt_cli.core import scan
from kfmt_cli.core.finding import Code
from kfmt_cli.core.source import Source
from kfmt_cli.files import codes
from kfmt_cli.files.block import HEADER_SIZE, LOG_OVERHEAD
from kfmt_cli.files.header import (
    HEADER_UP_TO_MAGIC,
    MINIMUMS,
    Header,
    Window,
)
from kfmt_cli.files.search import REACH, Search
from kfmt_cli.files.verdict import Verdict, Verdicts

MORE, SIZE, MAGIC = (scan.WALKS[name] for name in ("MORE", "SIZE", "MAGIC"))


class Damage(Search):
    """Says what is wrong in a log where it does not add up, and where to go on."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._verdicts = Verdicts(source.name)

    def judge(
        self, position: int, size: int, follows: bool, after_offset: int | None
    ) -> Verdict | None:
        """What to make of a batch whose checksum is wrong.

        None: its length can be believed. follows: a batch stands behind it, as its length says,
        though perhaps a damaged one. after_offset: the least offset that the batch can have.
        """
        end = position + size
        header = self._header(position)
        window = Window.behind(header, after_offset, None, self.sets)
        at = position + HEADER_UP_TO_MAGIC
        ends = (it for it in self._ends(at, end, header) if window.holds(self._header(it)))
        proven = self._proven_end(header, ends)
        if proven is not None and proven < end:
            return self._wrong_length(header, codes.LENGTH_TOO_BIG, proven)
        beyond = self._header(end)
        leads = self.confirmed(end)
        if leads and window.holds(beyond):
            window = replace(window, last=beyond.base_offset - 1)
        inside = self.find_batch(position + 1, window, end)
        if inside is not None:
            inside = self._next_batch(header, inside)
            return self._wrong_length(header, codes.LENGTH_TOO_BIG, inside)
        if follows or leads or not self._source.block(end, 1, 1):
            return None
        proven = self._proven_end(header, self._ends(end, end + REACH, header))
        if proven is None or proven == end:
            return None
        return self._wrong_length(header, codes.LENGTH_TOO_SMALL, proven)

    def _next_batch(self, header: Header, found: int) -> int:
        """Where the batch behind a damaged one begins, which may be damaged itself, up to `found`.

        That of magic 2 is known by its offset, any by the checksum of the one before it.
        """
        at = header.position + HEADER_UP_TO_MAGIC
        for end in self._ends(at, found, header):
            goes_on = header.magic == 2 and self._header(end).base_offset == header.next_offset
            if goes_on or self._checksum_fits(header, end, header.magic):
                return end
        return found

    def _wrong_length(self, header: Header, code: Code, end: int) -> Verdict:
        intact = end - header.position <= REACH and self._checksum_fits(header, end, header.magic)
        return self._verdicts.wrong_length(header, code, end, intact)

    def _ends(self, at: int, stop: int, header: Header) -> Iterator[int]:
        """Where a batch may end: where an undamaged one begins, or one whose offset goes on from
        the batch's, or at the end of the file."""
        for place in self._plausible_from(at, stop):
            follows = self._header(place).base_offset
            if follows == header.next_offset or self.confirmed(place):
                yield place
        if not self._source.block(stop, 1, 1):
            yield self._end_of_file(at)

    def look(self, at: int, reason: int, after_offset: int | None) -> Verdict:
        """What stands at a byte where no whole batch begins; `reason` is the walk's.

        after_offset: the least offset that the next batch can have.
        """
        header = self._header(at)
        zeros = self._zeros(at)
        if not self._source.block(zeros, 1, 1):
            # Fewer zeros may be the front of a batch that was cut: of its offset, of its length.
            few = zeros - at < LOG_OVERHEAD
            return (
                self._verdicts.truncated(header, zeros)
                if few
                else self._verdicts.zero_tail(at, zeros)
            )
        plausible = header.could_hold(after_offset) and zeros - at < HEADER_UP_TO_MAGIC
        if plausible and (proven := self._by_checksum(header, reason)):
            return proven
        # A header's first bytes may be zeros themselves, up to its length field.
        window = Window.behind(header if plausible else None, after_offset, None, self.sets)
        found = self.find_batch(max(at + 1, zeros - LOG_OVERHEAD), window)
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

    def _by_checksum(self, header: Header, reason: int) -> Verdict | None:
        """What the checksum says of a batch whose length or magic cannot be true."""
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
    def _length_code(header: Header, reason: int) -> Code:
        """What is wrong with a length field that a walk stopped at."""
        if reason == MORE:
            return codes.LENGTH_TOO_BIG
        return codes.LENGTH_NEGATIVE if header.length < 0 else codes.LENGTH_TOO_SMALL
