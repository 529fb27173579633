"""Verdicts on positions in a log without an undamaged batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Finding, FindingCode
from kfmt_cli.log.block import LOG_OVERHEAD_BYTES
from kfmt_cli.log.damage.batch_candidates import (
    BYTES_UP_TO_MAGIC,
    MIN_LENGTH_BY_MAGIC,
    BatchCandidate,
)


@dataclass(frozen=True, slots=True)
class DamageVerdict:
    """The finding about a position without an undamaged batch.

    next_position: where reading continues. is_intact: the bytes up to there are a batch except for
    its length field. is_plausible: the position looked like a Kafka batch.
    """

    finding: Finding
    next_position: int
    is_intact: bool = False
    is_plausible: bool = True


class VerdictBuilder:
    """Builds the verdicts on one file."""

    def __init__(self, name: str) -> None:
        self._file_name = name

    def wrong_length(
        self, header: BatchCandidate, code: FindingCode, end: int, is_intact: bool
    ) -> DamageVerdict:
        """The verdict on a wrong length. is_intact: the checksum matches up to `end`."""
        message = f"the batch at byte {header.position} declares a length of {header.length} bytes"
        expected = None
        if is_intact:
            expected = end - header.position - LOG_OVERHEAD_BYTES
            message += f"; its checksum matches for {expected}"
        else:
            message += (
                f", but an undamaged batch starts at byte {end}: {end - header.position} bytes "
                "skipped"
            )
        verdict = self._batch_verdict(header, code, message, end, expected, header.length)
        return replace(verdict, is_intact=is_intact)

    def zero_tail(self, position: int, end: int) -> DamageVerdict:
        message = f"{end - position} zero bytes, from byte {position} to the end of the file"
        return self._bytes_verdict(position, codes.ZERO_TAIL, message, end, end - position)

    def zero_hole(
        self, position: int, zeros_end: int, damage_end: int, next_batch_position: int | None
    ) -> DamageVerdict:
        message = f"{zeros_end - position} zero bytes"
        if zeros_end < damage_end:
            message += f", then {damage_end - zeros_end} bytes that are not a batch"
        message += f"; {_format_skipped(position, damage_end, next_batch_position)}"
        return self._bytes_verdict(
            position, codes.ZERO_HOLE, message, damage_end, zeros_end - position
        )

    def unknown_magic(
        self, header: BatchCandidate, end: int, next_start: int | None, matching_magic: int | None
    ) -> DamageVerdict:
        skipped_text = _format_skipped(header.position, end, next_start)
        message = f"magic {header.magic}; {skipped_text}"
        if matching_magic is not None:
            message = (
                f"magic {header.magic}; the checksum matches if read as magic "
                f"{matching_magic}: {skipped_text}"
            )
        expected = "0, 1 or 2" if matching_magic is None else matching_magic
        return self._batch_verdict(
            header, codes.MAGIC_UNKNOWN, message, end, expected, header.magic
        )

    def invalid_length(
        self, header: BatchCandidate, code: FindingCode, end: int, next_start: int | None
    ) -> DamageVerdict:
        message = (
            f"the batch at byte {header.position} declares a length of {header.length} bytes; "
            f"{_format_skipped(header.position, end, next_start)}"
        )
        expected = (
            f"at least {MIN_LENGTH_BY_MAGIC[header.magic]}"
            if code is not codes.LENGTH_TOO_BIG
            else None
        )
        return self._batch_verdict(header, code, message, end, expected, header.length)

    def truncated(self, header: BatchCandidate, end: int) -> DamageVerdict:
        position, n_available = header.position, end - header.position
        if len(header.data) < BYTES_UP_TO_MAGIC:
            message = f"the last {n_available} bytes are too short for a batch"
            return self._bytes_verdict(
                position, codes.BATCH_TRUNCATED, message, end, n_available, is_plausible=False
            )
        message = (
            f"the batch at byte {position} needs {header.size} bytes, but only "
            f"{n_available} are left"
        )
        return self._batch_verdict(
            header, codes.BATCH_TRUNCATED, message, end, header.size, n_available
        )

    def garbage(self, header: BatchCandidate, end: int, next_start: int | None) -> DamageVerdict:
        position = header.position
        message = f"no batch at byte {position}; {_format_skipped(position, end, next_start)}"
        return self._bytes_verdict(
            position, codes.GARBAGE, message, end, end - position, is_plausible=False
        )

    def overlapping(self, position: int, start: int) -> DamageVerdict:
        message = (
            f"no batch at byte {position}, where one ends: the next one starts at byte {start}, "
            "because the same number of zero bytes is missing from the end of the first; both are "
            "read"
        )
        return self._bytes_verdict(start, codes.GARBAGE, message, start, 0)

    def _batch_verdict(
        self,
        header: BatchCandidate,
        code: FindingCode,
        message: str,
        end: int,
        expected: str | int | None,
        found: int,
    ) -> DamageVerdict:
        """The verdict on a batch with a header. end: where reading continues."""
        offset, position = header.base_offset, header.position
        finding = Finding(
            *(self._file_name, code, position, message),
            offset=offset,
            expected=expected,
            found=found,
        )
        return DamageVerdict(finding, end)

    def _bytes_verdict(
        self,
        position: int,
        code: FindingCode,
        message: str,
        end: int,
        size: int,
        *,
        is_plausible: bool = True,
    ) -> DamageVerdict:
        """The verdict on bytes that are not known to be a batch. size: the number of bytes."""
        finding = Finding(self._file_name, code, position, message, found=size)
        return DamageVerdict(finding, end, is_plausible=is_plausible)


def _format_skipped(position: int, end: int, next_start: int | None) -> str:
    if next_start is None:
        return f"{end - position} bytes skipped, to the end of the file"
    return f"{end - position} bytes skipped, up to the next batch at byte {next_start}"
