"""Regular expressions of records: what `re` finds, in bounded time."""

from __future__ import annotations

import pickle
import random
import re
import sys
import time
from contextlib import suppress

import pytest

from kfmt_cli.browse.log_search import REGEX_SEARCH, SearchTerm
from kfmt_cli.errors import UsageError
from kfmt_cli.log.selection import regex as module
from kfmt_cli.log.selection.record_filter import parse_record_filter
from kfmt_cli.log.selection.regex import MAX_SHORT_CONTENT_BYTES, BytesRegex, compile_regex
from tests.support.samples import ORDERS, kfmt

pytest.importorskip("re2")

CATASTROPHIC = [
    "(a|a)" * 25 + "c",
    "(a|a)" * 25 + "c+",
    "(a+)+$",
    "(a|aa)+$",
    "(a|a?)+$",
    "(.*a){20}$",
    "([a-z]+)*=",
    "(?i)(A*)*b",
]
ATOMS = [
    *("a", "b", "A", "é", "ü", ".", r"\.", r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", r"\n", r"\b"),
    *("[ab]", "[^a]", "[]a]", "[^]a]", r"[\s]", r"[^\sa]", "[a[b]", r"[\]\\]", r"\x41", r"\xe9"),
    *("(a|b)", "(?:ab|)", "(?P<n>a)", "(?i:a)", "(?-s:.)", r"\$", "-", r"\-", r"\ ", r"[$\d.]"),
    *("[é]", r"\é", r"[\\s]", r"[\S]", r"[^\S]", r"[\b]", r"\B", "$\n", r"$[\s]", "(?m:a$)"),
    *("(a$|b)", "(?:a$|b)$", "(a|b|c)", r"(?i-s:b.)"),
]
REPEATS = ["", "", "*", "+", "?", "*?", "+?", "{2}", "{,2}", "{1,}", "{0,1}?", "{x}", "{,}"]
CHUNKS = [
    *(b"a", b"b", b"A", b"\xc3\xa9", b"\xe9", b"\xc9", b"\xff", b"\n", b"\x0b"),
    *(b" ", b"1", b"$", b"]", b"[", b"\\"),
]


def random_expression(rng: random.Random) -> str:
    atoms = [rng.choice(ATOMS) + rng.choice(REPEATS) for _ in range(rng.randint(1, 4))]
    prefix = rng.choice(["", "", "^", r"\A", "(?i)", "(?m)^", "(?m)"])
    return prefix + "".join(atoms) + rng.choice(["", "", "$", r"\Z", "|b"])


def test_it_finds_what_re_finds() -> None:
    rng = random.Random(7)
    texts = [b"".join(rng.choices(CHUNKS, k=n)) for n in range(9) for _ in range(12)]
    compared = refused = 0
    for _ in range(3000):
        expression = random_expression(rng)
        try:
            pattern = re.compile(expression.encode(), re.DOTALL)
        except re.error:
            with pytest.raises(ValueError, match=r"\w"):
                compile_regex(expression)
            continue
        regex = None
        with suppress(ValueError):
            regex = compile_regex(expression)
        if regex is None:
            with pytest.raises(ValueError, match="is not supported with repetitions"):
                compile_regex(expression)
            refused += 1
            continue
        for text in texts:
            is_found = pattern.search(text) is not None
            assert regex.matches_anywhere(text) == is_found, (expression, text)
            assert (regex.search_function(len(text))(text) is not None) == is_found, (
                expression,
                text,
            )
            assert text.startswith(regex.literal_prefix) or not is_found, (expression, text)
            compared += 1
    assert compared > 200_000
    assert refused < 700


@pytest.mark.parametrize(
    ("expression", "short_texts", "unmatched"),
    [
        (r":[\\s]+", [rb"C:\src", b"C:s", b"C:top"], [b"C:" + b"x" * MAX_SHORT_CONTENT_BYTES]),
        ("a+$", [b"ba\n"], []),
    ],
)
def test_what_is_found_does_not_depend_on_what_is_next_to_it(
    expression: str, short_texts: list[bytes], unmatched: list[bytes]
) -> None:
    regex = compile_regex(expression)
    for data in short_texts:
        short_match = regex.search_function(len(data))(data)
        long_match = regex.search_function(1000)(data)
        assert (short_match is None) == (long_match is None), data
    assert not any(map(regex.matches_anywhere, unmatched))


@pytest.mark.parametrize("expression", CATASTROPHIC)
def test_no_expression_takes_for_ever(expression: str) -> None:
    began = time.monotonic()
    for text in (b"a" * 100_000 + b"!", b"x" * 100_000, b"a" * MAX_SHORT_CONTENT_BYTES):
        compile_regex(expression).matches_anywhere(text)
        compile_regex(expression).search_function(len(text))(text)
        SearchTerm(expression, REGEX_SEARCH).pattern.matches_anywhere(text)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("expression", "prefix"),
    [
        ("^key-79[0-9]{2}$", b"key-79"),
        (r"\Auser 7*", b"user "),
        ("^ab+", b"a"),
        ("^a{x}", b""),
        ("^a|b", b""),
        ("^(?i:a)b", b""),
        ("(?m)^a", b""),
        ("a", b""),
        ("^\u00e9", b""),
    ],
)
def test_a_literal_prefix_is_known(expression: str, prefix: bytes) -> None:
    assert compile_regex(expression).literal_prefix == prefix


def test_only_short_content_and_few_repetitions_go_to_re() -> None:
    for expression, max_bytes, uses_re in (
        ("^a+b+$", MAX_SHORT_CONTENT_BYTES, True),
        ("^a+b+$", MAX_SHORT_CONTENT_BYTES + 1, False),
        ("a+b+$", MAX_SHORT_CONTENT_BYTES, False),
        ("a+$", MAX_SHORT_CONTENT_BYTES, True),
        ("^a+b+c+", MAX_SHORT_CONTENT_BYTES, False),
        ("^(a)+$", MAX_SHORT_CONTENT_BYTES, False),
    ):
        search = compile_regex(expression).search_function(max_bytes)
        assert isinstance(getattr(search, "__self__", None), re.Pattern) == uses_re, expression


@pytest.mark.parametrize("command", ["find", "dump", "cat"])
def test_no_command_takes_for_ever(command: str) -> None:
    began = time.monotonic()
    result = kfmt(command, ORDERS, "--value", r"~(([\s\S])+)+=$")
    assert result.code in (0, 1)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("expression", [r"(a)\1+", "a(?=b)c*", "(?<!a)b+", "a{5000}", "(?x) a +"])
def test_what_re2_does_not_support_is_reported(expression: str) -> None:
    result = kfmt("find", ORDERS, "--key", f"~{expression}")
    assert result.code == 2
    assert "not a regular expression" in result.err
    assert "are not supported" in result.err
    assert result.err.count("\n") == 1
    with pytest.raises(UsageError, match="are not supported"):
        _ = SearchTerm(expression, REGEX_SEARCH).pattern


def test_only_what_repeats_much_needs_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    module._compile_pattern.cache_clear()
    for expression in ("customer-[1-3]$", r"(?i)hazel|amber", r"a\*", "[*+?{]", r"(a)(?=b)\1"):
        assert not compile_regex(expression).matches_anywhere(b"nothing")
    for expression in (r"^user-\d+$", "a.*b", "ab?", "a{2}", "a{,2}b", "[0-9]+-[a-z]*"):
        assert not compile_regex(expression).matches_anywhere(b"nothing")
    for expression in ("(a+)+$", "(a|b)*", "a*b*c*", "(?:ab){3}", "(a|b|c|d|e|f)"):
        with pytest.raises(UsageError, match=r"pip install 'kfmt-cli\[regex\]'"):
            compile_regex(expression)


def test_it_goes_to_other_processes() -> None:
    record_filter = parse_record_filter("~a+b", None, ["h=~x*"], None)
    assert pickle.loads(pickle.dumps(record_filter)) == record_filter  # noqa: S301
    assert record_filter.key_pattern == BytesRegex(b"a+b")


@pytest.mark.parametrize("pattern", ['{"id":(1|2)', 'x{"id":(1|2)'])
def test_a_brace_at_the_start_repeats_nothing(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without RE2 too, as in a pattern for JSON values."""
    monkeypatch.setitem(sys.modules, "re2", None)
    module._compile_pattern.cache_clear()
    try:
        is_found = compile_regex(pattern).matches_anywhere(b'x{"id":2}')
    finally:
        module._compile_pattern.cache_clear()
    assert is_found
