"""The compiled kernel and its interpreted source produce the same output."""

from __future__ import annotations

import importlib
import os
import random
import shlex
import shutil
import subprocess
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from kfmt_cli.core.native import kernel
from tests.support import warm
from tests.support.interpreted import copy_sources
from tests.support.samples import ORDERS, TXN, UPGRADED, environment
from tests.support.segments import positions, write
from tools.kafka import ROOT, SAMPLES

V2 = "kafka-3.9.1-broker1"
SMALL_SEGMENTS = [
    TXN,
    UPGRADED,
    SAMPLES / V2 / "compacted-0/00000000000000000000.log",
    SAMPLES / V2 / "weird-times-0/00000000000000000000.log",
    SAMPLES / "kafka-2.8.2/v1-compacted-0/00000000000000000000.log",
]


# Modules written for Cython.
NATIVE = ROOT / "kfmt_cli" / "core" / "native"
COMPILED_MODULES = sorted(
    path.stem for path in NATIVE.glob("*.py") if "import cython" in path.read_text()
)


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package without its compiled modules."""
    root = tmp_path_factory.mktemp("interpreted")
    copy_sources(root)
    return root


def run(root: Path, *arguments: str | Path) -> tuple[int, bytes]:
    code, stdout, stderr = warm.run(arguments, b"", root, environment(PYTHONPATH=str(root)))
    return code, stdout + stderr


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Samples and damaged copies of them."""
    directory = tmp_path_factory.mktemp("files")
    paths = list(SMALL_SEGMENTS)
    rng = random.Random(11)
    for i, sample in enumerate([ORDERS, TXN, UPGRADED]):
        data = bytearray(sample.read_bytes()[: positions(sample.read_bytes())[6]])
        for _ in range(4):
            position = rng.randrange(len(data))
            data[position : position + 3] = rng.randbytes(3)
        paths.append(write(directory / str(i), bytes(data)))
    return paths


def has_compiler() -> bool:
    """Whether setuptools finds a C compiler that runs."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(command) is None:
        return False
    return subprocess.run([command, "--version"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", COMPILED_MODULES)
def test_the_tests_run_on_the_compiled_modules(name: str) -> None:
    if not has_compiler():
        pytest.skip("no C compiler that works")
    path = importlib.import_module(f"kfmt_cli.core.native.{name}").__file__
    assert path is not None
    assert path.endswith(tuple(EXTENSION_SUFFIXES)), "run pip install -e . again"


def test_the_version_says_which_it_is(interpreted: Path) -> None:
    assert b"row_bounds, emit interpreted" in run(interpreted, "--version")[1]
    if kernel.COMPILED:
        assert b"kernel compiled" in run(ROOT, "--version")[1]


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
def test_both_kernels_print_the_same(
    options: tuple[str, ...], interpreted: Path, files: list[Path]
) -> None:
    if not kernel.COMPILED:
        pytest.skip("no compiler was at hand when kfmt was installed")
    compiled, interpreted_result = run(ROOT, *options, *files), run(interpreted, *options, *files)
    assert compiled == interpreted_result
    assert len(compiled[1]) > 5000


def test_both_build_the_same(interpreted: Path, files: list[Path], tmp_path: Path) -> None:
    if not kernel.COMPILED:
        pytest.skip("no compiler was at hand when kfmt was installed")
    lines = tmp_path / "lines"
    lines.write_bytes(run(ROOT, "dump", "--records", "--json", files[0])[1])
    built_files: list[dict[str, bytes]] = []
    for root in (ROOT, interpreted):
        to_path = tmp_path / str(len(built_files))
        code, _ = run(root, "build", lines, to_path)
        assert code == 0
        built_files.append({path.name: path.read_bytes() for path in to_path.iterdir()})
    assert built_files[0] == built_files[1]
    lines.write_bytes(lines.read_bytes() + b'{"value":"a \\" b","value":"b"}')
    results = [run(root, "build", lines, tmp_path / "none") for root in (ROOT, interpreted)]
    assert results[0] == results[1]
    assert b"duplicate key 'value' in one object" in results[0][1]
