"""Broken log directories, by a generator: one to five changes of names, ids, mounts, copies and
files at once, and a plan that is carried out as it is printed."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.directory_cases import MARKER, STRAY, Case, Change, cases
from tests.support.samples import Row, kfmt

VICTIM = "one/victim-0"
# Changes after which no file on the disk has what is needed.
HOPELESS = {
    *("no metadata log", "an empty victim-0", "no victim-0"),
    *("a bit of the first metadata batches", "a bit of the last metadata batches"),
    *("the metadata log cut by 40 bytes", "zeros after the metadata log"),
    *("the newest snapshot without its footer", "the newest snapshot cut"),
}
_NEW_NAMES = ("victim-0.bak", "victim-0-old", "victim-0~", "copy of victim-0", "victim", "x")


@dataclass(frozen=True)
class BrokenDirectories:
    """Some changes of the same log directories."""

    changes: tuple[Case, ...]

    @property
    def description(self) -> str:
        """The changes, for messages."""
        return " + ".join(case.description for case in self.changes)

    @property
    def is_double(self) -> bool:
        """Whether there are two log directories."""
        return any(case.is_double for case in self.changes)

    def change(self, path: Path) -> None:
        """Make the changes; one that the others have made impossible is left out."""
        for case in self.changes:
            try:
                case.change(path)
            except (OSError, AssertionError, IndexError, shutil.Error):
                continue


def kinds() -> list[Case]:
    """The changes that leave enough on the disk for a start that serves all."""
    usual = [case for case in cases() if not _is_hopeless(case) and not case.has_snapshot]
    return [*usual, *_more_cases()]


def _is_hopeless(case: Case) -> bool:
    return case.description in HOPELESS or "__cluster_metadata-0/00000" in case.description


def generate(seed: int, count: int) -> Iterator[BrokenDirectories]:
    """One to five changes each."""
    random_ = random.Random(seed)
    all_kinds = kinds()
    for _ in range(count):
        yield BrokenDirectories(tuple(random_.sample(all_kinds, random_.randint(1, 5))))


def _more_cases() -> Iterator[Case]:
    for name in _NEW_NAMES:
        yield Case(f"victim-0 is called {name}", _renamed(VICTIM, f"one/{name}"))
        yield Case(f"a copy called {name}", _copied(VICTIM, f"one/{name}"))
    for suffix in ("stray", "delete"):
        name = STRAY.replace("bystander", "victim").replace("stray", suffix)
        yield Case(f"victim-0 is marked {suffix}", _renamed(VICTIM, f"one/{name}"))
    yield Case("one level too high", _one_level_higher)
    yield Case("a copy of the log directory in it", _copied("one", "one/kafka-logs"))
    yield Case("victim-0 is a copy of the log directory", _log_directory_in_its_place)


def _renamed(name: str, new_name: str) -> Change:
    def change(path: Path) -> None:
        if not (path / new_name).exists():
            (path / name).rename(path / new_name)

    return change


def _copied(name: str, new_name: str) -> Change:
    def change(path: Path) -> None:
        between = path / "copied"
        shutil.copytree(path / name, between, symlinks=True)
        between.rename(path / new_name)

    return change


def _log_directory_in_its_place(path: Path) -> None:
    _copied("one", "copy")(path)
    _renamed(VICTIM, "one/restored")(path)
    if not (path / VICTIM).exists():
        (path / "copy").rename(path / VICTIM)


def _one_level_higher(path: Path) -> None:
    (path / "one").rename(path / "inner")
    (path / "one").mkdir()
    (path / "inner").rename(path / "one/data")
    (path / "one/lost+found").mkdir()
    shutil.copy(path / "one/data/meta.properties", path / "one")  # as a container formats it


def carry_out(path: Path) -> list[Row]:
    """Carry out the plan for the log directories `one` and `two` of a path; returns its steps. The
    setting that a sentence asks for is made; steps that copy data to another place are left out."""
    directories = [name for name in ("one", "two") if (path / name).is_dir()]
    steps = kfmt("check", *directories, "--json", "--jobs", "1", cwd=path).of("next")
    assert [step["order"] for step in steps] == list(range(1, len(steps) + 1))
    for step in steps:
        command = step["command"]
        if command.startswith("# set log.dirs="):
            inner = command.removeprefix("# set log.dirs=").partition(",")[0]
            (path / inner).rename(path / "inner")
            (path / "one").rename(path / "outer")
            (path / "inner").rename(path / "one")
        elif command.startswith("kfmt ") and not command.endswith(" DST"):
            kfmt(*command.split()[1:], cwd=path)
        elif not command.startswith(("#", "kfmt ")):
            subprocess.run(["bash", "-c", command], check=True, cwd=path)
    return steps


def is_marked_clean(path: Path) -> bool:
    """Whether a broker finds the marker of a clean shutdown."""
    return (path / "one" / MARKER).exists()
