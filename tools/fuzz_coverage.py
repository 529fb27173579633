"""Fuzz what kfmt reads, guided by coverage, with Atheris, which no extra has: pip install atheris.

    python -m tools.fuzz_coverage TARGET [--seconds 600] [--corpus DIR] [--crashes DIR]
    python -m tools.fuzz_coverage TARGET --replay FILE

The targets are in `tests/support/fuzz_targets.py`. The sources run interpreted, with Atheris's
instrumentation; another process reads the same input with the compiled kernel. A failure is an
exception that no command expects, another answer of the compiled kernel, more than 10 s or 2 GB.
The input is then in --crashes, and the exit code is not 0. Inputs with new coverage stay in
--corpus, with which the next run begins. At the end those of at most 4 KiB that together cover what
all of them do go to tests/corpus/fuzzed/TARGET, which `tests/core/test_corpus.py` reads with both
kernels, and `python -m tools.sanitize` with the sanitizers.
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

from tests.support.fuzz_targets import CORPUS, LARGEST, TARGETS
from tests.support.interpreted import copy_sources
from tools.kafka import ROOT

INSIDE, SERVE = "--inside", "--serve"
AGAIN = "./again"  # starts a process inside
MOST_FILES = 36  # that are kept for a target, in 80 KiB
MOST_BYTES = 80 << 10
LIMITS = ["-timeout=10", "-rss_limit_mb=2048", f"-max_len={LARGEST}", "-print_final_stats=1"]
NOT_READ = ("kfmt_cli.spark", "kfmt_cli.browse", "kfmt_cli.__main__")


def answer(target: str, data: bytes) -> bytes:
    """What a target says about bytes."""
    with tempfile.TemporaryDirectory(prefix="kfmt-fuzz-", suffix="-x") as folder:  # no partition
        return TARGETS[target].run(data, Path(folder)).replace(folder.encode(), b"DIR")


def serve(target: str) -> None:
    """Answer each input on stdin, its size before it; an exception ends the process."""
    own = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(own, "wb") as out:
        while size := sys.stdin.buffer.read(4):
            said = answer(target, sys.stdin.buffer.read(int.from_bytes(size, "big")))
            out.write(len(said).to_bytes(4, "big") + said)
            out.flush()


class Reader:
    """A process that reads with the package of a directory."""

    def __init__(self, home: Path, target: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.fuzz_coverage", target, SERVE],
            cwd=home,
            env={**os.environ, "PYTHONPATH": str(home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def answer(self, data: bytes) -> bytes:
        """What a target says about bytes; raises AssertionError if the process ends instead."""
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        into.write(len(data).to_bytes(4, "big") + data)
        into.flush()
        size = out.read(4)
        if not size:
            raise AssertionError(f"the process that reads ended with {self._process.wait()}")
        return out.read(int.from_bytes(size, "big"))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def inside(target: str, arguments: list[str]) -> None:
    """Fuzz in this process, whose package is the interpreted one."""
    import atheris

    sys.modules["cython"] = None  # type: ignore[assignment]  # kfmt's own stand-in is faster
    with atheris.instrument_imports(include=["kfmt_cli"]):
        import kfmt_cli

        for module in pkgutil.walk_packages(kfmt_cli.__path__, "kfmt_cli."):
            if not module.name.startswith(NOT_READ):
                importlib.import_module(module.name)
    from kfmt_cli.core.native import kernel

    assert not kernel.COMPILED
    compiled = Reader(ROOT, target)

    def one(data: bytes) -> None:
        here, there = answer(target, data), compiled.answer(data)
        if here != there:
            raise AssertionError(f"interpreted: {here!r}\ncompiled: {there!r}")

    atheris.Setup([AGAIN, *arguments], one)
    atheris.Fuzz()


def run(home: Path, target: str, *arguments: str) -> int:
    """Run libFuzzer on the interpreted copy; its exit code. A merge starts it again."""
    command = shlex.join([sys.executable, "-m", "tools.fuzz_coverage", target, INSIDE])
    again = home / AGAIN
    again.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    again.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": str(home)}
    return subprocess.run([again, *LIMITS, *arguments], check=False, cwd=home, env=env).returncode


def keep(target: str, covering: Path) -> None:
    """Copy the inputs that were chosen to the tests; of too many, some of each size."""
    folder = CORPUS / target
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    every = sorted(covering.iterdir(), key=lambda path: path.stat().st_size)
    number, left = min(len(every), MOST_FILES), MOST_BYTES
    for i in range(number):
        data = every[i * len(every) // number].read_bytes()
        left -= len(data)
        if left >= 0:
            (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def main() -> None:
    """Run the fuzzer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--corpus", type=Path, help="what was found before; kept")
    parser.add_argument("--crashes", type=Path, default=Path("crashes"))
    parser.add_argument("--replay", type=Path, help="read only this input, with both kernels")
    options, rest = parser.parse_known_args()
    target = options.target
    if rest[:1] == [SERVE]:
        serve(target)
        return
    if rest[:1] == [INSIDE]:
        inside(target, rest[1:])
        return
    with tempfile.TemporaryDirectory(prefix="kfmt-fuzz-home-") as folder:
        home = Path(folder)
        copy_sources(home)
        if options.replay is not None:
            raise SystemExit(run(home, target, str(options.replay.absolute())))
        found = (options.corpus or home / "corpus").absolute()
        seeds, covering, crashes = home / "seeds", home / "covering", options.crashes.absolute()
        for path in (found, seeds, covering, crashes):
            path.mkdir(parents=True, exist_ok=True)
        for data in TARGETS[target].seeds():
            (seeds / hashlib.sha256(data[:LARGEST]).hexdigest()).write_bytes(data[:LARGEST])
        before = [str(path) for path in (seeds, CORPUS / target) if path.is_dir()]
        end = f"-max_total_time={options.seconds}"
        code = run(home, target, end, f"-artifact_prefix={crashes}/{target}-", str(found), *before)
        run(home, target, "-set_cover_merge=1", str(covering), str(found), *before)
        keep(target, covering)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
