"""Every writing command is killed at each of its calls to the system: its output is whole or
absent, its inputs are unchanged, and the same command then works and leaves nothing else behind.

For every call, and at random instants: `python -m tests.faults.test_kills [COMMAND…] [--kills N]`.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from kfmt_cli.core.temporary_locks import FILES_DIRECTORY
from tests.support import warm
from tests.support.faults import FIRST, NEEDED, Bench, Fault, benched, compiled, contents
from tools.kafka import ROOT

pytestmark = NEEDED
KILLS = 200
SHORT = ("salvage", "rebuild-index-in-place", "build", "export")  # the others: in the long run
OLD = 10  # seconds, after which a leftover cannot be new
MADE = "out/made"
INDEXES = ("*index", "*.snapshot")
_RANDOM_PART = re.compile(r"[0-9a-f]{32}|unfinished-[^/.]{8}|kfmt-[a-z]*-?[^/]{8}(?=/|$)")
_INSIDE = re.compile(f"(?<=/{FILES_DIRECTORY}/).*")  # of a leftover, which is removed as a whole
_TIMES = re.compile(rb'"(made_at|seconds)":[0-9.e-]+|Made by kfmt .* UTC')


@dataclass(frozen=True)
class Writer:
    """A command that writes, and what is there before it."""

    command: str
    before: Callable[[Bench], object] = lambda _: None
    again: str = ""
    """What the second call needs besides."""
    may_be_part: bool = False
    """Whether complete files may be there without the others."""


def _damaged(bench: Bench) -> None:
    shutil.copytree(ROOT / "damaged_segments/flipped-bit-0", bench.folder / "damaged")


def _packed(bench: Bench) -> None:
    shutil.make_archive(str(bench.folder / "packed"), "gztar", bench.folder, "in")


def _without_indexes(bench: Bench) -> None:
    """A copy of a partition with a missing and a wrong index, at the output."""
    shutil.copytree(bench.folder / "in/orders-0", bench.folder / MADE)
    (bench.folder / MADE / "00000000000000000000.timeindex").unlink()
    (bench.folder / MADE / "00000000000000000240.index").write_bytes(bytes(8))


_INPUTS = (_damaged, _packed)
WRITERS = {
    "salvage": Writer(f"salvage in/orders-0 {MADE}"),
    "salvage-directory": Writer(f"salvage in {MADE}"),
    "salvage-records": Writer(f"salvage damaged {MADE} --records"),
    "salvage-archive": Writer(f"salvage packed.tar.gz {MADE}"),
    "rebuild-index": Writer(f"rebuild-index in/orders-0 {MADE}"),
    "rebuild-index-in-place": Writer(
        f"rebuild-index {MADE} --in-place --all-files", _without_indexes, may_be_part=True
    ),
    "convert": Writer(f"convert-v0-to-v2 old {MADE}"),
    "convert-zstd": Writer(f"convert-v0-to-v2 old {MADE} --compression zstd"),
    "build": Writer(f"build records.jsonl {MADE}"),
    "build-zstd": Writer(f"build records.jsonl {MADE} --compression zstd --batch-records 2"),
    "export": Writer(f"export in --to {MADE}", may_be_part=True),
    "export-csv": Writer(f"export in/orders-0 --to {MADE} --format csv", may_be_part=True),
    "export-json": Writer(
        f"export in/orders-0 --to {MADE} --format json --tables records,batches", may_be_part=True
    ),
    "report": Writer(f"report in/orders-0 --now 2030-01-01 --to {MADE}/page.html"),
    "report-data": Writer(
        f"report in/orders-0 --now 2030-01-01 --to {MADE}/page.html --data {MADE}/data.json",
        again="--force",
        may_be_part=True,
    ),
}


@dataclass
class Killed:
    """A writing command, its undisturbed result, and the states in which kills have left it."""

    bench: Bench
    name: str
    states: set[frozenset[str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.writer = WRITERS[self.name]
        for prepare in _INPUTS:
            prepare(self.bench)
        self.inputs = self._inputs()
        for _ in range(2):  # the first run also starts the server
            self._prepare()
            self.former = self.bench.made()
            begun = time.monotonic()
            self.healthy = self.bench.run(self.writer.command)
            self.seconds = time.monotonic() - begun
        self.whole = self.bench.made()
        assert self.healthy.returncode in (0, 1), self.healthy.stderr
        assert self.whole
        assert not list(self._temporary()), "it leaves temporary files"

    def _prepare(self) -> None:
        self.bench.emptied()
        shutil.rmtree(self.bench.folder / "tmp")
        (self.bench.folder / "tmp").mkdir()
        self.writer.before(self.bench)

    def _inputs(self) -> dict[str, bytes]:
        return {
            f"{name}/{file}": data
            for name in ("in", "old", "damaged")
            for file, data in contents(self.bench.folder / name).items()
        }

    def faults(self) -> Iterator[Fault]:
        """A kill at each call on the output or a temporary file."""
        for below in ("out", "tmp"):
            self._prepare()
            for number in range(1, self.bench.calls(self.writer.command, "any", below) + 1):
                yield Fault("any", 0, number, below)

    def at_call(self, fault: Fault) -> None:
        """Kill it at a call, and look."""
        self._prepare()
        code = self.bench.run(self.writer.command, fault).returncode
        self._look(f"{fault.below} {fault.number}: {code}")

    def at_instant(self, part: float) -> None:
        """Kill it after a part of its time, and look."""
        self._prepare()
        with Path(os.devnull).open("r+b") as nowhere:
            running = warm.start(
                self.writer.command.split(),
                cwd=self.bench.folder,
                env=self.bench.environment(),
                **dict.fromkeys(("stdin", "stdout", "stderr"), nowhere),
            )
            time.sleep(part * self.seconds)
            with suppress(ProcessLookupError):
                running.send_signal(signal.SIGKILL)
            self._look(f"part {part}: {running.wait()}")

    def _look(self, where: str) -> None:
        """Check what is there; run the command again unless a kill has left the same before."""
        left = self.bench.made()
        made = {name: self._plain(data) for name, data in left.items() if not _is_hidden(name)}
        whole = {name: self._plain(data) for name, data in self.whole.items()}
        assert self._inputs() == self.inputs, where
        if self.writer.may_be_part:
            known = [*whole.items(), *self.former.items()]
            assert all(item in known for item in made.items()), where
        else:
            assert made in (whole, self.former), f"{where}: {sorted(made)}"
        names = [*left, *map(str, self._temporary())]
        state = frozenset(_INSIDE.sub("", _RANDOM_PART.sub("#", name)) for name in names)
        if state not in self.states:
            self.states.add(state)
            self._works_again(where, whole, is_done=made == whole)

    def _temporary(self) -> Iterator[Path]:
        """Temporary files, without the one by which Python tries whether it can write."""
        for path in (self.bench.folder / "tmp").rglob("*"):
            if path.name.startswith("kfmt-") or path.parent.name != "tmp":
                yield path

    def _works_again(self, where: str, whole: dict[str, bytes], *, is_done: bool) -> None:
        for folder in ("out", "tmp"):
            _age(self.bench.folder / folder)
        again = self.bench.run(f"{self.writer.command} {self.writer.again}")
        where = f"{where}: {again.returncode} {again.stderr}"
        if is_done and again.returncode == 2:  # what is there is complete
            assert "already exists" in again.stderr or "not empty" in again.stderr, where
            return
        assert again.returncode == self.healthy.returncode, where
        made = {name: self._plain(data) for name, data in self.bench.made().items()}
        assert made == whole, f"{where}: {sorted(made)}"
        assert not list(self._temporary()), f"{where}: {list(self._temporary())}"

    @staticmethod
    def _plain(data: bytes) -> bytes:
        """Without the times of a report."""
        return _TIMES.sub(b"", data)


def _is_hidden(name: str) -> bool:
    return "unfinished" in name


def _age(folder: Path) -> None:
    """Make everything in a directory look old."""
    then = time.time() - OLD
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            os.utime(path, (then, then))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize(
    "name",
    [name if name in SHORT else pytest.param(name, marks=pytest.mark.fuzz) for name in WRITERS],
)
def test_a_kill_leaves_nothing_half(name: str, library: Path, tmp_path: Path) -> None:
    killed = Killed(benched(library, tmp_path), name)
    n_calls = killed.bench.calls(killed.writer.command, "any", "out")
    for number in range(n_calls - FIRST + 1, n_calls + 1):  # where the output appears
        killed.at_call(Fault("any", 0, number, "out"))


def kill(name: str, n_kills: int) -> bool:
    """Kill a command at every call, and at random instants up to a number; prints what is wrong,
    and the counts."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as top:
        killed = Killed(benched(compiled(Path(top)), Path(top)), name)
        faults = list(killed.faults())
        parts = [random.random() for _ in range(max(n_kills - len(faults), 0))]
        for take in (
            *(partial(killed.at_call, fault) for fault in faults),
            *(partial(killed.at_instant, part) for part in parts),
        ):
            try:
                take()
            except AssertionError as error:
                wrong.append(str(error))
        words = f"{len(faults)} calls, {len(parts)} instants, {len(killed.states)} states"
    sys.stdout.write("".join(f"{name}: {line}\n" for line in [*wrong, words]))
    sys.stdout.flush()
    return not wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="COMMAND")
    parser.add_argument("--kills", type=int, default=KILLS)
    given = parser.parse_args()
    survived = [kill(name, given.kills) for name in given.names or WRITERS]
    sys.exit(not all(survived))
