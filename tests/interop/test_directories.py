"""What `kfmt check` says of whole log directories is what a real broker then does with them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from kfmt_cli.disk.usage import FATE_BY_PURPOSE
from tests.support.broken_partitions import ORDERS, sample
from tests.support.directory_cases import MARKER, STRAY, Case, Change, cases
from tests.support.retention_cases import NOW
from tests.support.samples import Row, kfmt
from tests.support.selected import selected, with_smoke
from tools import kafka
from tools.directories import Seen, run_on, start_all
from tools.observe import Given, Plan, Start, observe

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(1800),  # the first test starts the brokers of all
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
]
Base = tuple[bool, bool, str]  # with two log directories, with a metadata snapshot, the version
TOPICS = ("victim", "bystander")
# What else decides than the directories that are there.
NOT_FORETOLD = {
    "no metadata log": "whether other controllers have one",
    "a directory in the place of a closed index": "it is down once somebody reads the segment",
}


@pytest.fixture(scope="module")
def bases(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[Base, Path]:
    """What a broker has left with one log directory, with two, and with a metadata snapshot."""
    found = {}
    for base in sorted({_base(str(name)) for name in selected(request, "name")}):
        is_double, has_snapshot, version = base
        found[base] = tmp_path_factory.mktemp("base")
        topics = {topic: dict(sample(ORDERS)) for topic in TOPICS}
        run_on(topics, found[base], is_double=is_double, has_snapshot=has_snapshot, version=version)
    return found


def _base(name: str) -> Base:
    case, version = CASES[name]
    return case.is_double, case.has_snapshot, version


def told(case: Case, base: Path, folder: Path) -> list[Row]:
    """What kfmt says of the next start."""
    shutil.copytree(base, folder)
    case.change(folder)
    paths = [name for name in ("one", "two") if (folder / name).is_dir()]
    done = kfmt("check", *paths, "--json", "--jobs", "1", cwd=folder)
    assert done.code in (0, 1), f"{case.what}: {done.err}"
    return done.rows


def difference(rows: list[Row], seen: Seen) -> list[str]:
    """How what was said differs from what was seen."""
    nexts = {row["file"]: row for row in rows if row["type"] == "log_directory"}
    up = all(following["starts"] for following in nexts.values())
    if up != seen.up:
        reasons = [following["reason"] for following in nexts.values()]
        return [f"said up: {up} {reasons}, seen up: {seen.up} {seen.errors[:1]}"]
    found = []
    for name, row in () if up else nexts.items():
        is_kept = MARKER in seen.left[name]
        was_clean = row["next_start"] == "clean-shutdown" and not row["starts"]
        if was_clean and (row["retry"] == "clean-shutdown") != is_kept:
            found.append(f"said next {row['retry']}, marker kept: {is_kept}")
    for topic in TOPICS if up else ():
        for row in rows:
            folder, _, name = row.get("file", "").rpartition("/")
            is_its = row["type"] == "broker_start" and name == f"{topic}-0"
            if is_its and row["after"] == nexts[folder or "one"]["next_start"]:
                found += [f"{topic}: {text}" for text in _difference(row, seen, topic)]
    return found


def _difference(row: Row, seen: Seen, topic: str) -> list[str]:
    served = seen.topics[topic]
    left = {name for names in seen.left.values() for name in names if name.endswith("-stray")}
    strays = sorted(left - {STRAY})
    is_stray = any(stray.startswith(f"{topic}-0.") for stray in strays)
    became = row["becomes"]
    if (became == "stray") != is_stray:
        return [f"said {became}, left {strays}"]
    if became == "offline":  # another directory may get an empty one
        return [] if served is None or served[1] == 0 else [f"said offline, seen {served[:2]}"]
    if (became == "unserved") != (served is None):
        return [f"said {became}, seen {served and served[:2]}"]
    if served is None:
        return []
    said = row["log_start_offset"], row["log_end_offset"]
    given = set(served[2])
    gone = [range(a, b + 1) for a, b in [*row["lost_offsets"], *row["unreachable_offsets"]]]
    wrong = [str(each_range) for each_range in gone if given.intersection(each_range)]
    return wrong + ([] if said == served[:2] else [f"said {said}, seen {served[:2]}"])


@pytest.mark.brokers
def test_what_a_broker_deletes_without_being_asked() -> None:
    """What `stat` says of each purpose for which it says anything."""
    log = f"{0:020}.log"
    marked = [f"gone{mark}-0.{'a' * 32}-{mark}/{log}" for mark in ("delete", "stray")]
    beside = dict.fromkeys(marked, sample(ORDERS)[log])
    beside["notes.txt"] = b"mine"
    left_over = {f"{10**6:020}.log.deleted": b"x", f"{10**6:020}.index.cleaned": b"x"}
    given = Given({**sample(ORDERS), **left_over}, 1500, pause=8)
    at_once = {
        "clock": str(NOW),
        "log.initial.task.delay.ms": "100",
        "log.segment.delete.delay.ms": "1000",
    }
    for start in (Start.CLEAN, Start.CRASH):
        [outcome] = observe([Plan(start, {"victim": given}, beside, server=at_once)])
        there = {
            "left_over": not left_over.keys().isdisjoint(outcome.partitions["victim"].files),
            "marked_delete": any(name.endswith("-delete") for name in outcome.beside),
            "marked_stray": any(name.endswith("-stray") for name in outcome.beside),
            "other": "notes.txt" in outcome.beside,
        }
        said = {
            purpose: words.startswith("No broker") for purpose, words in FATE_BY_PURPOSE.items()
        }
        assert there == said


CASES = {
    f"{case.what} {version}": (case, version)
    for version in (kafka.VERSION, kafka.NEWEST)
    for case in cases()
    if case.what not in NOT_FORETOLD
}
ADVISED = [name for name in CASES if name.endswith(kafka.VERSION)]
_SMOKE = ["nothing", "a crash", "no meta.properties", "a partition that is a link"]
SMOKE = [*(f"{name} {kafka.VERSION}" for name in _SMOKE), f"a crash {kafka.NEWEST}"]


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, bases: Mapping[Base, Path]) -> dict[str, Seen]:
    """What was seen of each selected case."""
    names = [str(name) for name in selected(request, "name")]
    found: dict[str, Seen] = {}
    for kind, base in bases.items():
        its = [name for name in names if _base(name) == kind]
        changes = [CASES[name][0].change for name in its]
        found |= zip(its, start_all(base, changes, TOPICS, kind[2]), strict=True)
    return found


@pytest.mark.parametrize("name", with_smoke(list(CASES), SMOKE, pytest.mark.brokers))
def test_a_broker_does_with_its_directories_what_check_said(
    name: str, seen: dict[str, Seen], bases: Mapping[Base, Path], tmp_path: Path
) -> None:
    case, version = CASES[name]
    rows = told(case, bases[_base(name)], tmp_path / "x")
    versions = {row["kafka_version"] for row in rows if "kafka_version" in row}
    assert versions <= {version.rpartition(".")[0], "3.9"}  # that of the metadata log
    assert difference(rows, seen[name]) == []


@pytest.fixture(scope="module")
def mended(
    request: pytest.FixtureRequest,
    bases: Mapping[Base, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Seen]:
    """What was seen of each selected case that check advises steps for, after these steps."""
    scratch = tmp_path_factory.mktemp("steps")
    found: dict[str, Seen] = {}
    for kind, base in bases.items():
        names = [str(name) for name in selected(request, "name")]
        its = []
        for number, name in enumerate(its_name for its_name in names if _base(its_name) == kind):
            copy = scratch / f"{kind}-{number}"
            shutil.copytree(base, copy)
            if name in ADVISED and _mend(CASES[name][0].change, copy):
                its.append(name)
            shutil.rmtree(copy)
        changes = [partial(_mend, CASES[name][0].change) for name in its]
        found |= zip(its, start_all(base, changes, TOPICS, kind[2]), strict=True)
    return found


def _mend(change: Change, path: Path) -> int:
    """Damage directories, then carry out the steps that check advises; returns how many.

    Copies are left out.
    """
    change(path)
    folders = [name for name in ("one", "two") if (path / name).is_dir()]
    rows = kfmt("check", *folders, "--json", "--jobs", "1", cwd=path).of("next")
    steps = [row["command"] for row in rows if not row["command"].endswith(" DST")]
    for command in steps:
        words = shlex.split(command)
        if words[0] == "kfmt":
            kfmt(*words[1:], cwd=path)
        else:
            subprocess.run(["bash", "-c", command], check=True, cwd=path)
    return len(steps)


def _served(seen: Seen) -> dict[str, set[int]]:
    if not seen.up:
        return {topic: set() for topic in TOPICS}
    return {topic: set(its[2]) if its is not None else set() for topic, its in seen.topics.items()}


@pytest.mark.brokers
@pytest.mark.parametrize("name", ADVISED)
def test_no_step_takes_anything_from_consumers(
    name: str, seen: dict[str, Seen], mended: dict[str, Seen]
) -> None:
    if name not in mended:
        return  # no step is advised
    before, after = _served(seen[name]), _served(mended[name])
    assert all(before[topic] <= after[topic] for topic in TOPICS), mended[name].errors


@pytest.mark.brokers
def test_steps_are_advised(seen: dict[str, Seen], mended: dict[str, Seen]) -> None:
    are_all = seen.keys() >= set(ADVISED)
    assert len(mended) > (10 if are_all else 0)
    assert all(seen.up for seen in mended.values())
