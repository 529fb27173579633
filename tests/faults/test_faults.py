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
    READERS,
    REQUIREMENTS,
    Bench,
    Fault,
    build_library,
    create_bench,
    failing_calls,
)

pytestmark = REQUIREMENTS
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
LEFTOVER_PREFIX = "kfmt-unfinished-"
FAULTS_PER_LINE = 25  # of progress


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def bench(library: Path, tmp_path: Path) -> Bench:
    return create_bench(library, tmp_path)


def finished_output(bench: Bench) -> dict[str, bytes]:
    """The output without leftovers, which the next run removes."""
    return {name: data for name, data in bench.outputs().items() if LEFTOVER_PREFIX not in name}


@dataclass
class FaultTrial:
    """One command, with its result when nothing fails."""

    bench: Bench
    name: str

    def __post_init__(self) -> None:
        self.is_reader = self.name in READERS
        self.command = READERS[self.name] if self.is_reader else WRITERS[self.name]
        self.source = next(word for word in self.command.split()[1:]).partition("/")[0]
        self.healthy = self.bench.run(self.command)
        self.expected_output = finished_output(self.bench)
        self.bench.clear_output()

    def iter_faults(
        self, kinds: Sequence[tuple[str, int]], directory: str, *, all_calls: bool
    ) -> Iterator[Fault]:
        """Faults on files below a directory: of all calls, or of the first few."""
        for kind, code in kinds:
            n_calls = self.bench.calls(self.command, kind, directory)
            self.bench.clear_output()
            for call in failing_calls(n_calls, every=all_calls):
                yield Fault(kind, code, call, directory)

    def check(self, fault: Fault) -> None:
        """Run the command with a fault."""
        result = self.bench.run(self.command, fault)
        context = f"{self.name}: {fault}: {result.returncode} {result.stderr}"
        assert "Traceback" not in result.stderr, context
        if result.returncode == 3:
            reason = os.strerror(fault.code)
            lines = [line for line in result.stderr.splitlines() if reason in line]
            assert len(lines) == 1, context
            assert fault.directory in lines[0], context
        else:
            assert result.returncode == self.healthy.returncode, context
        if self.is_reader:
            assert result.returncode == 3 or result.stdout == self.healthy.stdout, context
            return
        try:
            if fault.directory == self.source:
                self._check_read_output(result.returncode == 3, context)
            else:
                self._check_no_partial_output(result.returncode == 3, context)
        finally:
            self.bench.clear_output()

    def _check_read_output(self, is_failed: bool, context: str) -> None:
        """Check that the output has only the files of a run without faults; all if none failed."""
        output = finished_output(self.bench)
        if self.name != "report" and not is_failed:
            assert output == self.expected_output, context
        assert output.keys() <= self.expected_output.keys(), context

    def _check_no_partial_output(self, is_failed: bool, context: str) -> None:
        keeps_finished_files = self.name == "export"  # complete files stay
        if not (is_failed and keeps_finished_files):
            assert finished_output(self.bench).keys() == (
                set() if is_failed else self.expected_output.keys()
            ), context
        if is_failed:
            rerun = self.bench.run(
                f"{self.command} --force" if keeps_finished_files else self.command
            )
            assert rerun.returncode == self.healthy.returncode, context + rerun.stderr
            assert finished_output(self.bench).keys() == self.expected_output.keys(), context


@pytest.mark.parametrize("name", READERS)
def test_a_read_that_fails_is_one_line(name: str, bench: Bench) -> None:
    trial = FaultTrial(bench, name)
    for fault in trial.iter_faults(READS[:1], trial.source, all_calls=False):
        trial.check(fault)


@pytest.mark.parametrize("name", WRITERS)
def test_a_write_that_fails_leaves_nothing_half(name: str, bench: Bench) -> None:
    trial = FaultTrial(bench, name)
    assert trial.expected_output, trial.healthy.stderr
    for fault in trial.iter_faults(WRITES[:1], "out", all_calls=False):
        trial.check(fault)


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
    path = f"in/{file}"
    last_call = bench.calls(command, "open", path)  # the long run tries the others
    bench.clear_output()
    result = bench.run(command, Fault("open", errno.EIO, last_call, path))
    assert result.returncode == 3, (result.stdout, result.stderr)
    lines = [line for line in result.stderr.splitlines() if line.startswith("kfmt: ")]
    assert len(lines) == 1
    assert f"{path}: " in lines[0]
    assert lines[0].endswith(os.strerror(errno.EIO))


@pytest.mark.parametrize("archive_format", ["tar", "gztar", "bztar", "xztar", "zip"])
def test_an_archive_that_cannot_be_read_is_named(archive_format: str, bench: Bench) -> None:
    directory = bench.directory
    archive = Path(
        shutil.make_archive(str(directory / "packed"), archive_format, directory / "in", "orders-0")
    ).name
    command = f"verify-crc {archive}"
    for kind, code in (("open", errno.EACCES), ("read", errno.EIO)):
        for call in failing_calls(bench.calls(command, kind, archive), every=False):
            result = bench.run(command, Fault(kind, code, call, archive))
            assert result.returncode == 3, result.stdout
            (line,) = result.stderr.splitlines()
            assert line.startswith(f"kfmt: {archive}")
            assert line.endswith(f": {os.strerror(code)}")
            assert "unpack" not in line
    assert bench.run(command).returncode == 0


def print_line(line: str) -> None:
    """Print a line without buffering."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def try_all(name: str) -> bool:
    """Try every fault of a command; prints failures and counts."""
    counts: Counter[str] = Counter()
    n_failures = 0
    with tempfile.TemporaryDirectory() as directory:
        trial = FaultTrial(create_bench(build_library(Path(directory)), Path(directory)), name)
        reads = trial.iter_faults(READS, trial.source, all_calls=True)
        writes = trial.iter_faults(WRITES, "out", all_calls=True)
        for fault in reads if trial.is_reader else chain(reads, writes):
            kind = f"{fault.kind} {errno.errorcode[fault.code]} {fault.directory}"
            if counts[kind] % FAULTS_PER_LINE == 0:
                print_line(f"{name}: {kind} from {counts[kind] + 1}")
            counts[kind] += 1
            try:
                trial.check(fault)
            except AssertionError as error:
                n_failures += 1
                print_line(str(error))
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    print_line(f"{name}: {n_failures} wrong of {kinds}")
    return n_failures == 0


if __name__ == "__main__":
    survived = [try_all(name) for name in sys.argv[1:] or [*READERS, *WRITERS]]
    sys.exit(not all(survived))
