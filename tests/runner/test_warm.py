"""A warm run of kfmt has the result of a run in a fresh interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.samples import ORDERS, environment
from tools.kafka import ROOT

RUNS: list[tuple[list[str | Path], bytes]] = [
    ([], b""),
    (["--version"], b""),
    (["--help"], b""),
    (["nonsense"], b""),
    (["dump", ORDERS, "--records"], b""),
    (["dump", "-", "--json"], ORDERS.read_bytes()),
    (["dump", "-"], b"not a log"),
    (["verify-crc", "damaged_segments", "--jobs", "2"], b""),
    (["index-check", "sample_segments/kafka-2.8.2"], b""),
    (["dump", "no/such\udcff.log", "ü漢"], b""),
    (["encode-varint", "three"], b""),
    (["pipeline", "export", "--help"], b""),
]


@pytest.mark.parametrize(("arguments", "stdin"), RUNS, ids=lambda item: str(item)[:40])
def test_a_warm_run_does_what_a_fresh_one_does(arguments: list[str | Path], stdin: bytes) -> None:
    fresh = subprocess.run(
        [sys.executable, "-m", "kfmt_cli", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    expected = (fresh.returncode, fresh.stdout, fresh.stderr)
    assert warm.run(arguments, stdin, ROOT, environment()) == expected


def test_each_run_has_its_own_directory_and_environment(tmp_path: Path) -> None:
    (tmp_path / "here.log").write_bytes(ORDERS.read_bytes())
    for _ in range(2):
        assert warm.run(["dump", "here.log"], b"", tmp_path, environment())[0] == 0
        assert warm.run(["dump", "here.log"], b"", ROOT, environment())[0] == 3
    narrow = warm.run(["dump", "--help"], b"", ROOT, environment(COLUMNS="40"))
    wide = warm.run(["dump", "--help"], b"", ROOT, environment(COLUMNS="100"))
    assert len(narrow[1].splitlines()) > len(wide[1].splitlines())


def test_what_the_interpreter_reads_gets_an_interpreter_of_its_own(tmp_path: Path) -> None:
    package = tmp_path / "kfmt_cli"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("print('another kfmt')\n")
    env = environment(PYTHONPATH=str(tmp_path))
    assert warm.run([], b"", tmp_path, env) == (0, b"another kfmt\n", b"")
    assert warm.run(["--version"], b"", ROOT, environment())[1].startswith(b"kfmt ")


def test_the_signal_that_ends_a_run_is_its_code(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with Path(os.devnull).open("r+b") as null:
        for signal_number in (signal.SIGKILL, signal.SIGINT):
            running = warm.start(
                ["dump", fifo], cwd=ROOT, env=environment(), stdin=null, stdout=null, stderr=null
            )
            with fifo.open("wb"):  # it has started: it opened the other end
                running.send_signal(signal_number)
                assert running.wait() == (-9 if signal_number == signal.SIGKILL else 130)


def test_a_run_that_does_not_end_is_ended(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with Path(os.devnull).open("r+b") as null:
        running = warm.start(
            ["dump", fifo], cwd=ROOT, env=environment(), stdin=null, stdout=null, stderr=null
        )
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.2)
