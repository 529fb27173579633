"""The plan of `kfmt check` for broken directories, carried out; then a real broker starts and every
partition is read."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.support.broken_partitions import ORDERS, sample
from tests.support.directory_plans import (
    BrokenDirectories,
    carry_out,
    generate,
    generate_damaged,
    kinds,
    set_aside_offsets,
    undamaged_offsets,
)
from tools import kafka
from tools.directories import Seen, run_on, start_all

pytestmark = [
    pytest.mark.interop,
    pytest.mark.brokers,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
]
TOPICS = ("victim", "bystander")
N_OFFSETS = 1500
# Downwards: a consumer that has met garbage gets the error again where it stands.
SEEKS = range(N_OFFSETS - 20, -1, -20)
VERSIONS = (kafka.VERSION, kafka.NEWEST)


@pytest.fixture(scope="module", params=VERSIONS)
def bases(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[bool, Path]]:
    """The version, and the directories that its broker leaves: one, and two."""
    version = request.param
    directories = {}
    for is_double in (False, True):
        directories[is_double] = tmp_path_factory.mktemp(f"base-{version}-{is_double}")
        topics = {topic: dict(sample(ORDERS)) for topic in TOPICS}
        run_on(topics, directories[is_double], is_double=is_double, version=version)
    return version, directories


def mend(broken: BrokenDirectories, path: Path) -> None:
    broken.change(path)
    carry_out(path)


def failures(
    bases: tuple[str, dict[bool, Path]], all_broken: list[BrokenDirectories]
) -> list[tuple[str, Seen]]:
    """The broken directories whose partitions are not all served after the plan."""
    version, directories = bases
    failing = []
    for is_double, base in directories.items():
        selected = [broken for broken in all_broken if broken.is_double is is_double]
        changes = [lambda path, broken=broken: mend(broken, path) for broken in selected]
        for broken, seen in zip(selected, start_all(base, changes, TOPICS, version), strict=True):
            if not seen.up or any(
                (topic := seen.topics[name]) is None or len(set(topic[2])) != N_OFFSETS
                for name in TOPICS
            ):
                failing.append((broken.description, seen))
    return failing


def test_the_plan_for_one_change_serves_everything(bases: tuple[str, dict[bool, Path]]) -> None:
    assert not failures(bases, [BrokenDirectories((case,)) for case in kinds()])


@pytest.mark.parametrize("seed", range(21, 24))
def test_the_plan_for_several_changes_serves_everything(
    bases: tuple[str, dict[bool, Path]], seed: int
) -> None:
    assert not failures(bases, list(generate(seed, 50)))


@pytest.mark.parametrize("seed", range(31, 33))
def test_the_plan_for_damaged_logs_serves_what_is_undamaged(
    bases: tuple[str, dict[bool, Path]], seed: int
) -> None:
    """Not less than what was left of the logs, once the salvaged copies are in place; a consumer
    seeks past what is damaged."""
    version, directories = bases
    all_broken = list(generate_damaged(seed, 40))
    lost = []
    for is_double, base in directories.items():
        selected = [broken for broken in all_broken if broken.is_double is is_double]
        best: dict[int, set[int]] = {}

        def mend_logs(path: Path, index: int, broken: BrokenDirectories) -> None:
            broken.damage_logs(path)
            best[index] = undamaged_offsets(path, sample(ORDERS))  # noqa: B023
            broken.change(path)
            carry_out(path, puts_salvaged_in_place=True)
            best[index] -= set_aside_offsets(path)  # noqa: B023

        changes = [partial(mend_logs, index=i, broken=b) for i, b in enumerate(selected)]
        seen_starts = start_all(base, changes, TOPICS, version, SEEKS)
        for i, (broken, seen) in enumerate(zip(selected, seen_starts, strict=True)):
            missing = best[i] - seen.sought.get("victim", frozenset())
            others = seen.sought.get("bystander", ())
            if not seen.up or missing or len(others) != N_OFFSETS:
                lost.append((broken.description, sorted(missing)[:3], len(others), seen.errors))
    assert not lost, "\n".join(map(str, lost))
