"""Names the wrong checksum that an encoder stored: another polynomial, other bytes, another form.

A match is no coincidence: all variants together cover one in 10⁶ of the 2³² checksums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kfmt_cli.core.codecs.checksum import CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, compute_crc

SHORT_NAMES = {CRC32_POLYNOMIAL: "CRC-32", CRC32C_POLYNOMIAL: "CRC-32C"}
POLYNOMIAL_NAMES = {CRC32_POLYNOMIAL: "CRC-32 (zlib)", CRC32C_POLYNOMIAL: "CRC-32C"}
CRC_BYTES = 4
MAX_TRIED_START = 64  # checksums are tried from each byte before this one
ALL_BITS = 0xFFFFFFFF
# From a register of zeros in place of ones: the argument for which a library function starts so.
ZERO_REGISTER = ALL_BITS


@dataclass(frozen=True, slots=True)
class ChecksummedBytes:
    """The bytes of a batch or message, and its checksum as it should be.

    data: from its offset field onward. first_byte: the position of `data[0]` that messages count
    from. start: where the checksummed bytes begin in `data`. start_name: the field there.
    crc_start: where the checksum is. format_name: the format, for messages. uncompressed: `data`
    with its records decompressed; None if it is not compressed.
    """

    data: bytes
    first_byte: int
    start: int
    start_name: str
    crc_start: int
    polynomial: int
    format_name: str
    uncompressed: bytes | None = None


class _Variant(NamedTuple):
    polynomial: int
    start: int
    is_uncompressed: bool
    form: str


def describe_stored_checksum(
    stored: int, target: ChecksummedBytes, format_position: Callable[[int], str]
) -> str | None:
    """Text that says which checksum of which bytes the stored one is, and what it should be; None
    if no variant matches. format_position: the text for a byte position."""
    stored_text = f"{stored:08x}"
    if stored == 0:
        return "was it never computed?"
    variant = next((v for v, checksum in _iter_variants(target) if checksum == stored), None)
    if variant is None:
        return None
    name, right_name = POLYNOMIAL_NAMES[variant.polynomial], POLYNOMIAL_NAMES[target.polynomial]
    form = f" {variant.form}" if variant.form else ""
    end = len(target.uncompressed or b"") if variant.is_uncompressed else len(target.data)
    if variant.is_uncompressed:
        covered = "the bytes before compression; it covers the compressed records, as stored"
        return f"{stored_text} is the {name}{form} of {covered}"
    if variant.start == target.start:
        if variant.polynomial != target.polynomial:
            needed = f"{target.format_name} needs {right_name}"
            return f"{stored_text} is {name}{form} of the right bytes; {needed}"
        return f"{stored_text} is the right {name}{form}"
    first, last = (format_position(target.first_byte + byte) for byte in (variant.start, end - 1))
    right_start = format_position(target.first_byte + target.start)
    other_name = "" if name == right_name else f", and {target.format_name} needs {right_name}"
    return (
        f"{stored_text} is the {name}{form} of bytes {first}..{last} (it must begin at "
        f"{target.start_name}, byte {right_start}{other_name})"
    )


def _iter_variants(target: ChecksummedBytes) -> Iterator[tuple[_Variant, int]]:
    """Each checksum that an encoder may have stored by mistake, the likely ones first."""
    starts = sorted(
        range(min(MAX_TRIED_START, len(target.data))), key=lambda start: start != target.start
    )
    polynomials = sorted(POLYNOMIAL_NAMES, key=lambda name: name != target.polynomial)
    for start in starts:
        for polynomial in polynomials:
            yield from _iter_forms(polynomial, start, target.data, target.crc_start, False)
    if target.uncompressed is not None:
        for polynomial in polynomials:
            yield from _iter_forms(
                polynomial, target.start, target.uncompressed, target.crc_start, True
            )


def _iter_forms(
    polynomial: int, start: int, data: bytes, crc_start: int, is_uncompressed: bool
) -> Iterator[tuple[_Variant, int]]:
    covered = data[start:]
    if start < crc_start + CRC_BYTES:  # the checksum was zeros when it was computed
        crc_index = max(crc_start - start, 0)
        n_crc_bytes = crc_start + CRC_BYTES - max(start, crc_start)
        covered = covered[:crc_index] + bytes(n_crc_bytes) + covered[crc_index + n_crc_bytes :]
    for previous_crc, register_text in ((0, ""), (ZERO_REGISTER, "from a register of zeros")):
        checksum = compute_crc(polynomial, covered, previous_crc)
        for value, form in (
            (checksum, ""),
            (_swap_bytes(checksum), "with its bytes in reverse order"),
            (checksum ^ ALL_BITS, "without its final inversion"),
            (_swap_bytes(checksum ^ ALL_BITS), "without its final inversion, bytes reversed"),
        ):
            text = ", ".join(filter(None, (register_text, form)))
            yield _Variant(polynomial, start, is_uncompressed, text), value


def _swap_bytes(checksum: int) -> int:
    return int.from_bytes(checksum.to_bytes(CRC_BYTES, "little"), "big")
