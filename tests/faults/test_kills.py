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

from kfmt_cli.core.temporary_locks import FILES_DIRECTORY_NAME
from tests.support import warm
from tests.support.faults import (
    N_FIRST_CALLS,
    REQUIREMENTS,
    Bench,
    Fault,
    build_library,
    create_bench,
    file_contents,
)
from tools.kafka import ROOT

pytestmark = REQUIREMENTS
N_KILLS = 200
SHORT = ("salvage", "rebuild-index-in-place", "build", "export")  # the others are in the long run
LEFTOVER_AGE_SECONDS = 10  # after which a leftover is not new
OUTPUT = "out/made"
INDEXES = ("*index", "*.snapshot")
_RANDOM_PART = re.compile(r"[0-9a-f]{32}|unfinished-[^/.]{8}|kfmt-[a-z]*-?[^/]{8}(?=/|$)")
# kfmt removes a leftover with all its contents.
_LEFTOVER_CONTENTS = re.compile(f"(?<=/{FILES_DIRECTORY_NAME}/).*")
_TIMES = re.compile(rb'"(made_at|seconds)":[0-9.e-]+|Made by kfmt .* UTC')


@dataclass(frozen=True)
class WritingCommand:
    """A command that writes, and how to prepare its output directory."""

    command: str
    prepare: Callable[[Bench], object] = lambda _: None
    retry_options: str = ""
    """Additional options of the second call."""
    may_be_partial: bool = False
    """Whether the output may have some complete files without the others."""


def _copy_damaged_segment(bench: Bench) -> None:
    shutil.copytree(ROOT / "damaged_segments/flipped-bit-0", bench.directory / "damaged")


def _write_archive(bench: Bench) -> None:
    shutil.make_archive(str(bench.directory / "packed"), "gztar", bench.directory, "in")


def _copy_with_damaged_indexes(bench: Bench) -> None:
    """Copy a partition with a missing and an invalid index to the output."""
    shutil.copytree(bench.directory / "in/orders-0", bench.directory / OUTPUT)
    (bench.directory / OUTPUT / "00000000000000000000.timeindex").unlink()
    (bench.directory / OUTPUT / "00000000000000000240.index").write_bytes(bytes(8))


def _copy_replica(bench: Bench) -> None:
    """Copy a log directory, as another broker's, and create the output directory."""
    shutil.copytree(bench.directory / "in", bench.directory / "replica", dirs_exist_ok=True)


def _create_output(bench: Bench) -> None:
    (bench.directory / OUTPUT).mkdir(parents=True)


_INPUT_PREPARATIONS = (_copy_damaged_segment, _write_archive, _copy_replica)
WRITERS = {
    "salvage": WritingCommand(f"salvage in/orders-0 {OUTPUT}"),
    "salvage-directory": WritingCommand(f"salvage in {OUTPUT}"),
    "salvage-records": WritingCommand(f"salvage damaged {OUTPUT} --records"),
    "salvage-archive": WritingCommand(f"salvage packed.tar.gz {OUTPUT}"),
    "rebuild-index": WritingCommand(f"rebuild-index in/orders-0 {OUTPUT}"),
    "rebuild-index-in-place": WritingCommand(
        f"rebuild-index {OUTPUT} --in-place --all-files",
        _copy_with_damaged_indexes,
        may_be_partial=True,
    ),
    "merge": WritingCommand(f"merge in replica --to {OUTPUT}"),
    "check-output": WritingCommand(
        f"check in/orders-0 damaged --format sarif -o {OUTPUT}/findings.sarif", _create_output
    ),
    "check-baseline": WritingCommand(
        f"check damaged --write-baseline {OUTPUT}/known.jsonl", _create_output
    ),
    "convert": WritingCommand(f"convert-v0-to-v2 old {OUTPUT}"),
    "convert-zstd": WritingCommand(f"convert-v0-to-v2 old {OUTPUT} --compression zstd"),
    "build": WritingCommand(f"build records.jsonl {OUTPUT}"),
    "build-zstd": WritingCommand(
        f"build records.jsonl {OUTPUT} --compression zstd --batch-records 2"
    ),
    "export": WritingCommand(f"export in --to {OUTPUT}", may_be_partial=True),
    "export-csv": WritingCommand(
        f"export in/orders-0 --to {OUTPUT} --format csv", may_be_partial=True
    ),
    "export-json": WritingCommand(
        f"export in/orders-0 --to {OUTPUT} --format json --tables records,batches",
        may_be_partial=True,
    ),
    "report": WritingCommand(f"report in/orders-0 --now 2030-01-01 --to {OUTPUT}/page.html"),
    "report-data": WritingCommand(
        f"report in/orders-0 --now 2030-01-01 --to {OUTPUT}/page.html --data {OUTPUT}/data.json",
        retry_options="--force",
        may_be_partial=True,
    ),
}


@dataclass
class KillTrial:
    """A writing command, its result without kills, and the states after kills."""

    bench: Bench
    name: str
    states: set[frozenset[str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.writer = WRITERS[self.name]
        for prepare in _INPUT_PREPARATIONS:
            prepare(self.bench)
        self.inputs = self._inputs()
        for _ in range(2):  # the first run also starts the server
            self._prepare()
            self.previous_output = self.bench.outputs()
            started = time.monotonic()
            self.healthy = self.bench.run(self.writer.command)
            self.seconds = time.monotonic() - started
        self.expected_output = self.bench.outputs()
        assert self.healthy.returncode in (0, 1), self.healthy.stderr
        assert self.expected_output
        assert not list(self._temporary()), "it leaves temporary files"

    def _prepare(self) -> None:
        self.bench.clear_output()
        shutil.rmtree(self.bench.directory / "tmp")
        (self.bench.directory / "tmp").mkdir()
        self.writer.prepare(self.bench)

    def _inputs(self) -> dict[str, bytes]:
        return {
            f"{name}/{file}": data
            for name in ("in", "old", "damaged")
            for file, data in file_contents(self.bench.directory / name).items()
        }

    def iter_faults(self) -> Iterator[Fault]:
        """A kill at each call on the output or a temporary file."""
        for directory in ("out", "tmp"):
            self._prepare()
            for call in range(1, self.bench.calls(self.writer.command, "any", directory) + 1):
                yield Fault("any", 0, call, directory)

    def kill_at_call(self, fault: Fault) -> None:
        """Kill the command at a call, and check the output."""
        self._prepare()
        code = self.bench.run(self.writer.command, fault).returncode
        self._check_state(f"{fault.directory} {fault.number}: {code}")

    def kill_at_instant(self, fraction: float) -> None:
        """Kill the command after a fraction of its duration, and check the output."""
        self._prepare()
        with Path(os.devnull).open("r+b") as null_device:
            running = warm.start(
                self.writer.command.split(),
                cwd=self.bench.directory,
                env=self.bench.environment(),
                **dict.fromkeys(("stdin", "stdout", "stderr"), null_device),
            )
            time.sleep(fraction * self.seconds)
            with suppress(ProcessLookupError):
                running.send_signal(signal.SIGKILL)
            self._check_state(f"part {fraction}: {running.wait()}")

    def _check_state(self, context: str) -> None:
        """Check the output; run the command again unless an earlier kill left the same state."""
        output = self.bench.outputs()
        visible_output = {
            name: self._without_times(data) for name, data in output.items() if not _is_hidden(name)
        }
        expected = {name: self._without_times(data) for name, data in self.expected_output.items()}
        assert self._inputs() == self.inputs, context
        if self.writer.may_be_partial:
            allowed = [*expected.items(), *self.previous_output.items()]
            assert all(item in allowed for item in visible_output.items()), context
        else:
            assert visible_output in (expected, self.previous_output), (
                f"{context}: {sorted(visible_output)}"
            )
        names = [*output, *map(str, self._temporary())]
        state = frozenset(_LEFTOVER_CONTENTS.sub("", _RANDOM_PART.sub("#", name)) for name in names)
        if state not in self.states:
            self.states.add(state)
            self._check_rerun(context, expected, is_complete=visible_output == expected)

    def _temporary(self) -> Iterator[Path]:
        """Temporary files, without the one with which Python checks that it can write."""
        for path in (self.bench.directory / "tmp").rglob("*"):
            if path.name.startswith("kfmt-") or path.parent.name != "tmp":
                yield path

    def _check_rerun(self, context: str, expected: dict[str, bytes], *, is_complete: bool) -> None:
        for directory in ("out", "tmp"):
            _make_old(self.bench.directory / directory)
        rerun = self.bench.run(f"{self.writer.command} {self.writer.retry_options}")
        context = f"{context}: {rerun.returncode} {rerun.stderr}"
        if is_complete and rerun.returncode == 2:  # the output is complete
            assert "already exists" in rerun.stderr or "not empty" in rerun.stderr, context
            return
        assert rerun.returncode == self.healthy.returncode, context
        output = {name: self._without_times(data) for name, data in self.bench.outputs().items()}
        assert output == expected, f"{context}: {sorted(output)}"
        assert not list(self._temporary()), f"{context}: {list(self._temporary())}"

    @staticmethod
    def _without_times(data: bytes) -> bytes:
        """Remove the times of a report."""
        return _TIMES.sub(b"", data)


def _is_hidden(name: str) -> bool:
    return "unfinished" in name


def _make_old(directory: Path) -> None:
    """Set the modification times in a directory to an old time."""
    modified_at = time.time() - LEFTOVER_AGE_SECONDS
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            os.utime(path, (modified_at, modified_at))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize(
    "name",
    [name if name in SHORT else pytest.param(name, marks=pytest.mark.fuzz) for name in WRITERS],
)
def test_a_kill_leaves_nothing_half(name: str, library: Path, tmp_path: Path) -> None:
    trial = KillTrial(create_bench(library, tmp_path), name)
    n_calls = trial.bench.calls(trial.writer.command, "any", "out")
    for call in range(n_calls - N_FIRST_CALLS + 1, n_calls + 1):  # where the output appears
        trial.kill_at_call(Fault("any", 0, call, "out"))


def kill(name: str, n_kills: int) -> bool:
    """Kill a command at every call and, up to that number, at random instants; prints failures and
    counts."""
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        trial = KillTrial(create_bench(build_library(Path(directory)), Path(directory)), name)
        faults = list(trial.iter_faults())
        fractions = [random.random() for _ in range(max(n_kills - len(faults), 0))]
        for kill_once in (
            *(partial(trial.kill_at_call, fault) for fault in faults),
            *(partial(trial.kill_at_instant, fraction) for fraction in fractions),
        ):
            try:
                kill_once()
            except AssertionError as error:
                failures.append(str(error))
        summary = f"{len(faults)} calls, {len(fractions)} instants, {len(trial.states)} states"
    sys.stdout.write("".join(f"{name}: {line}\n" for line in [*failures, summary]))
    sys.stdout.flush()
    return not failures


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="COMMAND")
    parser.add_argument("--kills", type=int, default=N_KILLS)
    arguments = parser.parse_args()
    survived = [kill(name, arguments.kills) for name in arguments.names or WRITERS]
    sys.exit(not all(survived))
