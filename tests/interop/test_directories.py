"""`kfmt check` predicts what a real broker does with its log directories."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from kfmt_cli.disk.usage import OUTCOME_BY_PURPOSE
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
# Cases that depend on more than the directories, with what they depend on.
NOT_FORETOLD = {
    "no metadata log": "whether other controllers have one",
    "a directory in the place of a closed index": "it is down once somebody reads the segment",
}


@pytest.fixture(scope="module")
def bases(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[Base, Path]:
    """The directories that a broker leaves: one or two, with a metadata snapshot or without."""
    directory_by_base = {}
    for base in sorted({_base(str(name)) for name in selected(request, "name")}):
        is_double, has_snapshot, version = base
        directory_by_base[base] = tmp_path_factory.mktemp("base")
        topics = {topic: dict(sample(ORDERS)) for topic in TOPICS}
        run_on(
            topics,
            directory_by_base[base],
            is_double=is_double,
            has_snapshot=has_snapshot,
            version=version,
        )
    return directory_by_base


def _base(name: str) -> Base:
    case, version = CASES[name]
    return case.is_double, case.has_snapshot, version


def predicted_rows(case: Case, base: Path, directory: Path) -> list[Row]:
    """The rows of `kfmt check` about the next start."""
    shutil.copytree(base, directory)
    case.change(directory)
    paths = [name for name in ("one", "two") if (directory / name).is_dir()]
    result = kfmt("check", *paths, "--json", "--jobs", "1", cwd=directory)
    assert result.code in (0, 1, 3), f"{case.description}: {result.err}"
    return result.rows


def difference(rows: list[Row], observed: Seen) -> list[str]:
    """The differences between the predicted and the observed start."""
    next_starts = {row["file"]: row for row in rows if row["type"] == "log_directory"}
    is_up = all(next_start["starts"] for next_start in next_starts.values())
    if is_up != observed.up:
        reasons = [next_start["reason"] for next_start in next_starts.values()]
        return [f"said up: {is_up} {reasons}, seen up: {observed.up} {observed.errors[:1]}"]
    differences = []
    for name, row in () if is_up else next_starts.items():
        has_marker = MARKER in observed.left[name]
        was_clean = row["next_start"] == "clean-shutdown" and not row["starts"]
        if was_clean and (row["retry"] == "clean-shutdown") != has_marker:
            differences.append(f"said next {row['retry']}, marker kept: {has_marker}")
    for topic in TOPICS if is_up else ():
        for row in rows:
            directory, _, name = row.get("file", "").rpartition("/")
            is_start_of_topic = row["type"] == "broker_start" and name == f"{topic}-0"
            if is_start_of_topic and row["after"] == next_starts[directory or "one"]["next_start"]:
                differences += [f"{topic}: {text}" for text in _difference(row, observed, topic)]
    return differences


def _difference(row: Row, observed: Seen, topic: str) -> list[str]:
    served = observed.topics[topic]
    stray_directories = {
        name for names in observed.left.values() for name in names if name.endswith("-stray")
    }
    strays = sorted(stray_directories - {STRAY})
    is_stray = any(stray.startswith(f"{topic}-0.") for stray in strays)
    predicted = row["becomes"]
    if (predicted == "stray") != is_stray:
        return [f"said {predicted}, left {strays}"]
    if predicted == "offline":  # another directory may get an empty one
        return [] if served is None or served[1] == 0 else [f"said offline, seen {served[:2]}"]
    if (predicted == "unserved") != (served is None):
        return [f"said {predicted}, seen {served and served[:2]}"]
    if served is None:
        return []
    predicted_ends = row["log_start_offset"], row["log_end_offset"]
    delivered = set(served[2])
    lost_ranges = [range(a, b + 1) for a, b in [*row["lost_offsets"], *row["unreachable_offsets"]]]
    delivered_ranges = [
        str(lost_range) for lost_range in lost_ranges if delivered.intersection(lost_range)
    ]
    return delivered_ranges + (
        [] if predicted_ends == served[:2] else [f"said {predicted_ends}, seen {served[:2]}"]
    )


@pytest.mark.brokers
def test_what_a_broker_deletes_without_being_asked() -> None:
    """As `stat` describes it for each purpose."""
    log = f"{0:020}.log"
    marked_logs = [f"gone{mark}-0.{'a' * 32}-{mark}/{log}" for mark in ("delete", "stray")]
    other_files = dict.fromkeys(marked_logs, sample(ORDERS)[log])
    other_files["notes.txt"] = b"mine"
    leftovers = {f"{10**6:020}.log.deleted": b"x", f"{10**6:020}.index.cleaned": b"x"}
    broker_input = Given({**sample(ORDERS), **leftovers}, 1500, pause=8)
    settings = {
        "clock": str(NOW),
        "log.initial.task.delay.ms": "100",
        "log.segment.delete.delay.ms": "1000",
    }
    for start in (Start.CLEAN, Start.CRASH):
        [outcome] = observe([Plan(start, {"victim": broker_input}, other_files, server=settings)])
        remaining = {
            "left_over": not leftovers.keys().isdisjoint(outcome.partitions["victim"].files),
            "marked_delete": any(name.endswith("-delete") for name in outcome.beside),
            "marked_stray": any(name.endswith("-stray") for name in outcome.beside),
            "other": "notes.txt" in outcome.beside,
        }
        predicted = {
            purpose: text.startswith("No broker") for purpose, text in OUTCOME_BY_PURPOSE.items()
        }
        assert remaining == predicted


# Changes of a file that formatting writes only until 4.3.
OF_BOOTSTRAP_CHECKPOINT = {
    "a bit of bootstrap.checkpoint",
    "bootstrap.checkpoint cut",
    "no bootstrap.checkpoint",
}
CASES = {
    f"{case.description} {version}": (case, version)
    for version in (kafka.VERSION, kafka.NEWEST)
    for case in cases()
    if case.description not in NOT_FORETOLD
    and (version == kafka.VERSION or case.description not in OF_BOOTSTRAP_CHECKPOINT)
}
ADVISED = [name for name in CASES if name.endswith(kafka.VERSION)]
_SMOKE = ["nothing", "a crash", "no meta.properties", "a partition that is a link"]
SMOKE = [*(f"{name} {kafka.VERSION}" for name in _SMOKE), f"a crash {kafka.NEWEST}"]


@pytest.fixture(scope="module")
def observed(request: pytest.FixtureRequest, bases: Mapping[Base, Path]) -> dict[str, Seen]:
    """The observed start of each selected case."""
    names = [str(name) for name in selected(request, "name")]
    observed_by_name: dict[str, Seen] = {}
    for base, directory in bases.items():
        base_names = [name for name in names if _base(name) == base]
        changes = [CASES[name][0].change for name in base_names]
        observed_by_name |= zip(
            base_names, start_all(directory, changes, TOPICS, base[2]), strict=True
        )
    return observed_by_name


@pytest.mark.parametrize("name", with_smoke(list(CASES), SMOKE, pytest.mark.brokers))
def test_a_broker_does_with_its_directories_what_check_said(
    name: str, observed: dict[str, Seen], bases: Mapping[Base, Path], tmp_path: Path
) -> None:
    case, version = CASES[name]
    rows = predicted_rows(case, bases[_base(name)], tmp_path / "x")
    versions = {row["kafka_version"] for row in rows if "kafka_version" in row}
    assert versions <= {version.rpartition(".")[0], "3.9"}  # the version in the metadata log
    assert difference(rows, observed[name]) == []


@pytest.fixture(scope="module")
def observed_after_steps(
    request: pytest.FixtureRequest,
    bases: Mapping[Base, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Seen]:
    """The observed start of each selected case for which check advises steps, after these steps."""
    scratch = tmp_path_factory.mktemp("steps")
    observed_by_name: dict[str, Seen] = {}
    for base, directory in bases.items():
        names = [str(name) for name in selected(request, "name")]
        advised_names = []
        for i, name in enumerate(candidate for candidate in names if _base(candidate) == base):
            copy = scratch / f"{base}-{i}"
            shutil.copytree(directory, copy)
            if name in ADVISED and _mend(CASES[name][0].change, copy):
                advised_names.append(name)
            shutil.rmtree(copy)
        changes = [partial(_mend, CASES[name][0].change) for name in advised_names]
        observed_by_name |= zip(
            advised_names, start_all(directory, changes, TOPICS, base[2]), strict=True
        )
    return observed_by_name


def _mend(change: Change, path: Path) -> int:
    """Damage directories, then carry out the steps that check advises; returns how many.

    Skips the steps that copy data, and sentences.
    """
    change(path)
    directories = [name for name in ("one", "two") if (path / name).is_dir()]
    rows = kfmt("check", *directories, "--json", "--jobs", "1", cwd=path).of("next")
    steps = [
        row["command"]
        for row in rows
        if not row["command"].endswith(" DST") and not row["command"].startswith("#")
    ]
    for command in steps:
        arguments = shlex.split(command)
        if arguments[0] == "kfmt":
            kfmt(*arguments[1:], cwd=path)
        else:
            subprocess.run(["bash", "-c", command], check=True, cwd=path)
    return len(steps)


def _served(observed: Seen) -> dict[str, set[int]]:
    if not observed.up:
        return {topic: set() for topic in TOPICS}
    return {
        topic: set(served[2]) if served is not None else set()
        for topic, served in observed.topics.items()
    }


@pytest.mark.brokers
@pytest.mark.parametrize("name", ADVISED)
def test_no_step_takes_anything_from_consumers(
    name: str, observed: dict[str, Seen], observed_after_steps: dict[str, Seen]
) -> None:
    if name not in observed_after_steps:
        return  # no step is advised
    before, after = _served(observed[name]), _served(observed_after_steps[name])
    assert all(before[topic] <= after[topic] for topic in TOPICS), observed_after_steps[name].errors


@pytest.mark.brokers
def test_steps_are_advised(
    observed: dict[str, Seen], observed_after_steps: dict[str, Seen]
) -> None:
    are_all = observed.keys() >= set(ADVISED)
    assert len(observed_after_steps) > (10 if are_all else 0)
    assert all(observation.up for observation in observed_after_steps.values())
