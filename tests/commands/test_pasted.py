"""Pasted bytes as an input of hex, dump and verify-crc."""

from __future__ import annotations

import base64

import pytest

from tests.support.samples import ORDERS, kfmt
from tests.support.wrong_encoders import Mistakes, encode_batch

BATCH = encode_batch()
WRONG = encode_batch(Mistakes(crc=lambda _: 1))
PASTED = {
    "hex:": (f"hex:{BATCH.hex()}", ""),
    "base64:": (f"base64:{base64.b64encode(BATCH).decode()}", "read as base64, 129 bytes"),
    "Python": (repr(BATCH), "read as a Python literal, 129 bytes"),
    "a dump": (
        "\n".join(f"{i:08x}  {BATCH[i : i + 16].hex(' ')}" for i in range(0, len(BATCH), 16)),
        "read as a hex dump, 129 bytes",
    ),
}


@pytest.mark.parametrize("name", PASTED)
@pytest.mark.parametrize("command", ["hex", "dump", "verify-crc"])
def test_commands_read_what_is_pasted(command: str, name: str) -> None:
    text, note = PASTED[name]
    done = kfmt(command, text)
    assert done.code == 0, done.err
    assert note in done.err
    assert bool(note) == ("read as" in done.err)
    if name != "Python":
        piped = kfmt(command, "-", stdin=text.encode())
        assert piped.code == 0, piped.err
        assert note in piped.err


@pytest.mark.parametrize("command", ["hex", "dump", "verify-crc"])
def test_pasted_bytes_get_no_advice_about_brokers(command: str) -> None:
    for done in (kfmt(command, f"hex:{WRONG.hex()}"), kfmt(command, "-", stdin=WRONG)):
        assert done.code == 1
        assert "broker" not in done.out + done.err
    row = kfmt("verify-crc", "--json", "-", stdin=WRONG).of("finding")[0]
    assert (row["after_crash"], row["after_clean_shutdown"], row["advice"]) == (None, None, None)


@pytest.mark.parametrize("command", ["dump", "verify-crc"])
def test_a_log_on_standard_input_is_read_as_it_is(command: str) -> None:
    data = ORDERS.read_bytes()
    piped, named = kfmt(command, "-", "--json", stdin=data), kfmt(command, ORDERS, "--json")
    assert piped.code == 0
    assert len(piped.rows) == len(named.rows)
    assert "read as" not in piped.err


def test_text_that_is_no_bytes_is_not_a_log() -> None:
    done = kfmt("verify-crc", "-", stdin=b"hello\n")
    assert done.code == 3
    assert "-: not a Kafka log segment" in done.err


def test_commands_without_standard_input_name_the_argument_as_a_path() -> None:
    done = kfmt("check", "hex:00")
    assert done.code == 3
    assert "hex:00: No such file or directory" in done.err
