"""Where a log is damaged: what is wrong there, and where the next undamaged batch begins.

A byte counts as the start of a batch again when a plausible header stands there and its checksum is
right. The checksum covers neither the length nor the magic, so a batch whose checksum is right up
to the next batch has lost nothing but those: it is shown as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.core import scan
from kfmt_cli.core.checksum import RunningCrc
from kfmt_cli.core.finding import Code, Finding
from kfmt_cli.core.source import Source
from kfmt_cli.files import codes
from kfmt_cli.files.block import CHECKED_FROM, HEADER_SIZE, LOG_OVERHEAD, POLYNOMIALS, STORED_CRC_AT
from kfmt_cli.files.header import HEADER_UP_TO_MAGIC, MINIMUMS, ZEROS, Header

WINDOW = 1 << 20
# A pipe's bytes are kept this far back, and a batch's checksum is looked for this far ahead.
REACH = 64 << 20
# Checksums that may be computed for candidates: this many bytes, and this many a byte searched.
BUDGET = 256 << 20
BUDGET_RATIO = 16


@dataclass(frozen=True, slots=True)
class Verdict:
    """end: where to go on. intact: the bytes up to there are a batch but for its length or magic.
    plausible: the place looked like a batch of Kafka's."""

    finding: Finding
    end: int
    intact: bool = False
    plausible: bool = True


class Damage:
    """Looks around in a log where it does not add up."""

    def __init__(self, source: Source, base_offset: int | None) -> None:
        self._source = source
        self._base_offset = base_offset
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
            header.position + HEADER_UP_TO_MAGIC > end
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

    def _belongs(self, at: int, after: int | None) -> bool:
        """Whether the confirmed batch at `at` is one of the log, not one inside a record.

        A record may hold whole batches, and compressed message sets of magic 0 and 1 begin with a
        message as it was. Those have offsets of their own, and no batch follows them.
        """
        header = self._header(at)
        if after is None or header.base_offset > after:
            return True
        end = at + header.size
        return not self._source.block(end, 1, 1) or self.confirmed(end)

    def _leads_to(self, at: int, after: int, end: int) -> bool:
        """Whether undamaged batches with offsets beyond `after` fill the bytes at..end."""
        while at < end and self.confirmed(at) and (header := self._header(at)).base_offset > after:
            after = header.base_offset
            at += header.size
        return at == end

    def find_batch(self, at: int, after: int | None, stop: int | None = None) -> int | None:
        """The first confirmed batch that begins at `at` or later, before `stop`.

        after: an offset that comes before the batch's.
        """
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
                if self.confirmed(at + candidate) and self._belongs(at + candidate, after):
                    return at + candidate
            self._searched += len(data)
            self._seen = max(self._seen, at)
            if len(data) < WINDOW or end < len(data):
                return None
            at += len(data) - HEADER_SIZE
            self._source.release(at - REACH)

    def _end_of_file(self, at: int) -> int:
        """Where the file ends, at `at` or later."""
        at = max(at, self._seen, self._source.size or 0)
        while piece := self._source.block(at, WINDOW, 1):
            at += len(piece)
            self._source.release(at - REACH)
        return at

    def judge(self, position: int, size: int, follows: bool) -> Verdict | None:
        """What to make of a batch whose checksum is wrong.

        None: its length can be believed. follows: a batch stands behind it, as its length says,
        though perhaps a damaged one.
        """
        end = position + size
        header = self._header(position)
        inside = self.find_batch(position + 1, header.base_offset, end)
        if not self._source.block(end, 1, 1) or self.confirmed(end):
            # The length leads to the right place; but bytes may be missing before it.
            leads = inside is not None and self._leads_to(inside, header.base_offset, end)
            inside = inside if leads else None
            follows = True
        if inside is not None:
            return self._wrong_length(header, codes.LENGTH_TOO_BIG, inside)
        if follows:
            return None
        beyond = self.find_batch(end, header.base_offset, end + REACH)
        if beyond is None and not self._source.block(end + REACH, 1, 1):
            beyond = self._end_of_file(end)
        if beyond is not None and self._checksum_fits(header, beyond, header.magic):
            return self._wrong_length(header, codes.LENGTH_TOO_SMALL, beyond)
        return None

    def _wrong_length(self, header: Header, code: Code, end: int) -> Verdict:
        intact = end - header.position <= REACH and self._checksum_fits(header, end, header.magic)
        found = f"the batch at byte {header.position} says that {header.length} bytes follow"
        if intact:
            expected = end - header.position - LOG_OVERHEAD
            message = f"{found}; its checksum is right for {expected}"
        else:
            expected = None
            message = (
                f"{found}, but an undamaged batch begins at byte {end}: "
                f"{end - header.position} bytes skipped"
            )
        finding = self._finding(code, header, message, expected, header.length)
        return Verdict(finding, end, intact)

    def look(self, at: int, reason: int, after_offset: int | None) -> Verdict:
        """What stands at a byte where no whole batch begins; `reason` is the walk's.

        after_offset: the offset that the next batch would have if none were missing.
        """
        header = self._header(at)
        zeros = self._zeros(at)
        if not self._source.block(zeros, 1, 1):
            # Fewer zeros may be the front of a batch that was cut: of its offset, of its length.
            few = zeros - at < LOG_OVERHEAD
            return self._truncated(header, zeros) if few else self._zero_tail(at, zeros)
        # A header's first bytes may be zeros themselves, up to its length field.
        before = None if after_offset is None else after_offset - 1
        found = self.find_batch(max(at + 1, zeros - LOG_OVERHEAD), before)
        end = self._end_of_file(at) if found is None else found
        if zeros - at >= HEADER_UP_TO_MAGIC or end <= zeros:
            return self._zero_hole(at, min(zeros, end), end, found)
        offset = self._base_offset if after_offset is None else after_offset
        plausible = header.could_hold(offset)
        if plausible and reason == scan.WALKS["MAGIC"]:
            return self._unknown_magic(header, end, found)
        if plausible and reason == scan.WALKS["SIZE"]:
            negative = header.length < 0
            code = codes.LENGTH_NEGATIVE if negative else codes.LENGTH_TOO_SMALL
            return self._bad_length(header, code, end, found)
        if plausible and reason == scan.WALKS["MORE"]:
            whole = len(header.data) == HEADER_SIZE and end - at <= REACH
            if found is not None or (whole and self._checksum_fits(header, end, header.magic)):
                return self._bad_length(header, codes.LENGTH_TOO_BIG, end, found)
        if (
            found is None
            and reason == scan.WALKS["MORE"]
            and (plausible or len(header.data) < HEADER_UP_TO_MAGIC)
        ):
            return self._truncated(header, end)
        return self._garbage(header, end, found)

    def _zeros(self, at: int) -> int:
        """The first byte from `at` on that is not zero, or the end of the file."""
        while piece := self._source.block(at, WINDOW, 1):
            first: int = scan.find_nonzero(piece, 0, len(piece))
            at += first
            if first < len(piece):
                break
            self._source.release(at - REACH)
        return at

    def _zero_tail(self, at: int, end: int) -> Verdict:
        message = f"{end - at} zero bytes from byte {at} to the end of the file"
        place = Header(at, b"")
        return Verdict(self._finding(codes.ZERO_TAIL, place, message, None, end - at, False), end)

    def _zero_hole(self, at: int, zeros: int, end: int, found: int | None) -> Verdict:
        message = f"{zeros - at} zero bytes"
        if zeros < end:
            message += f" and {end - zeros} bytes behind them that are no batch"
        message += f"; {_skipped(at, end, found)}"
        place = Header(at, b"")
        finding = self._finding(codes.ZERO_HOLE, place, message, None, zeros - at, False)
        return Verdict(finding, end)

    def _unknown_magic(self, header: Header, end: int, found: int | None) -> Verdict:
        fitting = [
            magic
            for magic in (2, 1, 0)
            if end - header.position <= REACH and self._checksum_fits(header, end, magic)
        ]
        message = f"magic {header.magic}; {_skipped(header.position, end, found)}"
        if fitting:
            message = (
                f"magic {header.magic}; read as magic {fitting[0]} the checksum is right: "
                f"{_skipped(header.position, end, found)}"
            )
        expected = fitting[0] if fitting else "0, 1 or 2"
        finding = self._finding(codes.MAGIC_UNKNOWN, header, message, expected, header.magic)
        return Verdict(finding, end)

    def _bad_length(self, header: Header, code: Code, end: int, found: int | None) -> Verdict:
        if end - header.position <= REACH and self._checksum_fits(header, end, header.magic):
            return self._wrong_length(header, code, end)
        message = (
            f"the batch at byte {header.position} says that {header.length} bytes follow; "
            f"{_skipped(header.position, end, found)}"
        )
        expected = (
            f"at least {MINIMUMS[header.magic]}" if code is not codes.LENGTH_TOO_BIG else None
        )
        return Verdict(self._finding(code, header, message, expected, header.length), end)

    def _truncated(self, header: Header, end: int) -> Verdict:
        there = end - header.position
        if len(header.data) < HEADER_UP_TO_MAGIC:
            message = f"{there} bytes at the end are too few for a batch"
            finding = self._finding(codes.BATCH_TRUNCATED, header, message, None, there, False)
        else:
            message = (
                f"the batch at byte {header.position} takes {header.size} bytes, "
                f"the file ends after {there}"
            )
            finding = self._finding(codes.BATCH_TRUNCATED, header, message, header.size, there)
        return Verdict(finding, end, plausible=len(header.data) >= HEADER_UP_TO_MAGIC)

    def _garbage(self, header: Header, end: int, found: int | None) -> Verdict:
        message = f"no batch at byte {header.position}; {_skipped(header.position, end, found)}"
        size = end - header.position
        finding = self._finding(codes.GARBAGE, header, message, None, size, False)
        return Verdict(finding, end, plausible=False)

    def _finding(
        self,
        code: Code,
        header: Header,
        message: str,
        expected: str | int | None,
        found: str | int,
        with_offset: bool = True,
    ) -> Finding:
        offset = header.base_offset if with_offset else None
        return Finding(self._source.name, code, header.position, message, offset, expected, found)


def _skipped(at: int, end: int, found: int | None) -> str:
    if found is None:
        return f"{end - at} bytes skipped, to the end of the file"
    return f"{end - at} bytes skipped, up to the next batch at byte {found}"
