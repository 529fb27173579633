"""Lines for people fit the screen, broken between words only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kfmt_cli.render.finding import wrap_labelled
from kfmt_cli.render.style import COLOUR_THEME, fit_lines
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
    out, _, code = run_with_separate_stderr(*command, columns=80, NO_COLOR="1")
    assert code in (0, 1)
    for line in out.splitlines():
        is_whole = line.startswith("  kfmt ") or "/" in line.strip().partition(" ")[0]
        assert len(line) <= 80 or (is_whole and " " in line), line
    # Nothing but where a line ends is different.
    wide = re.sub(r"\s+", "", kfmt(*command, cwd=ROOT).out)
    for words in ("wouldstart", "7702bytes", "retention.ms;itisthelastsegment"):
        assert (words in wide) == (words in re.sub(r"\s+", "", out))


def test_words_stay_whole() -> None:
    text = "   the file has 7 702 bytes of 1 073 741 824 in a/very/long/path/that/does/not/fit\n"
    assert fit_lines(text, None) == text
    for width in range(10, 90):
        found = fit_lines(text, width)
        assert found.split() == text.split()
        assert "7 702" in found
        assert "1 073 741 824" in found
        assert all(len(line) <= max(width, 39) for line in found.splitlines())
    assert fit_lines("short\nsecond line", 80) == "short\nsecond line"
    painted = COLOUR_THEME.paint("bold", "the broker would start")
    assert fit_lines(painted, 22) == painted
    drawing = "  ├──────────┤  ├────┤\n"
    assert fit_lines(drawing, 10) == drawing


def test_numbers_of_a_finding_stay_whole() -> None:
    text = (
        "Log end offset 60; the log is truncated to 7 702 bytes of 1 073 741 824, 60 240 are lost."
    )
    for width in range(50, 100):
        found = wrap_labelled(text, width, "next start", margin=2)
        assert " ".join(found).split() == ["next", "start", *text.split()]
        for number in ("7 702", "1 073 741 824"):
            assert any(number in line for line in found)
        assert all(len(line) <= width for line in found)


def test_a_drawn_character_in_a_path_does_not_stop_words_from_being_wrapped() -> None:
    found = wrap_labelled("the log /mnt/■disk/orders-0 ends inside a batch of 100 bytes " * 2, 60)
    assert len(found) > 1
    assert all(len(line) <= 60 for line in found)


def test_a_command_stays_whole(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 60) / "orders-0"
    folder.mkdir(parents=True)
    data = (ROOT / "damaged_segments/flipped-bit-0/00000000000000000000.log").read_bytes()
    (folder / "00000000000000000000.log").write_bytes(data)
    out, _, _ = run_with_separate_stderr("check", str(folder), columns=80, NO_COLOR="1")
    assert f"\n  kfmt salvage {folder} DST\n      copies every undamaged batch" in out
