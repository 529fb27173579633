"""Bytes from text: what people copy from terminals, Wireshark, debuggers and source code."""

from __future__ import annotations

import base64
import shutil
import subprocess

import pytest

from kfmt_cli.core.pasted_bytes import PastedTextError, parse_pasted_bytes
from tests.support.wrong_encoders import encode_batch

BATCH = encode_batch()
LONG = bytes(96) + BATCH + bytes(64)


def text_of(*words: str, data: bytes = LONG) -> str:
    return subprocess.run(words, input=data, stdout=subprocess.PIPE, check=True).stdout.decode()


def dump(data: bytes, separator: str, width: int = 16) -> str:
    """A dump as Wireshark copies it."""
    return "\n".join(
        f"{start:04x}{separator}{data[start : start + width].hex(' '):<{width * 3 - 1}}   "
        + "".join(chr(b) if 32 <= b < 127 else "." for b in data[start : start + width])
        for start in range(0, len(data), width)
    )


TEXTS = {
    "hex digits": BATCH.hex(),
    "hex: with spaces": "hex:" + BATCH.hex(" "),
    "upper case": BATCH.hex().upper(),
    "colons": BATCH.hex(":"),
    "C array": "{ " + ", ".join(f"0x{b:02x}" for b in BATCH) + " }",
    "base64:": "base64:" + base64.b64encode(BATCH).decode(),
    "base64 without padding": "base64:" + base64.urlsafe_b64encode(BATCH).decode().rstrip("="),
    "base64 alone": base64.b64encode(BATCH).decode(),
    "Python": repr(BATCH),
    "Python with escapes": "b'" + "".join(f"\\x{b:02x}" for b in BATCH) + "'",
    "C string": '"' + "".join(f"\\x{b:02x}" for b in BATCH) + '"',
    "Wireshark's escaped string": "".join(
        '"' + "".join(f"\\x{b:02x}" for b in BATCH[i : i + 16]) + '" \\\n'
        for i in range(0, len(BATCH), 16)
    ),
    "Wireshark's hex dump": dump(BATCH, "   "),
    "tcpdump -X": "\n".join(
        f"\t0x{i:04x}:  {BATCH[i : i + 16].hex(' ', 2):<39}  ................"
        for i in range(0, len(BATCH), 16)
    ),
    "Java": str([b - 256 if b > 127 else b for b in BATCH]),
    "Go": str(list(BATCH)).replace(",", ""),
    "a byte order mark": "\ufeff" + BATCH.hex(),
    "Windows lines": "\r\n".join(BATCH.hex()[i : i + 32] for i in range(0, len(BATCH) * 2, 32)),
}
PROGRAMS = {
    "xxd": ("xxd",),
    "xxd -u": ("xxd", "-u"),
    "xxd -g1": ("xxd", "-g", "1"),
    "xxd -c8": ("xxd", "-c", "8"),
    "xxd -p": ("xxd", "-p"),
    "hexdump -C": ("hexdump", "-C"),
    "hexdump": ("hexdump",),
    "hexdump -Cv": ("hexdump", "-Cv"),
    "od": ("od", "-A", "x", "-t", "x1"),
    "od with characters": ("od", "-A", "x", "-t", "x1z"),
    "od with octal addresses": ("od", "-t", "x1"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_bytes_of_text(name: str) -> None:
    pasted = parse_pasted_bytes(TEXTS[name])
    assert pasted is not None
    assert pasted.data == BATCH


@pytest.mark.parametrize("name", PROGRAMS)
def test_bytes_of_a_program(name: str) -> None:
    if shutil.which(PROGRAMS[name][0]) is None:
        pytest.skip(f"no {PROGRAMS[name][0]} here")
    pasted = parse_pasted_bytes(text_of(*PROGRAMS[name]))
    assert pasted is not None
    assert pasted.data == LONG


def test_a_dump_whose_characters_look_like_digits() -> None:
    data = b"abcdef0123456789" * 3
    pasted = parse_pasted_bytes(dump(data, "   "))
    assert pasted is not None
    assert (pasted.data, pasted.format_name) == (data, "a hex dump")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hex:zz", "has the digits"),
        ("hex:abc", "two digits per byte"),
        ("base64:!", "not base64"),
        ("b'\\x0", "not a byte literal"),
        ("00000000: 0000 00\n00000010: 0000\n", "line 1 has 3 bytes, but the next address is 16"),
    ],
)
def test_what_is_wrong_with_text(text: str, reason: str) -> None:
    with pytest.raises(PastedTextError, match=reason):
        parse_pasted_bytes(text)


@pytest.mark.parametrize("text", ["", "hello", "this is no dump", "log.txt\n", "0123 4567 xyz"])
def test_other_text(text: str) -> None:
    assert parse_pasted_bytes(text) is None
