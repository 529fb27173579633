"""Varints: known pairs, limits, and the two commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfmt_cli.core.layout import varint
from tests.support.samples import kfmt

PAIRS = [
    *((0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (63, "7e"), (64, "8001"), (300, "d804")),
    *((8191, "fe7f"), (8192, "808001"), (1048575, "feff7f"), (1048576, "80808001")),
    *(((1 << 31) - 1, "feffffff0f"), (-(1 << 31), "ffffffff0f")),
]


@pytest.mark.parametrize(("value", "hex_"), PAIRS)
def test_known_pairs(value: int, hex_: str) -> None:
    assert varint.encode_uvarint(varint.zigzag_encode(value, 32)).hex() == hex_
    row = kfmt("encode-varint", str(value), "--json").rows[0]
    assert row == {
        "type": "varint",
        "encoding": "varint",
        "value": value,
        "zigzag": varint.zigzag_encode(value, 32),
        "hex": hex_,
        "size": len(hex_) // 2,
    }
    assert kfmt("decode-varint", hex_, "--json").rows == [row]


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_zigzag_and_back(value: int) -> None:
    raw = varint.zigzag_encode(value, 64)
    assert varint.zigzag_decode(raw) == value
    data = varint.encode_uvarint(raw)
    assert varint.decode_uvarint(data, 0, len(data), 64) == (raw, len(data))
    assert len(data) <= varint.MAX_VARINT_BYTES[64]


def test_minus_one_takes_ten_bytes_without_zigzag() -> None:
    assert len(varint.encode_uvarint(-1 & varint.VARINT_MASKS[64])) == 10


def test_unsigned_and_long() -> None:
    row = kfmt("encode-varint", "300", "--type", "unsigned_varint", "--json").rows[0]
    assert (row["hex"], row["zigzag"], row["encoding"]) == ("ac02", None, "unsigned_varint")
    assert kfmt("encode-varint", "--type", "unsigned", "300", "--json").rows[0] == row
    assert kfmt("encode-varint", "300", "--format", "csv", "--table", "record").out == ""
    varlong = kfmt("encode-varint", "--type", "varlong", str(-(1 << 63)), "--json").rows[0]
    assert (varlong["size"], varlong["zigzag"]) == (10, (1 << 64) - 1)
    assert kfmt("decode-varint", "--type", "varlong", varlong["hex"], "--json").rows == [varlong]


def test_negative_numbers_need_no_dashes_before_them() -> None:
    result = kfmt("encode-varint", "-1", "-300", "5", "--json")
    assert [row["value"] for row in result.rows] == [-1, -300, 5]


def test_several_varints_in_some_bytes() -> None:
    for arguments in (["D8", "04", "01"], ["d80401"], ["0xD804", "01"], ["d8 04 01"]):
        assert [r["value"] for r in kfmt("decode-varint", *arguments, "--json").rows] == [300, -1]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["encode-varint", "2147483648"], "out of range"),
        (["encode-varint", "-2147483649"], "out of range"),
        (["encode-varint", "--type", "unsigned_varint", "-1"], "out of range"),
        (["encode-varint", "three"], "not an integer"),
        (["encode-varint", "1.5"], "not an integer"),
        (["decode-varint", "80"], "truncated varint: ends after 1 byte"),
        (["decode-varint", "ffffffffff01"], "at most 5 bytes"),
        (["decode-varint", "ffffffff1f"], "more than 32 bits"),
        (["decode-varint", "8000"], "longer than necessary"),
        (["decode-varint", "xyz"], "not hexadecimal"),
        (["decode-varint", "abc"], "not hexadecimal"),
        (["decode-varint", ""], "no bytes"),
        (["decode-varint", "--type", "varlong", "ff" * 10 + "01"], "at most 10 bytes"),
        (["encode-varint"], "Missing argument"),
    ],
)
def test_invalid_arguments_are_reported(arguments: list[str], reason: str) -> None:
    result = kfmt(*arguments)
    assert result.code == 2
    assert reason in result.err
    assert result.out == ""


def test_the_steps_are_drawn() -> None:
    output = kfmt("encode-varint", "300").out
    for text in ("0000 0001  0010 1100", "600 = (300 << 1) ^ (300 >> 31)", "0000100  1011000"):
        assert text in output
    assert "1·1011000  0·0000100" in output
    assert "D8 04   2 bytes; an int32 takes 4: 2 saved" in output


def test_minus_one_without_zigzag_takes_ten_bytes() -> None:
    result = kfmt("encode-varint", "--type", "unsigned_varlong", "--", "-1")
    assert result.code == 2
    assert "give 18446744073709551615" in result.err
    result = kfmt("encode-varint", "--type", "unsigned_varlong", "18446744073709551615", "--json")
    assert result.rows[0]["hex"] == "ffffffffffffffffff01"


def test_only_a_value_that_fits_without_zigzag_has_a_hint() -> None:
    unsigned = ("encode-varint", "--type", "unsigned_varint")
    assert "give 4294967295" in kfmt(*unsigned, "-1").err
    for value in ("4294967296", "-4294967296"):
        assert "without zigzag" not in kfmt(*unsigned, value).err
    assert "without zigzag" not in kfmt("encode-varint", "-2147483649").err
