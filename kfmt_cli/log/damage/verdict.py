"""Verdicts on positions in a log without an undamaged batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kfmt_cli.findings import codes
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

    def __init__(self, file_name: str) -> None:
        self._file_name = file_name

    def wrong_length_verdict(
        self, header: BatchCandidate, code: FindingCode, batch_end: int, is_intact: bool
    ) -> DamageVerdict:
        """The verdict on a wrong length. is_intact: the checksum matches up to `batch_end`."""
        message = (
            f"the batch at byte {header.position} declares a length of "
            f"{header.declared_length} bytes"
        )
        expected = None
        if is_intact:
            expected = batch_end - header.position - LOG_OVERHEAD_BYTES
            message += f"; its checksum matches for {expected}"
        else:
            message += (
                f", but an undamaged batch starts at byte {batch_end}: "
                f"{batch_end - header.position} bytes "
                "skipped"
            )
        verdict = self._batch_verdict(
            header, code, message, batch_end, expected, header.declared_length
        )
        return replace(verdict, is_intact=is_intact)

    def zero_tail_verdict(self, position: int, file_end: int, n_hole_bytes: int) -> DamageVerdict:
        message = f"{file_end - position} zero bytes, from byte {position} to the end of the file"
        message += _format_holes(n_hole_bytes)
        return self._bytes_verdict(
            position, codes.ZERO_TAIL, message, file_end, file_end - position
        )

    def zero_hole_verdict(
        self,
        position: int,
        zeros_end: int,
        damage_end: int,
        next_batch_start: int | None,
        n_hole_bytes: int,
    ) -> DamageVerdict:
        message = f"{zeros_end - position} zero bytes{_format_holes(n_hole_bytes)}"
        if zeros_end < damage_end:
            message += f", then {damage_end - zeros_end} bytes that are not a batch"
        message += f"; {_format_skipped_bytes(position, damage_end, next_batch_start)}"
        return self._bytes_verdict(
            position, codes.ZERO_HOLE, message, damage_end, zeros_end - position
        )

    def unknown_magic_verdict(
        self,
        header: BatchCandidate,
        damage_end: int,
        next_batch_start: int | None,
        matching_magic: int | None,
    ) -> DamageVerdict:
        skipped_text = _format_skipped_bytes(header.position, damage_end, next_batch_start)
        message = f"magic {header.magic}; {skipped_text}"
        if matching_magic is not None:
            message = (
                f"magic {header.magic}; the checksum matches if read as magic "
                f"{matching_magic}: {skipped_text}"
            )
        expected = "0, 1 or 2" if matching_magic is None else matching_magic
        return self._batch_verdict(
            header, codes.MAGIC_UNKNOWN, message, damage_end, expected, header.magic
        )

    def invalid_length_verdict(
        self,
        header: BatchCandidate,
        code: FindingCode,
        damage_end: int,
        next_batch_start: int | None,
    ) -> DamageVerdict:
        message = (
            f"the batch at byte {header.position} declares a length of "
            f"{header.declared_length} bytes; "
            f"{_format_skipped_bytes(header.position, damage_end, next_batch_start)}"
        )
        expected = (
            f"at least {MIN_LENGTH_BY_MAGIC[header.magic]}"
            if code is not codes.BATCH_LENGTH_TOO_BIG
            else None
        )
        return self._batch_verdict(
            header, code, message, damage_end, expected, header.declared_length
        )

    def truncated_batch_verdict(self, header: BatchCandidate, file_end: int) -> DamageVerdict:
        position, n_available_bytes = header.position, file_end - header.position
        if len(header.header_bytes) < BYTES_UP_TO_MAGIC:
            message = f"the last {n_available_bytes} bytes are too short for a batch"
            return self._bytes_verdict(
                position,
                codes.BATCH_TRUNCATED,
                message,
                file_end,
                n_available_bytes,
                is_plausible=False,
            )
        message = (
            f"the batch at byte {position} needs {header.declared_size} bytes, but only "
            f"{n_available_bytes} are left"
        )
        return self._batch_verdict(
            header,
            codes.BATCH_TRUNCATED,
            message,
            file_end,
            header.declared_size,
            n_available_bytes,
        )

    def garbage_verdict(
        self, header: BatchCandidate, damage_end: int, next_batch_start: int | None
    ) -> DamageVerdict:
        position = header.position
        message = (
            f"no batch at byte {position}; "
            f"{_format_skipped_bytes(position, damage_end, next_batch_start)}"
        )
        return self._bytes_verdict(
            position, codes.GARBAGE, message, damage_end, damage_end - position, is_plausible=False
        )

    def overlapping_batch_verdict(self, position: int, next_batch_start: int) -> DamageVerdict:
        message = (
            f"no batch at byte {position}, where one ends: the next one starts at byte "
            f"{next_batch_start}, "
            "because the same number of zero bytes is missing from the end of the first; both are "
            "read"
        )
        return self._bytes_verdict(next_batch_start, codes.GARBAGE, message, next_batch_start, 0)

    def _batch_verdict(
        self,
        header: BatchCandidate,
        code: FindingCode,
        message: str,
        next_position: int,
        expected: str | int | None,
        found: int,
    ) -> DamageVerdict:
        """The verdict on a batch with a header. next_position: where reading continues."""
        offset, position = header.base_offset, header.position
        finding = Finding(
            *(self._file_name, code, position, message),
            offset=offset,
            expected=expected,
            found=found,
        )
        return DamageVerdict(finding, next_position)

    def _bytes_verdict(
        self,
        position: int,
        code: FindingCode,
        message: str,
        next_position: int,
        n_bytes: int,
        *,
        is_plausible: bool = True,
    ) -> DamageVerdict:
        """The verdict on bytes that are not known to be a batch. n_bytes: the number of bytes."""
        finding = Finding(self._file_name, code, position, message, found=n_bytes)
        return DamageVerdict(finding, next_position, is_plausible=is_plausible)


def _format_skipped_bytes(position: int, damage_end: int, next_batch_start: int | None) -> str:
    if next_batch_start is None:
        return f"{damage_end - position} bytes skipped, to the end of the file"
    return f"{damage_end - position} bytes skipped, up to the next batch at byte {next_batch_start}"


def _format_holes(n_hole_bytes: int) -> str:
    """How many zeros are not on the disk."""
    return f", {n_hole_bytes} of them in holes of the sparse file" if n_hole_bytes else ""
