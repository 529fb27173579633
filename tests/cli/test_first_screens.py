"""What people see first: a page of a screen, a screen per command, help, and answers to guesses."""

from __future__ import annotations

import pytest

from kfmt_cli.cli import COMMANDS_BY_SECTION, MODULE_BY_COMMAND
from kfmt_cli.cli.first_guesses import FIRST_GUESSES
from kfmt_cli.cli.help_pages import HELP_TOPICS
from kfmt_cli.errors import unknown_name_error, unknown_name_question
from tests.support.samples import ORDERS, kfmt
from tests.support.terminal import run_on_terminal

CARD_COMMANDS = ("dump", "verify-crc", "index-check", "encode-varint", "convert-v0-to-v2")
RARE_COMMANDS = ("partition-of", "request-header", "response-header", "decode-varint")


def lines_that_fit(text: str) -> list[str]:
    lines = text.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    return lines


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)])
def test_the_first_page_fits_a_screen(arguments: tuple[str, ...]) -> None:
    done = kfmt(*arguments, COLUMNS="80")
    assert done.code == 0
    words = " ".join(lines_that_fit(done.out)).split()
    assert set(CARD_COMMANDS) <= {*words}
    assert {name for names in COMMANDS_BY_SECTION.values() for name in names} - {*words} == {
        *RARE_COMMANDS
    }


@pytest.mark.parametrize("name", MODULE_BY_COMMAND)
def test_the_first_screen_of_a_command(name: str) -> None:
    done = kfmt(name, "-h", COLUMNS="80")
    lines = done.out.splitlines()
    assert (done.code, len(lines) <= 24) == (0, True)
    assert lines[0].startswith(f"Usage: kfmt {name} ")
    assert any(line.strip().startswith(f"kfmt {name} ") for line in lines)
    if name != "pipeline":
        longest_word = max(map(len, done.out.split()))
        assert max(map(len, lines)) <= max(80, longest_word + 4)
        assert lines[-1].endswith(f": kfmt help {name}")


def test_help_on_a_terminal_is_a_screen_and_elsewhere_all() -> None:
    shown = run_on_terminal("salvage", "--help", columns=80)
    assert len(shown.splitlines()) <= 24
    piped = kfmt("salvage", "--help", COLUMNS="80")
    assert piped.out == kfmt("help", "salvage", COLUMNS="80").out
    assert "--max-decompressed" in piped.out
    assert "Details:" in piped.out
    first_lines = piped.out.splitlines()[:24]
    assert "Examples:" in first_lines
    assert "Options:" in first_lines


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        (("all",), "partition-of"),
        (("dump",), "Usage: kfmt dump [OPTIONS] PATH..."),
        (("pipeline", "export"), "Usage: kfmt pipeline export"),
        (("crc-mismatch",), "A batch fails its checksum"),
        (("retention",), "Usage: kfmt retention"),
        (("RecordBatch",), "The 61-byte header of a magic 2 batch"),
        (("lag",), "kfmt state DIR"),
        *(((name,), " ".join(text.split()[:3])) for name, text in HELP_TOPICS.items()),
    ],
)
def test_help_about_a_topic(topics: tuple[str, ...], expected: str) -> None:
    done = kfmt("help", *topics, COLUMNS="80")
    assert (done.code, done.err) == (0, "")
    assert expected in done.out


@pytest.mark.parametrize("topic", ["crc-mismach", "RecordBach", "salvge", "zork"])
def test_help_about_no_topic(topic: str) -> None:
    done = kfmt("help", topic)
    assert done.code == 2
    assert ("topics: a command" if topic == "zork" else "did you mean ") in done.err


@pytest.mark.parametrize(
    ("guess", "answer"),
    [
        *((name, "kfmt state DIR") for name in ("lag", "groups", "consumer-groups", "offsets")),
        *((name, "kfmt stat DIR") for name in ("ls", "info")),
        ("topics", "kfmt state DIR"),
        ("tail", "kfmt cat PATH --last 10"),
        ("head", "--limit N"),
        *((name, "kfmt salvage DIR DST") for name in ("repair", "fix", "recover")),
        ("repair", "kfmt rebuild-index"),
        ("version", "kfmt --version"),
        ("schema", "kfmt format --json-schema"),
        ("fsck", "kfmt check DIR"),
        ("salvge", "did you mean salvage?"),
    ],
)
def test_a_first_guess_gets_an_answer(guess: str, answer: str) -> None:
    done = kfmt(guess)
    assert done.code == 2
    assert f"no such command: '{guess}'; " in done.err
    assert answer in done.err


def test_guesses_are_no_commands_and_name_commands() -> None:
    for guess, answer in FIRST_GUESSES.items():
        assert guess not in MODULE_BY_COMMAND
        words = answer.replace(";", " ").split()
        named = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "kfmt"]
        assert named or "--json" in answer, guess
        assert all(name in MODULE_BY_COMMAND or name == "--version" for name in named), answer


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("dump", "--recods"), "no such option: --recods; did you mean --records?"),
        (("dump", "--follow"), "no such option: --follow; cat has it"),
        (("dump", "--from"), "no such option: --from; did you mean --from-offset or --from-time?"),
        (("state", "--groups"), "no such option: --groups; did you mean --group?"),
        (("dump", "--files", "x"), "no such option: --files; name the path without an option"),
        ((".",), "'.' is a path, not a command: kfmt check ., or kfmt stat ."),
        (("dump", "--columns", "offset"), "; did you mean offsets?"),
        (("check", "--only", "crc-mismach"), "did you mean crc-mismatch"),
        (("explain", "crc"), "did you mean crc-mismatch, inner-crc-mismatch"),
        (("format", "batch"), "did you mean RecordBatch?"),
    ],
)
def test_unknown_names_get_the_nearest(arguments: tuple[str, ...], expected: str) -> None:
    path = () if arguments[0] in ("explain", "format") else (ORDERS,)
    done = kfmt(*arguments, *path)
    assert done.code == 2
    assert expected in done.err


def test_one_function_says_did_you_mean() -> None:
    assert unknown_name_question("Ordrs", ["orders", "txn"]) == "; did you mean orders?"
    assert unknown_name_question("crc", ["a-crc-b", "crc-c"]) == "; did you mean crc-c or a-crc-b?"
    assert unknown_name_question("x", ["orders"], "; none") == "; none"
    error = unknown_name_error("codec", "gzipp", ["gzip", "lz4"])
    assert str(error) == "no codec named 'gzipp'; choose from gzip, lz4; did you mean gzip?"
