"""Verdicts on positions in a log without an undamaged batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
        message = f"the batch at byte {header.position} declares a length of {header.length} bytes"
        expected = None
        if intact:
            expected = end - header.position - LOG_OVERHEAD
            message += f"; its checksum matches for {expected}"
        else:
            message += (
                f", but an undamaged batch starts at byte {end}: {end - header.position} bytes "
                "skipped"
            )
        verdict = self._about(header, code, message, end, expected, header.length)
        return replace(verdict, intact=intact)

    def zero_tail(self, at: int, end: int) -> Verdict:
        message = f"{end - at} zero bytes, from byte {at} to the end of the file"
        return self._at(at, codes.ZERO_TAIL, message, end, end - at)

    def zero_hole(self, at: int, zeros: int, end: int, found: int | None) -> Verdict:
        message = f"{zeros - at} zero bytes"
        if zeros < end:
            message += f", then {end - zeros} bytes that are not a batch"
        message += f"; {_skipped(at, end, found)}"
        return self._at(at, codes.ZERO_HOLE, message, end, zeros - at)

    def unknown_magic(
        self, header: Candidate, end: int, found: int | None, fitting: int | None
    ) -> Verdict:
        skipped = _skipped(header.position, end, found)
        message = f"magic {header.magic}; {skipped}"
        if fitting is not None:
            message = (
                f"magic {header.magic}; the checksum matches if read as magic {fitting}: {skipped}"
            )
        expected = "0, 1 or 2" if fitting is None else fitting
        return self._about(header, codes.MAGIC_UNKNOWN, message, end, expected, header.magic)

    def bad_length(self, header: Candidate, code: Code, end: int, found: int | None) -> Verdict:
        message = (
            f"the batch at byte {header.position} declares a length of {header.length} bytes; "
            f"{_skipped(header.position, end, found)}"
        )
        least = f"at least {MINIMUMS[header.magic]}" if code is not codes.LENGTH_TOO_BIG else None
        return self._about(header, code, message, end, least, header.length)

    def truncated(self, header: Candidate, end: int) -> Verdict:
        at, there = header.position, end - header.position
        if len(header.data) < HEADER_UP_TO_MAGIC:
            message = f"the last {there} bytes are too short for a batch"
            return self._at(at, codes.BATCH_TRUNCATED, message, end, there, plausible=False)
        message = f"the batch at byte {at} needs {header.size} bytes, but only {there} are left"
        return self._about(header, codes.BATCH_TRUNCATED, message, end, header.size, there)

    def garbage(self, header: Candidate, end: int, found: int | None) -> Verdict:
        at = header.position
        message = f"no batch at byte {at}; {_skipped(at, end, found)}"
        return self._at(at, codes.GARBAGE, message, end, end - at, plausible=False)

    def overlapping(self, at: int, start: int) -> Verdict:
        message = (
            f"no batch at byte {at}, where one ends: the next one starts at byte {start}, because "
            "the same number of zero bytes is missing from the end of the first; both are read"
        )
        return self._at(start, codes.GARBAGE, message, start, 0)

    def _about(
        self,
        header: Candidate,
        code: Code,
        message: str,
        end: int,
        expected: str | int | None,
        found: int,
    ) -> Verdict:
        """The verdict on a batch with a header. end: where reading continues."""
        offset, at = header.base_offset, header.position
        finding = Finding(
            *(self._name, code, at, message), offset=offset, expected=expected, found=found
        )
        return Verdict(finding, end)

    def _at(
        self, at: int, code: Code, message: str, end: int, size: int, *, plausible: bool = True
    ) -> Verdict:
        """The verdict on bytes that are not known to be a batch. size: how many these are."""
        finding = Finding(self._name, code, at, message, found=size)
        return Verdict(finding, end, plausible=plausible)


def _skipped(at: int, end: int, found: int | None) -> str:
    if found is None:
        return f"{end - at} bytes skipped, to the end of the file"
    return f"{end - at} bytes skipped, up to the next batch at byte {found}"
