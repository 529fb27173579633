"""Where a log is damaged: what is wrong there, and where the next undamaged batch begins.

A byte counts as the start of a batch again when a plausible header stands there and its checksum is
right. The checksum covers neither the length nor the magic, so a batch whose checksum is right up
to the next batch has lost nothing but those: it is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kfmt_cli.core import scan
from kfmt_cli.core.checksum import RunningCrc
from kfmt_cli.core.finding import Code
from kfmt_cli.core.source import Source
from kfmt_cli.files import codes
from kfmt_cli.files.block import CHECKED_FROM, HEADER_SIZE, LOG_OVERHEAD, POLYNOMIALS, STORED_CRC_AT
from kfmt_cli.files.header import (
    HEADER_UP_TO_MAGIC,
    MINIMUMS,
    RANGE,
    ZEROS,
    Header,
    Window,
)
from kfmt_cli.files.verdict import Verdict, Verdicts

WINDOW = 1 << 20
# A pipe's bytes are kept this far back, and a batch's checksum is looked for this far ahead.
REACH = 64 << 20
# Checksums that may be computed for candidates: this many bytes, and this many a byte searched.
BUDGET = 256 << 20
BUDGET_RATIO = 16
# So many batches in a row are no chance, nor the contents of a record.
CHAIN = 3
MORE, SIZE, MAGIC = (scan.WALKS[name] for name in ("MORE", "SIZE", "MAGIC"))


class Damage:
    """Looks around in a log where it does not add up."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._verdicts = Verdicts(source.name)
        self.sets = True  # whether compressed message sets of magic 0 and 1 may be there
        self._spent = 0
        self._searched = 0
        self._seen = 0  # where a search got to; a pipe may have let go of what is far before it

    @staticmethod
    def checked_from(magic: int) -> int:
        """The byte of a batch where the bytes that its checksum covers begin."""
        return CHECKED_FROM[magic]

    def confirmed(self, at: int) -> bool:
        """Whether a whole batch with the right checksum begins at `at`."""
        header = self._header(at)
        magic = header.magic
        if magic not in (0, 1, 2) or header.length < MINIMUMS[magic]:
            return False
        return self._checksum_fits(header, at + header.size, magic)

    def _header(self, at: int) -> Header:
        return Header(at, self._source.block(at, HEADER_SIZE, HEADER_SIZE))

    def _checksum_fits(self, header: Header, end: int, magic: int) -> bool:
        """Whether the bytes up to `end` have the checksum that the header stores."""
        size = self._source.size
        if (
            end - header.position < LOG_OVERHEAD + MINIMUMS[magic]
            or end - header.position > self._source.largest
        ):
            return False
        if size is not None and end > size and not self._source.block(end - 1, 1, 1):
            return False
        at = STORED_CRC_AT[magic]
        stored = int.from_bytes(header.data[at : at + 4], "big")
        crc = RunningCrc(POLYNOMIALS[magic])
        at = header.position + CHECKED_FROM[magic]
        while at < end:
            if self._spent > BUDGET + BUDGET_RATIO * self._searched:
                return False
            piece = self._source.block(at, min(WINDOW, end - at), min(WINDOW, end - at))
            if not piece:
                return False
            crc.update(piece)
            at += len(piece)
            self._spent += len(piece)
        return crc.value == stored

    def _belongs(self, at: int, window: Window) -> bool:
        """Whether the confirmed batch at `at` is one of the log, not one inside a record.

        A record may hold whole batches, and compressed message sets of magic 0 and 1 begin with a
        message as it was. Those have offsets of their own, or none that make sense.
        """
        header = self._header(at)
        if not window.holds(header):
            return window.last is None and self._chain(at, CHAIN)
        bounded = window.first is not None and window.last is not None
        if header.magic == 2 and (bounded or header.base_offset in window.likely):
            return True
        if header.magic < 2 and not header.compressed and window.sets:
            followed = self._is_followed(header) and self._chain(at, 2)
            return followed or window.is_near(header) or self._is_among_loose(header)
        return not self._is_contradicted(header, window)

    def _is_among_loose(self, header: Header) -> bool:
        """Whether the next batch that is followed by another is a message by itself, too."""
        end = header.position + header.size
        for at in self.confirmed_from(end, end + WINDOW):
            after = self._header(at)
            if self._is_followed(after):
                loose = after.magic < 2 and not after.compressed
                return loose and header.base_offset < after.base_offset
        return False

    def _is_contradicted(self, header: Header, window: Window) -> bool:
        """Whether one of the next batches has the offset that should stand before this one."""
        end = header.position + header.size
        agreeing = 0
        for at in self.confirmed_from(end, end + WINDOW):
            after = self._header(at)
            before = after.magic == 2 and after.base_offset < header.next_offset
            if before and after.base_offset in window.likely:
                return True
            agreeing += window.holds(after)
            if agreeing == CHAIN:
                break
        return False

    def _is_followed(self, header: Header) -> bool:
        """Whether the file ends behind a batch, or what stands there could be the next one."""
        end = header.position + header.size
        if not self._source.block(end, 1, 1):
            return True
        after = self._header(end)
        if after.magic in (0, 1, 2):
            return header.next_offset <= after.base_offset < header.next_offset + RANGE
        return not any(after.data) and not self._source.block(self._zeros(end), 1, 1)

    def _chain(self, at: int, n: int) -> bool:
        """Whether n undamaged batches with growing offsets stand at `at`, or all there are."""
        offset = -1
        for _ in range(n):
            if not self._source.block(at, 1, 1):
                return True
            header = self._header(at)
            if header.base_offset <= offset or not self.confirmed(at):
                return False
            offset = header.base_offset
            at += header.size
        return True

    def _proven_end(self, header: Header, ends: Iterator[int]) -> int | None:
        """The first of some ends for which the header's checksum is right."""
        for end in ends:
            if end - header.position > REACH:
                return None
            if self._checksum_fits(header, end, header.magic):
                return end
        return None

    def find_batch(self, at: int, window: Window, stop: int | None = None) -> int | None:
        """The first batch of the log that begins at `at` or later, before `stop`."""
        for found in self.confirmed_from(at, stop):
            if self._belongs(found, window):
                return found
        return None

    def confirmed_from(self, at: int, stop: int | None) -> Iterator[int]:
        """Where undamaged batches begin, from `at` on and before `stop`."""
        return filter(self.confirmed, self._plausible_from(at, stop))

    def _plausible_from(self, at: int, stop: int | None) -> Iterator[int]:
        """Where batches could begin by their headers, from `at` on and before `stop`."""
        while True:
            length = WINDOW if stop is None else min(WINDOW, stop - at + HEADER_SIZE)
            data = self._source.block(at, length, length)
            size = self._source.size
            available = self._source.largest if size is None else max(size - at, len(data))
            end = len(data) if stop is None else min(len(data), stop - at + HEADER_UP_TO_MAGIC - 1)
            candidate = -1
            while True:
                candidate = scan.find_header(data, candidate + 1, end, MINIMUMS, ZEROS, available)
                if candidate < 0:
                    break
                yield at + candidate
            self._searched += len(data)
            self._seen = max(self._seen, at)
            if len(data) < WINDOW or end < len(data):
                return
            at += len(data) - HEADER_SIZE
            self._source.release(at - REACH)

    def _end_of_file(self, at: int) -> int:
        """Where the file ends, at `at` or later."""
        at = max(at, self._seen, self._source.size or 0)
        while piece := self._source.block(at, WINDOW, 1):
            at += len(piece)
            self._source.release(at - REACH)
        return at

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

    def _zeros(self, at: int) -> int:
        """The first byte from `at` on that is not zero, or the end of the file."""
        while piece := self._source.block(at, WINDOW, 1):
            first: int = scan.find_nonzero(piece, 0, len(piece))
            at += first
            if first < len(piece):
                break
            self._source.release(at - REACH)
        return at

    @staticmethod
    def _length_code(header: Header, reason: int) -> Code:
        """What is wrong with a length field that a walk stopped at."""
        if reason == MORE:
            return codes.LENGTH_TOO_BIG
        return codes.LENGTH_NEGATIVE if header.length < 0 else codes.LENGTH_TOO_SMALL
