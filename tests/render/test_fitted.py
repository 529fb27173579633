"""Lines fit the screen and break between words only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kfmt_cli.render.finding import wrap_labelled_text
from kfmt_cli.render.style import COLOUR_THEME, wrap_long_lines
from tests.support.samples import kfmt
from tests.support.terminal import run_with_separate_stderr
from tools.kafka import ROOT

BROKER = "sample_segments/kafka-3.9.1-broker1"
COMMANDS = [
    ("check", "damaged_segments"),
    ("check", BROKER),
    ("check", "damaged_segments/flipped-bit-0"),
    ("retention", BROKER),
    ("compaction", BROKER),
    ("compaction", f"{BROKER}/orders-0", "--key", "customer-7"),
    ("txn", "sample_segments/kafka-3.9.1-live", "--open"),
    ("stat", BROKER),
    ("verify-crc", BROKER),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_line_is_longer_than_the_screen_but_paths_and_commands(command: tuple[str, ...]) -> None:
    output, _, code = run_with_separate_stderr(*command, columns=80, NO_COLOR="1")
    assert code in (0, 1)
    for line in output.splitlines():
        is_unbroken = line.startswith("  kfmt ") or "/" in line.strip().partition(" ")[0]
        assert len(line) <= 80 or (is_unbroken and " " in line), line
    # Only the line breaks differ.
    unwrapped = re.sub(r"\s+", "", kfmt(*command, cwd=ROOT).out)
    for phrase in ("wouldstart", "7702bytes", "retention.ms;itisthelastsegment"):
        assert (phrase in unwrapped) == (phrase in re.sub(r"\s+", "", output))


def test_words_stay_whole() -> None:
    text = "   the file has 7 702 bytes of 1 073 741 824 in a/very/long/path/that/does/not/fit\n"
    assert wrap_long_lines(text, None) == text
    for width in range(10, 90):
        fitted = wrap_long_lines(text, width)
        assert fitted.split() == text.split()
        assert "7 702" in fitted
        assert "1 073 741 824" in fitted
        assert all(len(line) <= max(width, 39) for line in fitted.splitlines())
    assert wrap_long_lines("short\nsecond line", 80) == "short\nsecond line"
    painted = COLOUR_THEME.paint("bold", "the broker would start")
    assert wrap_long_lines(painted, 22) == painted
    drawing = "  ├──────────┤  ├────┤\n"
    assert wrap_long_lines(drawing, 10) == drawing


def test_numbers_of_a_finding_stay_whole() -> None:
    text = (
        "Log end offset 60; the log is truncated to 7 702 bytes of 1 073 741 824, 60 240 are lost."
    )
    for width in range(50, 100):
        lines = wrap_labelled_text(text, width, "next start", margin_columns=2)
        assert " ".join(lines).split() == ["next", "start", *text.split()]
        for number in ("7 702", "1 073 741 824"):
            assert any(number in line for line in lines)
        assert all(len(line) <= width for line in lines)


def test_a_drawn_character_in_a_path_does_not_stop_words_from_being_wrapped() -> None:
    lines = wrap_labelled_text(
        "the log /mnt/■disk/orders-0 ends inside a batch of 100 bytes " * 2, 60
    )
    assert len(lines) > 1
    assert all(len(line) <= 60 for line in lines)


def test_a_command_stays_whole(tmp_path: Path) -> None:
    directory = tmp_path / ("a" * 60) / "orders-0"
    directory.mkdir(parents=True)
    data = (ROOT / "damaged_segments/flipped-bit-0/00000000000000000000.log").read_bytes()
    (directory / "00000000000000000000.log").write_bytes(data)
    output, _, _ = run_with_separate_stderr("check", str(directory), columns=80, NO_COLOR="1")
    assert f"\n  kfmt salvage {directory} DST\n      copies every undamaged batch" in output
