"""Text that is no number of Kafka's or of a user's is refused, and never ends in a traceback."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path

import pytest

from kfmt_cli.core.integers import java_trim, parse_int, parse_java_int
from kfmt_cli.core.json_text import parse_json
from kfmt_cli.core.layout.protocol_types import UuidType
from kfmt_cli.core.times import format_time
from kfmt_cli.core.uuids import format_uuid, parse_uuid
from tests.support.samples import ORDERS, kfmt

NO_NUMBERS = ["--5", "²", "5" * 5000, "", "-", "1_000", " 1", "1.0", "0x1", "٣²"]
UUID_TEXT = "Id4qCpYkZMw8zR87hsZy-Q"


@pytest.mark.parametrize("text", [*NO_NUMBERS, "+5", "٣", "1" * 21])
def test_what_is_no_number_is_none(text: str) -> None:
    assert parse_int(text) is None


@pytest.mark.parametrize("text", ["0", "-5", "007", "9" * 20])
def test_a_number_is_read(text: str) -> None:
    assert parse_int(text) == int(text)


@pytest.mark.parametrize(
    ("text", "n_bits", "number"),
    [
        *((text, 64, None) for text in NO_NUMBERS),
        ("+5", 32, 5),
        ("-0005", 32, -5),
        ("0" * 6000 + "5", 32, 5),
        ("٣", 32, 3),
        (f"{(1 << 31) - 1}", 32, (1 << 31) - 1),
        (f"{1 << 31}", 32, None),
        (f"{-(1 << 31)}", 32, -(1 << 31)),
        (f"{1 << 31}", 64, 1 << 31),
        (f"{-(1 << 63)}", 64, -(1 << 63)),
        (f"{1 << 63}", 64, None),
    ],
)
def test_java_reads_numbers_of_its_types(text: str, n_bits: int, number: int | None) -> None:
    assert parse_java_int(text, n_bits) == number


@pytest.mark.parametrize("text", [UUID_TEXT, f"{UUID_TEXT}==", "A" * 22])
def test_an_id_is_read_as_kafka_reads_it(text: str) -> None:
    assert parse_uuid(text) == base64.urlsafe_b64decode(text[:22] + "==")
    assert format_uuid(parse_uuid(text)) == text[:22].rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        UUID_TEXT.replace("-", "+"),
        f"{UUID_TEXT[:-1]}/",
        f"{UUID_TEXT}=",
        f"{UUID_TEXT[:-1]}!",
        f"{UUID_TEXT}!!!!",
        f"{UUID_TEXT}\n",
        UUID_TEXT[:-1],
        f"{UUID_TEXT}AAAA",
        str(uuid.UUID(int=5)),
        "",
    ],
)
def test_an_id_that_kafka_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a uuid"):
        parse_uuid(text)


def test_a_typed_id_may_have_hyphens() -> None:
    assert UuidType.encode(str(uuid.UUID(int=5))) == uuid.UUID(int=5).bytes


@pytest.mark.parametrize("text", ["[" * 200_000, "{", b"\xff", b'{"a":' * 200_000])
def test_json_that_is_malformed_or_too_deep_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (any)
        parse_json(text)


@pytest.mark.parametrize("text", ["--5", "²", "5" * 5000, f"now-{'9' * 5000}d"])
def test_a_time_that_is_none_is_a_usage_error(text: str) -> None:
    result = kfmt("cat", f"--from-time={text}", ORDERS)
    assert result.code == 2
    assert "not a valid time" in result.err


@pytest.mark.parametrize("text", ["²", "--3", "5" * 5000])
@pytest.mark.parametrize(
    "arguments",
    [
        ["stat", "--what-if", "zstd:{}", ORDERS],
        ["explain", "timing-wheel", "--tick", "{}"],
        ["response-header", "--api", "{}", "--api-version", "0", "00000000"],
        ["replicas", ORDERS.parents[1], "--order", "{}"],
        ["verify-crc", "--jobs", "1", "--max-decompressed", "{}", ORDERS],
    ],
)
def test_an_option_that_is_no_number_is_a_usage_error(
    arguments: list[str | Path], text: str
) -> None:
    filled = [item.format(text) if isinstance(item, str) else item for item in arguments]
    result = kfmt(*filled)
    assert result.code == 2
    assert "Traceback" not in result.err


def test_years_before_1000_have_four_digits() -> None:
    assert format_time(-62_135_596_799_999) == "0001-01-01 00:00:00.001"


@pytest.mark.parametrize("text", ["𝟙", "𞥑", "1\u00a0", "1\x85"])
def test_java_reads_no_digit_of_two_characters_and_trims_no_other_space(text: str) -> None:
    assert parse_java_int(java_trim(text)) is None


def test_java_trims_control_characters() -> None:
    assert parse_java_int(java_trim(" \t1\x1c\0")) == 1
