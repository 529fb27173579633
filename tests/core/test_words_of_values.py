"""Times, durations, sizes and numbers as text, at the limits of their units."""

from __future__ import annotations

import time

import pytest

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.times import format_duration, format_interval_end, format_time, parse_time_ms
from kfmt_cli.errors import UsageError
from kfmt_cli.render.style import (
    COLOUR_THEME,
    NO_COLOUR,
    details_after_name,
    escape_unprintable,
    format_bytes,
    format_count,
    format_thousands,
    quote_for_shell,
)

DAY = 86_400_000


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [
        *((0, "0 ms"), (-5, "-5 ms"), (1, "1 ms"), (999, "999 ms"), (1000, "1 s")),
        *((1500, "1.5 s"), (59_999, "60 s"), (60_000, "1 min"), (90_000, "1.5 min")),
        *((3_600_000, "1 h"), (DAY - 1, "24 h"), (DAY, "1 day"), (DAY + 1, "1 day")),
        *((DAY * 3 // 2, "1.5 days"), (2 * DAY, "2 days"), (36_400 * DAY, "36400 days")),
    ],
)
def test_a_span_of_time_is_in_its_largest_unit(duration_ms: int, expected: str) -> None:
    assert format_duration(duration_ms) == expected


@pytest.mark.parametrize(
    ("time_ms", "text", "end_text"),
    [
        (0, "1970-01-01 00:00:00.000", "1970-01-01 00:00:00"),
        (1, "1970-01-01 00:00:00.001", "1970-01-01 00:00:00"),
        (-1, "1969-12-31 23:59:59.999", "1969-12-31 23:59:59"),
        (1_700_000_000_050, "2023-11-14 22:13:20.050", "2023-11-14 22:13:20"),
        (253_402_300_799_999, "9999-12-31 23:59:59.999", "9999-12-31 23:59:59"),
        (253_402_300_800_000, "253402300800000 ms", "after the year 9999"),
        (1 << 62, f"{1 << 62} ms", "after the year 9999"),
    ],
)
def test_a_time_in_utc(time_ms: int, text: str, end_text: str) -> None:
    assert (format_time(time_ms), format_interval_end(time_ms)) == (text, end_text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("0", 0), ("1700000000000", 1_700_000_000_000), ("-1", -1)),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20.050+01:00", 1_699_996_400_050),
        ("2023-11-14", 1_699_920_000_000),
    ],
)
def test_a_time_is_understood(text: str, expected: int) -> None:
    assert parse_time_ms("--now", text) == expected


@pytest.mark.parametrize(
    ("text", "age_ms"),
    [
        *(("now", 0), ("now-0s", 0), ("now-90s", 90_000), ("now-5m", 300_000)),
        *(("now-1h", 3_600_000), ("now-7d", 7 * DAY)),
    ],
)
def test_a_time_before_now(text: str, age_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.25)
    assert parse_time_ms("--now", text) == 1_700_000_000_250 - age_ms


@pytest.mark.parametrize("text", ["", "yesterday", "now-1w", "now+1h", "now-h", "2023-13-01"])
def test_an_invalid_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_time_ms("--from-time", text)
    assert str(raised.value).startswith(f"--from-time {text!r}: not a valid time; use ")


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        *((0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1049, "1.0 kB"), (1051, "1.1 kB")),
        *((99_949, "99.9 kB"), (100_000, "100 kB"), (999_499, "999 kB"), (999_500, "1.0 MB")),
        *((10**6, "1.0 MB"), (999_500_000, "1.0 GB"), (10**12, "1.0 TB"), (10**15, "1.0 PB")),
        *((999_600_000_000_000, "1.0 PB"), (10**18, "1000 PB"), (123 * 10**18, "123000 PB")),
    ],
)
def test_bytes_in_three_digits(size: int, expected: str) -> None:
    assert format_bytes(size) == expected


def test_numbers_with_their_nouns() -> None:
    assert [format_thousands(n) for n in (0, 999, 1000, 1234567, -1000)] == [
        *("0", "999", "1 000", "1 234 567", "-1 000")
    ]
    assert [format_count(n, "batch", "batches") for n in (0, 1, 2)] == [
        *("0 batches", "1 batch", "2 batches")
    ]
    assert [format_count(n, "record") for n in (0, 1, 1000)] == [
        "0 records",
        "1 record",
        "1 000 records",
    ]


def test_details_stand_behind_a_name_if_they_fit() -> None:
    assert details_after_name("name", " 12345", 10) == " 12345"
    assert details_after_name("name", " 123456", 10) == "\n 123456"
    assert details_after_name("name", " 123456", None) == " 123456"
    assert details_after_name("a long name", "", 5) == ""


def test_words_are_painted_only_with_colour() -> None:
    assert NO_COLOUR.paint("bad", "x") == "x"
    assert COLOUR_THEME.paint("bad", "x") == "\x1b[1;31mx\x1b[0m"
    assert COLOUR_THEME.paint("dim", "") == "\x1b[2m\x1b[0m"


@pytest.mark.parametrize(
    ("text", "quoted", "escaped"),
    [
        ("plain-1.log", "plain-1.log", "plain-1.log"),
        ("a b", "'a b'", "a b"),
        ("it's", "'it'\"'\"'s'", "it's"),
        ("é", "'é'", "é"),
        ("a\nb", "$'a\\x0ab'", "a\\nb"),
        ("\x1b[0m", "$'\\x1b[0m'", "\\x1b[0m"),
        ("'\\\n", "$'\\x27\\x5c\\x0a'", "'\\\\n"),
        ("~ \x7f\x1f", "$'~ \\x7f\\x1f'", "~ \\x7f\\x1f"),
        ("\u202e", "$'\\xe2\\x80\\xae'", "\\u202e"),
    ],
)
def test_names_disturb_no_terminal(text: str, quoted: str, escaped: str) -> None:
    assert (quote_for_shell(text), escape_unprintable(text)) == (quoted, escaped)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, None, True]}, '{"a":[1,null,true]}'),
        ("é\x1b\u202e", '"é\\u001b\\u202e"'),
        ("\x7f\x85\ud800", '"\\u007f\\u0085\\ud800"'),
        (float("nan"), '"NaN"'),
        ([float("inf"), float("-inf"), 1.5], '["Infinity","-Infinity",1.5]'),
        ({"a": (float("nan"), {"b": float("inf")})}, '{"a":["NaN",{"b":"Infinity"}]}'),
    ],
)
def test_json_that_is_safe_to_print(value: object, text: str) -> None:
    assert json_text(value) == text
