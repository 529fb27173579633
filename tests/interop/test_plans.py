"""The plan of `kfmt check` for broken directories, carried out; then a real broker starts and every
partition is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broken_partitions import ORDERS, sample
from tests.support.directory_plans import BrokenDirectories, carry_out, generate, kinds
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
