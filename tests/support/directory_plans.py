"""Broken log directories, by a generator: one to five changes of names, ids, mounts, copies and
files at once, and a plan that is carried out as it is printed."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

from kfmt_cli.render.verdict_lines import CHECK_FIRST
from tests.support.directory_cases import MARKER, STRAY, Case, Change, cases
from tests.support.mutants import Mutant, swap_pages
from tests.support.samples import Row, kfmt
from tests.support.segments import positions

VICTIM = "one/victim-0"
# Changes after which no file on the disk has what is needed.
HOPELESS = {
    *("no metadata log", "an empty victim-0", "no victim-0"),
    *("a bit of the first metadata batches", "a bit of the last metadata batches"),
    *("the metadata log cut by 40 bytes", "zeros after the metadata log"),
    *("the newest snapshot without its footer", "the newest snapshot cut"),
}
MAX_CHECKS = 5
_NEW_NAMES = ("victim-0.bak", "victim-0-old", "victim-0~", "copy of victim-0", "victim", "x")


@dataclass(frozen=True)
class BrokenDirectories:
    """Some changes of the same log directories."""

    changes: tuple[Case, ...]
    n_log_damages: int = 0
    """How many of them, the first, damage the logs of `victim-0`."""

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
        self._make(path, self.changes[self.n_log_damages :])

    def damage_logs(self, path: Path) -> None:
        """Make the damages of the logs, which come first."""
        self._make(path, self.changes[: self.n_log_damages])

    @staticmethod
    def _make(path: Path, changes: Iterable[Case]) -> None:
        for case in changes:
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


def carry_out(path: Path, *, puts_salvaged_in_place: bool = False) -> list[Row]:
    """Carry out the plan for the log directories `one` and `two` of a path; returns its steps. The
    setting that a sentence asks for is made.

    puts_salvaged_in_place: the copies of undamaged batches replace their partitions before the
    start; otherwise steps that copy data to another place are left out.
    """
    all_steps: list[Row] = []
    for _ in range(MAX_CHECKS):
        directories = [name for name in ("one", "two") if (path / name).is_dir()]
        says_to_check = CHECK_FIRST in kfmt("check", *directories, cwd=path).out
        steps = _carry_out_once(path, puts_salvaged_in_place)
        all_steps += steps
        if not says_to_check or not steps:
            break
    return all_steps


def _carry_out_once(path: Path, puts_salvaged_in_place: bool) -> list[Row]:
    directories = [name for name in ("one", "two") if (path / name).is_dir()]
    steps = kfmt("check", *directories, "--json", "--jobs", "1", cwd=path).of("next")
    assert [step["order"] for step in steps] == list(range(1, len(steps) + 1))
    salvaged_by_partition: dict[Path, Path] = {}
    for step in steps:
        command = step["command"]
        if command.startswith("# set log.dirs="):
            inner = command.removeprefix("# set log.dirs=").partition(",")[0]
            (path / inner).rename(path / "inner")
            (path / "one").rename(path / "outer")
            (path / "inner").rename(path / "one")
        elif command.startswith("kfmt salvage ") and command.endswith(" DST"):
            if puts_salvaged_in_place and "--deleted" not in command:
                salvaged = path / f"salvaged {step['order']}"
                words = shlex.split(command)[1:-1]
                kfmt(*words, salvaged.name, cwd=path)
                (partition,) = (word for word in words[1:] if not word.startswith("--"))
                salvaged_by_partition[path / partition] = salvaged
        elif command.startswith("kfmt "):
            kfmt(*shlex.split(command)[1:], cwd=path)
        elif not command.startswith(("#", "kfmt ")):
            subprocess.run(["bash", "-c", command], check=True, cwd=path)
    for place, copy in salvaged_by_partition.items():
        # A later step may have given its directory, or that of its log directory, another name.
        (current,) = {place, path / "one/victim-0", path / "two/victim-0"} & set(path.rglob("*-0"))
        current.rename(path / f"damaged {copy.name}")
        copy.rename(current)
    return steps


# Damages of the logs


def generate_damaged(seed: int, count: int) -> Iterator[BrokenDirectories]:
    """One or two damages of the logs of `victim-0`, and up to two other changes."""
    random_ = random.Random(seed)
    all_kinds = kinds()
    for _ in range(count):
        damages = [
            _log_damage(random_.choice(list(LOG_DAMAGES)), random_.random())
            for _ in range(random_.randint(1, 2))
        ]
        others = random_.sample(all_kinds, random_.randint(0, 2))
        yield BrokenDirectories((*damages, *others), n_log_damages=len(damages))


def _log_damage(name: str, seed: float) -> Case:
    def change(path: Path) -> None:
        random_ = random.Random(seed)
        log = random_.choice(sorted((path / VICTIM).glob("*.log")))
        LOG_DAMAGES[name](log, random_)

    return Case(f"{name} {seed:.6f}", change)


def _flip_bit(log: Path, random_: random.Random) -> None:
    data = bytearray(log.read_bytes())
    data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
    log.write_bytes(data)


def _zero_page(log: Path, random_: random.Random) -> None:
    data = bytearray(log.read_bytes())
    start = random_.randrange(0, len(data), 512)
    end = min(start + random_.choice((512, 4096)), len(data))
    data[start:end] = bytes(end - start)
    log.write_bytes(data)


def _cut(log: Path, random_: random.Random) -> None:
    os.truncate(log, random_.randrange(log.stat().st_size))


def _append_garbage(log: Path, random_: random.Random) -> None:
    log.write_bytes(log.read_bytes() + random_.randbytes(random_.randrange(1, 3000)))


def _exchange_pages(log: Path, random_: random.Random) -> None:
    mutant = Mutant.of(log.read_bytes())
    swap_pages(mutant, random_)
    log.write_bytes(mutant.data)


def _delete_segment(log: Path, _: random.Random) -> None:
    for file in log.parent.glob(f"{log.stem}.*"):
        file.unlink()


LOG_DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "a flipped bit": _flip_bit,
    "a page of zeros": _zero_page,
    "a log cut": _cut,
    "garbage after a log": _append_garbage,
    "pages exchanged": _exchange_pages,
    "no segment": _delete_segment,
}


def undamaged_offsets(path: Path, original: Mapping[str, bytes]) -> set[int]:
    """The offsets of the batches of the victim's original logs whose bytes are still in its logs.

    original: the contents of its files, by name.
    """
    logs = [log.read_bytes() for log in (path / VICTIM).glob("*.log")]
    batches = (
        batch
        for name, data in original.items()
        if name.endswith(".log")
        for batch in _batches(data)
        if any(batch in log for log in logs)
    )
    return set(chain.from_iterable(map(_offsets, batches)))


def set_aside_offsets(path: Path) -> set[int]:
    """The offsets of the batches that `salvage` set aside, as their place contradicts others'."""
    logs = (log.read_bytes() for log in path.rglob("contradicting/**/*.log"))
    return set(chain.from_iterable(_offsets(batch) for log in logs for batch in _batches(log)))


def _batches(log: bytes) -> Iterator[bytes]:
    return (log[start:end] for start, end in pairwise(positions(log)))


def _offsets(batch: bytes) -> range:
    base_offset = int.from_bytes(batch[:8], "big")
    return range(base_offset, base_offset + int.from_bytes(batch[23:27], "big") + 1)


def is_marked_clean(path: Path) -> bool:
    """Whether a broker finds the marker of a clean shutdown."""
    return (path / "one" / MARKER).exists()
