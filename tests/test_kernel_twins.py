"""The kernel compiled and the same source interpreted: the same output on everything."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kfmt_cli.core import kernel
from tests.samples import ORDERS, TXN, UPGRADED, environment
from tests.segments import positions, write
from tools.kafka import ROOT, SAMPLES

V2 = "kafka-3.9.1-broker1"
SMALL = [
    TXN,
    UPGRADED,
    SAMPLES / V2 / "compacted-0/00000000000000000000.log",
    SAMPLES / V2 / "weird-times-0/00000000000000000000.log",
    SAMPLES / "kafka-2.8.2/v1-compacted-0/00000000000000000000.log",
]


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package without its compiled modules."""
    home = tmp_path_factory.mktemp("interpreted")
    ignore = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(ROOT / "src" / "kfmt_cli", home / "kfmt_cli", ignore=ignore)
    return home


def run(home: Path, *arguments: str | Path) -> tuple[int, bytes]:
    done = subprocess.run(
        [sys.executable, "-m", "kfmt_cli", *map(str, arguments)],
        capture_output=True,
        cwd=home,
        env=environment(PYTHONPATH=str(home)),
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Samples and damaged copies of them."""
    folder = tmp_path_factory.mktemp("files")
    found = list(SMALL)
    rng = random.Random(11)
    for i, sample in enumerate([ORDERS, TXN, UPGRADED]):
        data = bytearray(sample.read_bytes()[: positions(sample.read_bytes())[6]])
        for _ in range(4):
            at = rng.randrange(len(data))
            data[at : at + 3] = rng.randbytes(3)
        found.append(write(folder / str(i), bytes(data)))
    return found


def test_the_tests_run_on_the_compiled_kernel() -> None:
    if not kernel.COMPILED:
        pytest.skip("no compiler was at hand when kfmt was installed")


def test_the_version_says_which_it_is(interpreted: Path) -> None:
    assert b"room, emit interpreted" in run(interpreted, "--version")[1]
    if kernel.COMPILED:
        assert b"kernel compiled" in run(ROOT / "src", "--version")[1]


@pytest.mark.parametrize(
    "options",
    [
        ("dump", "--records", "--json"),
        ("dump", "--records", "--format", "csv", "--bytes", "hex"),
        ("dump", "--records", "--wide"),
        ("dump", "--wide", "--color", "always"),
        ("verify-crc", "--deep", "--json"),
    ],
    ids=" ".join,
)
def test_both_say_the_same(options: tuple[str, ...], interpreted: Path, files: list[Path]) -> None:
    if not kernel.COMPILED:
        pytest.skip("no compiler was at hand when kfmt was installed")
    mine, theirs = run(ROOT / "src", *options, *files), run(interpreted, *options, *files)
    assert mine == theirs
    assert len(mine[1]) > 5000
