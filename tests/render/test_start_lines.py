"""The lines of a predicted start: which are joined, which are left out and counted."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kfmt_cli.broker.start.outcome import AFTER_CLEAN_SHUTDOWN, AFTER_CRASH, OFFLINE, PredictedStart
from kfmt_cli.render.start_lines import (
    INTACT_TEXT,
    NextStep,
    format_either_start,
    format_start,
    lost_lines,
    next_start_lines,
    step_lines,
)
from kfmt_cli.render.style import NO_COLOUR

step = partial(NextStep, "t-0")


def start(file: str = "t-0", after: str = AFTER_CRASH, **more: Any) -> PredictedStart:
    return PredictedStart(file, after, log_end_offset=7, **more)


@pytest.mark.parametrize(("n", "more"), [(1, 0), (10, 0), (11, 1), (25, 15)])
def test_ten_next_steps_are_listed_and_the_others_counted(n: int, more: int) -> None:
    steps = [step(f"do {i}", f"takes {i} s") for i in range(n)]
    head, *lines = step_lines(steps, NO_COLOUR)
    assert head == "next steps"
    assert lines[:10] == [f"  do {i}   takes {i} s" for i in range(min(n, 10))]
    assert len(lines) == min(n, 10) + bool(more)
    if more:
        assert lines[10].startswith(f"  … and {more} more step")


def test_a_step_that_partitions_share_is_said_once() -> None:
    shared = [step(f"salvage t-{i}", "copies", "salvage all", "copies all") for i in range(3)]
    alone = [step("rebuild t-9", "fast", "rebuild all", "slow"), step("look", "nothing")]
    assert list(step_lines([*shared, *alone], NO_COLOUR)) == [
        *("next steps", "  salvage all   copies all", "  rebuild t-9   fast", "  look   nothing")
    ]
    assert list(step_lines([], NO_COLOUR)) == []


def test_the_price_of_a_step_stands_below_it_where_the_line_is_too_long() -> None:
    steps = [step("look", "a price of some words")]
    (whole,) = list(step_lines(steps, NO_COLOUR, 30))[1:]
    assert whole == "  look   a price of some words"
    for width in (29, 27):
        (parted,) = list(step_lines(steps, NO_COLOUR, width))[1:]
        assert parted == "  look\n      a price of some words"


@pytest.mark.parametrize(
    ("deleted", "named"), [(["a/x"], ["x"]), (["a/x", "b/y"], ["x", "y"]), (["x", "y", "z"], [])]
)
def test_two_deleted_files_are_named_and_more_are_counted(
    deleted: list[str], named: list[str]
) -> None:
    (line,) = lost_lines([start(lost=[(3, 3)], deleted=deleted)], NO_COLOUR)
    assert [name for name in ("x", "y", "z") if f"; {name} is deleted" in line] == named
    assert (f"{len(deleted)} files deleted" in line) == (not named)
    assert "a/" not in line


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ([(3, 3)], "offsets 3 "),
        ([(3, 5), (8, 8)], "offsets 3–5, 8 "),
        ([(1, 1), (3, 3), (5, 5)], "offsets 1, 3, 5 are"),
        ([(1, 1), (3, 3), (5, 5), (7, 9)], "offsets 1, 3, 5 and 1 more "),
    ],
)
def test_three_ranges_are_listed(ranges: list[tuple[int, int]], words: str) -> None:
    (line,) = lost_lines([start(lost=ranges)], NO_COLOUR)
    assert words in line


def test_starts_with_the_same_effect_are_one_line() -> None:
    both = [
        start(after=AFTER_CRASH, lost=[(1, 2)]),
        start(after=AFTER_CLEAN_SHUTDOWN, lost=[(1, 2)]),
    ]
    (line,) = lost_lines(both, NO_COLOUR)
    assert line.startswith("t-0 on the next start: ")
    unlike = [
        start(after=AFTER_CRASH, lost=[(1, 2)]),
        start(after=AFTER_CLEAN_SHUTDOWN, unreachable=[(1, 2)]),
    ]
    crash, clean = lost_lines(unlike, NO_COLOUR)
    assert crash.startswith("t-0 after a crash: ")
    assert clean.startswith("t-0 after a clean shutdown: ")
    assert "1–2 are lost" in crash
    assert "1–2 are unreachable" in clean


def test_the_losses_of_more_than_three_partitions_are_summed() -> None:
    def starts(n: int) -> list[PredictedStart]:
        crash = [start(f"t-{i}", AFTER_CRASH, lost=[(0, 9), (20, 20)]) for i in range(n)]
        return [*crash, start("t-0", AFTER_CLEAN_SHUTDOWN, unreachable=[(5, 6)])]

    assert len(list(lost_lines(starts(3), NO_COLOUR))) == 4
    assert list(lost_lines(starts(4), NO_COLOUR)) == [
        "after a crash: 44 offsets lost in 4 partitions",
        "after a clean shutdown: 2 offsets unreachable in 1 partition",
    ]


def test_ten_failing_starts_are_listed_and_the_others_counted() -> None:
    for n, more in ((1, ""), (10, ""), (11, "… and 1 more"), (14, "… and 4 more")):
        failing = [start(f"t-{i}", reason="why") for i in range(n)]
        lines = list(next_start_lines([], [*failing, start("fine")], NO_COLOUR))
        assert [line.split()[0] for line in lines[: min(n, 10)]] == [
            f"t-{i}" for i in range(min(n, 10))
        ]
        assert len(lines) == min(n, 10) + bool(more) + 1
        assert lines[-2].startswith(more)


@pytest.mark.parametrize(
    ("crash", "clean", "same"),
    [(None, None, True), ("x", "x", True), ("x", None, False), (None, "x", False)],
)
def test_whether_a_broker_starts_if_it_is_unknown_how_it_stopped(
    crash: str | None, clean: str | None, same: bool
) -> None:
    starts = [
        start(after=AFTER_CRASH, reason=crash),
        start(after=AFTER_CLEAN_SHUTDOWN, reason=clean),
    ]
    words = format_either_start(starts)
    assert ("alike" in words) == same
    assert words.count("would not start") == (1 if same and crash else crash != clean)
    if not same:
        would_not = words.index("would not start") < words.index(" but ")
        assert would_not == (crash is not None)


@pytest.mark.parametrize(
    ("more", "lost", "words"),
    [
        ({}, [], INTACT_TEXT),
        ({"lost": [(0, 9)]}, [], "10 offsets lost"),
        ({"lost": [(4, 4)], "unreachable": [(0, 1999)]}, [], "1 offset lost, 2 000 unreachable"),
        ({}, [(0, 2)], "3 already lost"),
        ({"reason": "x"}, [(0, 2)], "does not start"),
        ({"reason": "x", "becomes": OFFLINE}, [], OFFLINE),
    ],
)
def test_a_start_in_a_few_words(
    more: dict[str, Any], lost: list[tuple[int, int]], words: str
) -> None:
    assert format_start(start(**more), lost) == words


def test_what_was_not_read_is_no_reason_to_call_a_directory_none() -> None:
    assert format_either_start([], 1) == "1 input not read: no broker start predicted"
    assert format_either_start([]).startswith("not a partition directory")
