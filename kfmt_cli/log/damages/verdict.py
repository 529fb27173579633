"""Verdicts on positions in a log without an undamaged batch."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.log.block import LOG_OVERHEAD
from kfmt_cli.log.damages.batch_candidates import HEADER_UP_TO_MAGIC, MINIMUMS, Candidate


@dataclass(frozen=True, slots=True)
class Verdict:
    """end: where reading continues. intact: the bytes up to there are a batch except for its length
    or magic. plausible: the position looked like a Kafka batch."""

    finding: Finding
    end: int
    intact: bool = False
    plausible: bool = True


class Verdicts:
    """Makes the findings for one file."""

    def __init__(self, name: str) -> None:
        self._name = name

    def wrong_length(self, header: Candidate, code: Code, end: int, intact: bool) -> Verdict:
        """The verdict on a wrong length. intact: the checksum matches up to `end`."""
        found = f"the batch at byte {header.position} declares a length of {header.length} bytes"
        if intact:
            expected = end - header.position - LOG_OVERHEAD
            message = f"{found}; its checksum matches for {expected}"
        else:
            expected = None
            message = (
                f"{found}, but an undamaged batch starts at byte {end}: {end - header.position} "
                "bytes skipped"
            )
        finding = self._finding(code, header, message, expected, header.length)
        return Verdict(finding, end, intact)

    def zero_tail(self, at: int, end: int) -> Verdict:
        message = f"{end - at} zero bytes, from byte {at} to the end of the file"
        place = Candidate(at, b"")
        return Verdict(self._finding(codes.ZERO_TAIL, place, message, None, end - at, False), end)

    def zero_hole(self, at: int, zeros: int, end: int, found: int | None) -> Verdict:
        message = f"{zeros - at} zero bytes"
        if zeros < end:
            message += f", then {end - zeros} bytes that are not a batch"
        message += f"; {_skipped(at, end, found)}"
        place = Candidate(at, b"")
        finding = self._finding(codes.ZERO_HOLE, place, message, None, zeros - at, False)
        return Verdict(finding, end)

    def unknown_magic(
        self, header: Candidate, end: int, found: int | None, fitting: int | None
    ) -> Verdict:
        message = f"magic {header.magic}; {_skipped(header.position, end, found)}"
        if fitting is not None:
            message = (
                f"magic {header.magic}; the checksum matches if read as magic {fitting}: "
                f"{_skipped(header.position, end, found)}"
            )
        expected = "0, 1 or 2" if fitting is None else fitting
        finding = self._finding(codes.MAGIC_UNKNOWN, header, message, expected, header.magic)
        return Verdict(finding, end)

    def bad_length(self, header: Candidate, code: Code, end: int, found: int | None) -> Verdict:
        message = (
            f"the batch at byte {header.position} declares a length of {header.length} bytes; "
            f"{_skipped(header.position, end, found)}"
        )
        least = f"at least {MINIMUMS[header.magic]}" if code is not codes.LENGTH_TOO_BIG else None
        return Verdict(self._finding(code, header, message, least, header.length), end)

    def truncated(self, header: Candidate, end: int) -> Verdict:
        there = end - header.position
        if len(header.data) < HEADER_UP_TO_MAGIC:
            message = f"the last {there} bytes are too short for a batch"
            finding = self._finding(codes.BATCH_TRUNCATED, header, message, None, there, False)
        else:
            message = (
                f"the batch at byte {header.position} needs {header.size} bytes, but only {there} "
                "are left"
            )
            finding = self._finding(codes.BATCH_TRUNCATED, header, message, header.size, there)
        return Verdict(finding, end, plausible=len(header.data) >= HEADER_UP_TO_MAGIC)

    def garbage(self, header: Candidate, end: int, found: int | None) -> Verdict:
        message = f"no batch at byte {header.position}; {_skipped(header.position, end, found)}"
        size = end - header.position
        finding = self._finding(codes.GARBAGE, header, message, None, size, False)
        return Verdict(finding, end, plausible=False)

    def overlapping(self, at: int, start: int) -> Verdict:
        message = (
            f"no batch at byte {at}, where one ends: the next one starts at byte {start}, because "
            "the same number of zero bytes is missing from the end of the first; both are read"
        )
        place = Candidate(start, b"")
        return Verdict(self._finding(codes.GARBAGE, place, message, None, 0, False), start)

    def _finding(
        self,
        code: Code,
        header: Candidate,
        message: str,
        expected: str | int | None,
        found: str | int,
        with_offset: bool = True,
    ) -> Finding:
        offset = header.base_offset if with_offset else None
        return Finding(
            self._name,
            code,
            header.position,
            message,
            offset=offset,
            expected=expected,
            found=found,
        )


def _skipped(at: int, end: int, found: int | None) -> str:
    if found is None:
        return f"{end - at} bytes skipped, to the end of the file"
    return f"{end - at} bytes skipped, up to the next batch at byte {found}"
