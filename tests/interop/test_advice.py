"""No step that `kfmt check` advises loses records for consumers; the tests run each step."""

from __future__ import annotations

import pytest

from tests.support.combined_cases import CombinedCase, combined
from tests.support.start_cases import cases
from tools import kafka
from tools.advised import Advised, compare

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
]
LONG = pytest.mark.fuzz
SEEDS = [(3, 5), pytest.param(2, 60, marks=LONG), pytest.param(7, 60, marks=LONG)]


def format_failures(failures: list[tuple[Advised, list[str]]]) -> str:
    return "\n".join(
        f"{advised.case.description} {advised.start.name}: {messages}"
        for advised, messages in failures
    )


@pytest.mark.parametrize(("seed", "count"), SEEDS)
def test_no_step_for_combined_damages_harms(seed: int, count: int) -> None:
    assert format_failures(compare(list(combined(seed, count)))) == ""


@pytest.mark.fuzz
def test_no_step_for_a_single_damage_harms() -> None:
    single_damages = [
        CombinedCase(f"{case.of}: {case.description}", case.files, case.log_end, 0, case.kinds)
        for case in cases()
        if not case.beside
    ]
    assert len(single_damages) > 40
    assert format_failures(compare(single_damages)) == ""
