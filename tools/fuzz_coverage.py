"""Fuzz what kfmt reads, guided by coverage, with Atheris, which no extra has: pip install atheris.

    python -m tools.fuzz_coverage TARGET [--seconds 600] [--corpus DIR] [--crashes DIR]
    python -m tools.fuzz_coverage TARGET --replay FILE

The targets are in `tests/support/fuzz_targets.py`. The sources run interpreted, with Atheris's
instrumentation; another process reads the same input with the compiled kernel. A failure is an
exception that no command expects, a different answer of the compiled kernel, more than 10 s or 2
GB. It writes the input to --crashes, and the exit code is not 0. Inputs with new coverage stay in
--corpus, with which the next run starts. At the end, a minimal set of inputs of at most 4 KiB with
the same coverage is copied to tests/corpus/fuzzed/TARGET, which `tests/core/test_corpus.py` reads
with both kernels, and `python -m tools.sanitize` with the sanitizers.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import pkgutil
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.fuzz_inputs import CORPUS, MAX_INPUT_BYTES
from tests.support.fuzz_targets import TARGETS
from tests.support.interpreted import copy_sources
from tools.kafka import ROOT

INSIDE, SERVE = "--inside", "--serve"
RESTART = "./again"  # the script that starts the fuzzing process
MAX_FILES = 36  # of the corpus of a target
MAX_BYTES = 80 << 10
LIMITS = [
    "-timeout=10",
    "-rss_limit_mb=2048",
    f"-max_len={MAX_INPUT_BYTES}",
    "-print_final_stats=1",
]
NOT_IMPORTED = ("kfmt_cli.spark", "kfmt_cli.browse", "kfmt_cli.__main__")


def answer(target: str, data: bytes) -> bytes:
    """A target's output for an input."""
    with tempfile.TemporaryDirectory(prefix="kfmt-fuzz-", suffix="-x") as directory:  # no partition
        return TARGETS[target].run(data, Path(directory)).replace(directory.encode(), b"DIR")


def serve(target: str) -> None:
    """Answer each input on stdin, its size before it; an exception ends the process."""
    stdout_fd = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(stdout_fd, "wb") as output:
        while size := sys.stdin.buffer.read(4):
            reply = answer(target, sys.stdin.buffer.read(int.from_bytes(size, "big")))
            output.write(len(reply).to_bytes(4, "big") + reply)
            output.flush()


class Reader:
    """A process that reads inputs with the package in a directory."""

    def __init__(self, directory: Path, target: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.fuzz_coverage", target, SERVE],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(directory)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def answer(self, data: bytes) -> bytes:
        """A target's output for an input; raises AssertionError if the process ends instead."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(len(data).to_bytes(4, "big") + data)
        stdin.flush()
        size = stdout.read(4)
        if not size:
            raise AssertionError(f"the process that reads ended with {self._process.wait()}")
        return stdout.read(int.from_bytes(size, "big"))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def fuzz(target: str, arguments: list[str]) -> None:
    """Fuzz in this process, which has the interpreted package."""
    import atheris

    sys.modules["cython"] = None  # type: ignore[assignment]  # kfmt's own stand-in is faster
    with atheris.instrument_imports(include=["kfmt_cli"]):
        import kfmt_cli

        for module in pkgutil.walk_packages(kfmt_cli.__path__, "kfmt_cli."):
            if not module.name.startswith(NOT_IMPORTED):
                importlib.import_module(module.name)
    from kfmt_cli.core.native import kernel

    assert not kernel.COMPILED
    compiled = Reader(ROOT, target)

    def compare(data: bytes) -> None:
        interpreted, expected = answer(target, data), compiled.answer(data)
        if interpreted != expected:
            raise AssertionError(f"interpreted: {interpreted!r}\ncompiled: {expected!r}")

    atheris.Setup([RESTART, *arguments], compare)
    atheris.Fuzz()


def run(directory: Path, target: str, *arguments: str) -> int:
    """Run libFuzzer on the interpreted copy; returns its exit code. A merge starts it again."""
    command = shlex.join([sys.executable, "-m", "tools.fuzz_coverage", target, INSIDE])
    script = directory / RESTART
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": str(directory)}
    return subprocess.run(
        [script, *LIMITS, *arguments], check=False, cwd=directory, env=env
    ).returncode


def keep(target: str, covering: Path) -> None:
    """Copy selected inputs to the tests; if there are too many, some of each size."""
    directory = CORPUS / target
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    inputs = sorted(covering.iterdir(), key=lambda path: path.stat().st_size)
    n_files, remaining_bytes = min(len(inputs), MAX_FILES), MAX_BYTES
    for i in range(n_files):
        data = inputs[i * len(inputs) // n_files].read_bytes()
        remaining_bytes -= len(data)
        if remaining_bytes >= 0:
            (directory / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def main() -> None:
    """Run the fuzzer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--corpus", type=Path, help="what was found before; kept")
    parser.add_argument("--crashes", type=Path, default=Path("crashes"))
    parser.add_argument("--replay", type=Path, help="read only this input, with both kernels")
    options, remaining = parser.parse_known_args()
    target = options.target
    if remaining[:1] == [SERVE]:
        serve(target)
        return
    if remaining[:1] == [INSIDE]:
        fuzz(target, remaining[1:])
        return
    with tempfile.TemporaryDirectory(prefix="kfmt-fuzz-home-") as scratch:
        directory = Path(scratch)
        copy_sources(directory)
        if options.replay is not None:
            raise SystemExit(run(directory, target, str(options.replay.absolute())))
        corpus = (options.corpus or directory / "corpus").absolute()
        seeds = directory / "seeds"
        covering = directory / "covering"
        crashes = options.crashes.absolute()
        for path in (corpus, seeds, covering, crashes):
            path.mkdir(parents=True, exist_ok=True)
        for data in TARGETS[target].seeds():
            (seeds / hashlib.sha256(data[:MAX_INPUT_BYTES]).hexdigest()).write_bytes(
                data[:MAX_INPUT_BYTES]
            )
        existing = [str(path) for path in (seeds, CORPUS / target) if path.is_dir()]
        end = f"-max_total_time={options.seconds}"
        code = run(
            directory, target, end, f"-artifact_prefix={crashes}/{target}-", str(corpus), *existing
        )
        run(directory, target, "-set_cover_merge=1", str(covering), str(corpus), *existing)
        keep(target, covering)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
