"""Each call to the system fails once, for every command: one line that names the file, and nothing
half written. `tests/support/faults.c` makes it fail.

For every call, not only the first ones: `python -m tests.faults.test_faults [COMMAND…]`.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

from tests.support.faults import (
    NEEDED,
    READERS,
    Bench,
    Fault,
    benched,
    chosen,
    compiled,
)

pytestmark = NEEDED
READS = (
    *(("open", errno.EIO), ("open", errno.EMFILE), ("open", errno.EACCES)),
    *(("read", errno.EIO), ("list", errno.EACCES), ("list", errno.EMFILE)),
)
WRITES = (
    *(("write", errno.ENOSPC), ("open", errno.EACCES), ("open", errno.EMFILE)),
    *(("sync", errno.EIO), ("rename", errno.EIO), ("mkdir", errno.ENOSPC)),
)
WRITERS = {
    "salvage": "salvage in/orders-0 out/made",
    "rebuild-index": "rebuild-index in/orders-0 out/made",
    "convert-v0-to-v2": "convert-v0-to-v2 old out/made",
    "build": "build records.jsonl out/made",
    "export": "export in/orders-0 --to out/made",
    "report": "report in/orders-0 --to out/made/page.html --data out/made/data.json",
}
LEFT_OVER = "kfmt-unfinished-"
PROGRESS = 25  # faults a line of progress


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def bench(library: Path, tmp_path: Path) -> Bench:
    return benched(library, tmp_path)


def made(bench: Bench) -> dict[str, bytes]:
    """The output without leftovers, which the next run removes."""
    return {name: data for name, data in bench.made().items() if LEFT_OVER not in name}


@dataclass
class Tried:
    """One command with its undisturbed result."""

    bench: Bench
    name: str

    def __post_init__(self) -> None:
        self.is_reader = self.name in READERS
        self.command = READERS[self.name] if self.is_reader else WRITERS[self.name]
        self.source = next(word for word in self.command.split()[1:]).partition("/")[0]
        self.healthy = self.bench.run(self.command)
        self.whole = made(self.bench)
        self.bench.emptied()

    def faults(
        self, kinds: Sequence[tuple[str, int]], below: str, *, every: bool
    ) -> Iterator[Fault]:
        """Each fault to try, on files below a directory: every call, or the first few."""
        for kind, code in kinds:
            n_calls = self.bench.calls(self.command, kind, below)
            self.bench.emptied()
            for number in chosen(n_calls, every=every):
                yield Fault(kind, code, number, below)

    def survives(self, fault: Fault) -> None:
        """Run the command with a fault."""
        done = self.bench.run(self.command, fault)
        where = f"{self.name}: {fault}: {done.returncode} {done.stderr}"
        assert "Traceback" not in done.stderr, where
        if done.returncode == 3:
            said = os.strerror(fault.code)
            lines = [line for line in done.stderr.splitlines() if said in line]
            assert len(lines) == 1, where
            assert fault.below in lines[0], where
        else:
            assert done.returncode == self.healthy.returncode, where
        if self.is_reader:
            assert done.returncode == 3 or done.stdout == self.healthy.stdout, where
            return
        try:
            if fault.below == self.source:
                self._has_read(done.returncode == 3, where)
            else:
                self._leaves_nothing_half(done.returncode == 3, where)
        finally:
            self.bench.emptied()

    def _has_read(self, is_failed: bool, where: str) -> None:
        """Whatever was read is written as it is without a fault; all of it, if nothing failed."""
        left = made(self.bench)
        if self.name != "report" and not is_failed:
            assert left == self.whole, where
        assert left.keys() <= self.whole.keys(), where

    def _leaves_nothing_half(self, is_failed: bool, where: str) -> None:
        is_kept = self.name == "export"  # the files that are complete
        if not (is_failed and is_kept):
            assert made(self.bench).keys() == (set() if is_failed else self.whole.keys()), where
        if is_failed:
            again = self.bench.run(f"{self.command} --force" if is_kept else self.command)
            assert again.returncode == self.healthy.returncode, where + again.stderr
            assert made(self.bench).keys() == self.whole.keys(), where


@pytest.mark.parametrize("name", READERS)
def test_a_read_that_fails_is_one_line(name: str, bench: Bench) -> None:
    tried = Tried(bench, name)
    for fault in tried.faults(READS[:1], tried.source, every=False):
        tried.survives(fault)


@pytest.mark.parametrize("name", WRITERS)
def test_a_write_that_fails_leaves_nothing_half(name: str, bench: Bench) -> None:
    tried = Tried(bench, name)
    assert tried.whole, tried.healthy.stderr
    for fault in tried.faults(WRITES[:1], "out", every=False):
        tried.survives(fault)


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("check in", "orders-0/partition.metadata"),
        ("check in", "orders-0/leader-epoch-checkpoint"),
        ("check in", "__cluster_metadata-0/quorum-state"),
        ("check in", "meta.properties"),
        ("check in/orders-0", "recovery-point-offset-checkpoint"),
        ("retention in/orders-0", "log-start-offset-checkpoint"),
        ("retention in/orders-0", "__cluster_metadata-0/00000000000000000000.log"),
        ("stat in", "log-start-offset-checkpoint"),
        ("compaction in/orders-0", "cleaner-offset-checkpoint"),
        ("diff in/orders-0 in/orders-0", "orders-0/leader-epoch-checkpoint"),
        ("export in/orders-0 --to out/made", "orders-0/partition.metadata"),
        ("rebuild-index in/orders-0 out/made", "__cluster_metadata-0/00000000000000000000.log"),
        ("salvage in out/made", "meta.properties"),
        ("report in/orders-0 --to out/made", "orders-0/00000000000000000240.index"),
    ],
)
def test_a_small_file_that_cannot_be_read_is_named(command: str, file: str, bench: Bench) -> None:
    below = f"in/{file}"
    last = bench.calls(command, "open", below)  # the others are tried in the long run
    bench.emptied()
    done = bench.run(command, Fault("open", errno.EIO, last, below))
    assert done.returncode == 3, (done.stdout, done.stderr)
    lines = [line for line in done.stderr.splitlines() if line.startswith("kfmt: ")]
    assert len(lines) == 1
    assert f"{below}: " in lines[0]
    assert lines[0].endswith(os.strerror(errno.EIO))


@pytest.mark.parametrize("form", ["tar", "gztar", "bztar", "xztar", "zip"])
def test_an_archive_that_cannot_be_read_is_named(form: str, bench: Bench) -> None:
    top = bench.folder
    archive = Path(shutil.make_archive(str(top / "packed"), form, top / "in", "orders-0")).name
    command = f"verify-crc {archive}"
    for kind, code in (("open", errno.EACCES), ("read", errno.EIO)):
        for number in chosen(bench.calls(command, kind, archive), every=False):
            done = bench.run(command, Fault(kind, code, number, archive))
            assert done.returncode == 3, done.stdout
            (line,) = done.stderr.splitlines()
            assert line.startswith(f"kfmt: {archive}")
            assert line.endswith(f": {os.strerror(code)}")
            assert "unpack" not in line
    assert bench.run(command).returncode == 0


def told(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def try_all(name: str) -> bool:
    """Try every fault of a command; prints those that it does not survive, and the counts."""
    counts: Counter[str] = Counter()
    n_wrong = 0
    with tempfile.TemporaryDirectory() as top:
        tried = Tried(benched(compiled(Path(top)), Path(top)), name)
        reads = tried.faults(READS, tried.source, every=True)
        writes = tried.faults(WRITES, "out", every=True)
        for fault in reads if tried.is_reader else chain(reads, writes):
            kind = f"{fault.kind} {errno.errorcode[fault.code]} {fault.below}"
            if counts[kind] % PROGRESS == 0:
                told(f"{name}: {kind} from {counts[kind] + 1}")
            counts[kind] += 1
            try:
                tried.survives(fault)
            except AssertionError as error:
                n_wrong += 1
                told(str(error))
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    told(f"{name}: {n_wrong} wrong of {kinds}")
    return n_wrong == 0


if __name__ == "__main__":
    survived = [try_all(name) for name in sys.argv[1:] or [*READERS, *WRITERS]]
    sys.exit(not all(survived))
