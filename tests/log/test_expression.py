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
from kfmt_cli.log.selection.regex import SHORT_BYTES, BytesRegex, compile_regex
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
PIECES = [
    *(b"a", b"b", b"A", b"\xc3\xa9", b"\xe9", b"\xc9", b"\xff", b"\n", b"\x0b"),
    *(b" ", b"1", b"$", b"]", b"[", b"\\"),
]


def made(draw: random.Random) -> str:
    parts = [draw.choice(ATOMS) + draw.choice(REPEATS) for _ in range(draw.randint(1, 4))]
    front = draw.choice(["", "", "^", r"\A", "(?i)", "(?m)^", "(?m)"])
    return front + "".join(parts) + draw.choice(["", "", "$", r"\Z", "|b"])


def test_it_finds_what_re_finds() -> None:
    draw = random.Random(7)
    texts = [b"".join(draw.choices(PIECES, k=n)) for n in range(9) for _ in range(12)]
    compared = refused = 0
    for _ in range(3000):
        words = made(draw)
        try:
            known = re.compile(words.encode(), re.DOTALL)
        except re.error:
            with pytest.raises(ValueError, match=r"\w"):
                compile_regex(words)
            continue
        ours = None
        with suppress(ValueError):
            ours = compile_regex(words)
        if ours is None:
            with pytest.raises(ValueError, match="is not supported with repetitions"):
                compile_regex(words)
            refused += 1
            continue
        for text in texts:
            is_found = known.search(text) is not None
            assert ours.search(text) == is_found, (words, text)
            assert (ours.search_function(len(text))(text) is not None) == is_found, (words, text)
            assert text.startswith(ours.literal_prefix) or not is_found, (words, text)
            compared += 1
    assert compared > 200_000
    assert refused < 700


@pytest.mark.parametrize(
    ("words", "few", "many"),
    [
        (r":[\\s]+", [rb"C:\src", b"C:s", b"C:top"], [b"C:" + b"x" * SHORT_BYTES]),
        ("a+$", [b"ba\n"], []),
    ],
)
def test_what_is_found_does_not_depend_on_what_is_next_to_it(
    words: str, few: list[bytes], many: list[bytes]
) -> None:
    ours = compile_regex(words)
    for data in few:
        alone, among = ours.search_function(len(data))(data), ours.search_function(1000)(data)
        assert (alone is None) == (among is None), data
    assert not any(map(ours.search, many))


@pytest.mark.parametrize("words", CATASTROPHIC)
def test_no_expression_takes_for_ever(words: str) -> None:
    began = time.monotonic()
    for text in (b"a" * 100_000 + b"!", b"x" * 100_000, b"a" * SHORT_BYTES):
        compile_regex(words).search(text)
        compile_regex(words).search_function(len(text))(text)
        SearchTerm(words, REGEX_SEARCH).pattern.search(text)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("words", "beginning"),
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
def test_what_it_begins_with_spares_the_search(words: str, beginning: bytes) -> None:
    assert compile_regex(words).literal_prefix == beginning


def test_only_short_content_and_few_repetitions_go_to_re() -> None:
    for words, longest, is_of_re in (
        ("^a+b+$", SHORT_BYTES, True),
        ("^a+b+$", SHORT_BYTES + 1, False),
        ("a+b+$", SHORT_BYTES, False),
        ("a+$", SHORT_BYTES, True),
        ("^a+b+c+", SHORT_BYTES, False),
        ("^(a)+$", SHORT_BYTES, False),
    ):
        search = compile_regex(words).search_function(longest)
        assert isinstance(getattr(search, "__self__", None), re.Pattern) == is_of_re, words


@pytest.mark.parametrize("command", ["find", "dump", "cat"])
def test_no_command_takes_for_ever(command: str) -> None:
    began = time.monotonic()
    done = kfmt(command, ORDERS, "--value", r"~(([\s\S])+)+=$")
    assert done.code in (0, 1)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("words", [r"(a)\1+", "a(?=b)c*", "(?<!a)b+", "a{5000}", "(?x) a +"])
def test_what_re2_cannot_do_is_said(words: str) -> None:
    done = kfmt("find", ORDERS, "--key", f"~{words}")
    assert done.code == 2
    assert "not a regular expression" in done.err
    assert "are not supported" in done.err
    assert done.err.count("\n") == 1
    with pytest.raises(UsageError, match="are not supported"):
        _ = SearchTerm(words, REGEX_SEARCH).pattern


def test_only_what_repeats_much_needs_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    module._compile.cache_clear()
    for words in ("customer-[1-3]$", r"(?i)hazel|amber", r"a\*", "[*+?{]", r"(a)(?=b)\1"):
        assert not compile_regex(words).search(b"nothing")
    for words in (r"^user-\d+$", "a.*b", "ab?", "a{2}", "a{,2}b", "[0-9]+-[a-z]*"):
        assert not compile_regex(words).search(b"nothing")
    for words in ("(a+)+$", "(a|b)*", "a*b*c*", "(?:ab){3}", "(a|b|c|d|e|f)"):
        with pytest.raises(UsageError, match=r"pip install 'kfmt-cli\[regex\]'"):
            compile_regex(words)


def test_it_goes_to_other_processes() -> None:
    match = parse_record_filter("~a+b", None, ["h=~x*"], None)
    assert pickle.loads(pickle.dumps(match)) == match  # noqa: S301
    assert match.key == BytesRegex(b"a+b")


@pytest.mark.parametrize("pattern", ['{"id":(1|2)', 'x{"id":(1|2)'])
def test_a_brace_at_the_start_repeats_nothing(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without RE2 too, as one writes it for a value in JSON."""
    monkeypatch.setitem(sys.modules, "re2", None)
    module._compile.cache_clear()
    try:
        found = compile_regex(pattern).search(b'x{"id":2}')
    finally:
        module._compile.cache_clear()
    assert found
