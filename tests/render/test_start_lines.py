"""The lines of a predicted start: merged, or omitted and counted."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kfmt_cli.broker.start.outcome import AFTER_CLEAN_SHUTDOWN, AFTER_CRASH, OFFLINE, PredictedStart
from kfmt_cli.render.start_lines import (
    INTACT_TEXT,
    NextStep,
    format_start,
    format_start_after_unknown_stop,
    loss_lines,
    next_start_lines,
    step_lines,
)
from kfmt_cli.render.style import NO_COLOUR

step = partial(NextStep, "t-0")


def predicted_start(file: str = "t-0", after: str = AFTER_CRASH, **values: Any) -> PredictedStart:
    return PredictedStart(file, after, log_end_offset=7, **values)


@pytest.mark.parametrize(("n_steps", "n_more"), [(1, 0), (10, 0), (11, 1), (25, 15)])
def test_ten_next_steps_are_listed_and_the_others_counted(n_steps: int, n_more: int) -> None:
    steps = [step(f"do {i}", f"takes {i} s") for i in range(n_steps)]
    heading, *lines = step_lines(steps, NO_COLOUR)
    assert heading == "next steps"
    assert lines[:10] == [f"  do {i}   takes {i} s" for i in range(min(n_steps, 10))]
    assert len(lines) == min(n_steps, 10) + bool(n_more)
    if n_more:
        assert lines[10].startswith(f"  … and {n_more} more step")


def test_a_step_that_partitions_share_is_said_once() -> None:
    shared = [step(f"salvage t-{i}", "copies", "salvage all", "copies all") for i in range(3)]
    unshared = [step("rebuild t-9", "fast", "rebuild all", "slow"), step("look", "nothing")]
    assert list(step_lines([*shared, *unshared], NO_COLOUR)) == [
        *("next steps", "  salvage all   copies all", "  rebuild t-9   fast", "  look   nothing")
    ]
    assert list(step_lines([], NO_COLOUR)) == []


def test_the_price_of_a_step_stands_below_it_where_the_line_is_too_long() -> None:
    steps = [step("look", "a price of some words")]
    (one_line,) = list(step_lines(steps, NO_COLOUR, 30))[1:]
    assert one_line == "  look   a price of some words"
    for width in (29, 27):
        (wrapped,) = list(step_lines(steps, NO_COLOUR, width))[1:]
        assert wrapped == "  look\n      a price of some words"


@pytest.mark.parametrize(
    ("deleted", "expected_names"),
    [(["a/x"], ["x"]), (["a/x", "b/y"], ["x", "y"]), (["x", "y", "z"], [])],
)
def test_two_deleted_files_are_named_and_more_are_counted(
    deleted: list[str], expected_names: list[str]
) -> None:
    (line,) = loss_lines([predicted_start(lost=[(3, 3)], deleted=deleted)], NO_COLOUR)
    assert [name for name in ("x", "y", "z") if f"; {name} is deleted" in line] == expected_names
    assert (f"{len(deleted)} files deleted" in line) == (not expected_names)
    assert "a/" not in line


@pytest.mark.parametrize(
    ("ranges", "expected_text"),
    [
        ([(3, 3)], "offsets 3 "),
        ([(3, 5), (8, 8)], "offsets 3–5, 8 "),
        ([(1, 1), (3, 3), (5, 5)], "offsets 1, 3, 5 are"),
        ([(1, 1), (3, 3), (5, 5), (7, 9)], "offsets 1, 3, 5 and 1 more "),
    ],
)
def test_three_ranges_are_listed(ranges: list[tuple[int, int]], expected_text: str) -> None:
    (line,) = loss_lines([predicted_start(lost=ranges)], NO_COLOUR)
    assert expected_text in line


def test_starts_with_the_same_effect_are_one_line() -> None:
    same_effect = [
        predicted_start(after=AFTER_CRASH, lost=[(1, 2)]),
        predicted_start(after=AFTER_CLEAN_SHUTDOWN, lost=[(1, 2)]),
    ]
    (line,) = loss_lines(same_effect, NO_COLOUR)
    assert line.startswith("t-0 on the next start: ")
    different_effects = [
        predicted_start(after=AFTER_CRASH, lost=[(1, 2)]),
        predicted_start(after=AFTER_CLEAN_SHUTDOWN, unreachable=[(1, 2)]),
    ]
    crash, clean = loss_lines(different_effects, NO_COLOUR)
    assert crash.startswith("t-0 after a crash: ")
    assert clean.startswith("t-0 after a clean shutdown: ")
    assert "1–2 are lost" in crash
    assert "1–2 are unreachable" in clean


def test_the_losses_of_more_than_three_partitions_are_summed() -> None:
    def starts(n: int) -> list[PredictedStart]:
        crash = [predicted_start(f"t-{i}", AFTER_CRASH, lost=[(0, 9), (20, 20)]) for i in range(n)]
        return [*crash, predicted_start("t-0", AFTER_CLEAN_SHUTDOWN, unreachable=[(5, 6)])]

    assert len(list(loss_lines(starts(3), NO_COLOUR))) == 4
    assert list(loss_lines(starts(4), NO_COLOUR)) == [
        "after a crash: 44 offsets lost in 4 partitions",
        "after a clean shutdown: 2 offsets unreachable in 1 partition",
    ]


def test_ten_failing_starts_are_listed_and_the_others_counted() -> None:
    for n_starts, remainder in ((1, ""), (10, ""), (11, "… and 1 more"), (14, "… and 4 more")):
        failing = [predicted_start(f"t-{i}", reason="why") for i in range(n_starts)]
        lines = list(next_start_lines([], [*failing, predicted_start("fine")], NO_COLOUR))
        assert [line.split()[0] for line in lines[: min(n_starts, 10)]] == [
            f"t-{i}" for i in range(min(n_starts, 10))
        ]
        assert len(lines) == min(n_starts, 10) + bool(remainder) + 1
        assert lines[-2].startswith(remainder)


@pytest.mark.parametrize(
    ("crash_reason", "clean_reason", "is_same"),
    [(None, None, True), ("x", "x", True), ("x", None, False), (None, "x", False)],
)
def test_whether_a_broker_starts_if_it_is_unknown_how_it_stopped(
    crash_reason: str | None, clean_reason: str | None, is_same: bool
) -> None:
    starts = [
        predicted_start(after=AFTER_CRASH, reason=crash_reason),
        predicted_start(after=AFTER_CLEAN_SHUTDOWN, reason=clean_reason),
    ]
    text = format_start_after_unknown_stop(starts)
    assert ("alike" in text) == is_same
    assert text.count("would not start") == (
        1 if is_same and crash_reason else crash_reason != clean_reason
    )
    if not is_same:
        is_crash_refused = text.index("would not start") < text.index(" but ")
        assert is_crash_refused == (crash_reason is not None)


@pytest.mark.parametrize(
    ("values", "lost_offsets", "expected_text"),
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
    values: dict[str, Any], lost_offsets: list[tuple[int, int]], expected_text: str
) -> None:
    assert format_start(predicted_start(**values), lost_offsets) == expected_text


def test_unread_inputs_are_not_called_other_directories() -> None:
    assert format_start_after_unknown_stop([], 1) == "1 input not read: no broker start predicted"
    assert format_start_after_unknown_stop([]).startswith("not a partition directory")
