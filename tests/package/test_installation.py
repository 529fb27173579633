"""kfmt installed without a C compiler and without Cython, run from any working directory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from kfmt_cli import __version__
from kfmt_cli.core.native import build_state
from kfmt_cli.spark.session import SHIPPED_FILES
from tests.support.samples import ORDERS, TXN, UPGRADED, environment, kfmt
from tools.kafka import ROOT, SAMPLES

SOURCES = ["setup.py", "pyproject.toml", "README.md", "LICENSE", "kfmt_cli"]
SLOW_MESSAGE = "running in slow mode"
IGNORE_BUILD_OUTPUT = shutil.ignore_patterns(
    *("*.so", "*.pyd", "__pycache__", "*.egg-info"),
    build_state.NOT_COMPILED,
    build_state.COMPILED_FROM,
)
ProcessResult = subprocess.CompletedProcess[bytes]


def run(*command: str | Path, cwd: Path, **changes: str) -> ProcessResult:
    """Run a process without the clone in its environment."""
    variables = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        check=False,
        cwd=cwd,
        env={**variables, **changes},
        timeout=300,
    )


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources that an installation needs."""
    directory = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, directory / name, ignore=IGNORE_BUILD_OUTPUT)
        else:
            shutil.copy(ROOT / name, directory)
    return directory


def required_names(distribution: metadata.Distribution) -> set[str]:
    """The names of a distribution's requirements, without its extras."""
    lines = [line for line in distribution.requires or () if "extra ==" not in line]
    return {re.split(r"[^\w.-]", line, maxsplit=1)[0].lower() for line in lines}


@pytest.fixture(scope="module")
def installed(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with kfmt and what it requires: no Cython, no compiler."""
    options = ["--no-build-isolation", "--no-deps", "--no-index", "-w", "dist", "."]
    wheel_result = run(sys.executable, "-m", "pip", "wheel", *options, cwd=sources, CC="/bin/false")
    assert wheel_result.returncode == 0, wheel_result.stderr.decode()

    environment_directory = tmp_path_factory.mktemp("installed")
    venv.create(environment_directory)
    [packages] = environment_directory.glob("lib/python*/site-packages")
    wheel = next(sources.glob("dist/*.whl"))
    install_options = [
        "--python",
        str(environment_directory / "bin/python"),
        "install",
        "--no-deps",
        "--no-index",
    ]
    result = run(sys.executable, "-m", "pip", *install_options, wheel, cwd=sources)
    assert result.returncode == 0, result.stderr.decode()

    pending = required_names(next(iter(metadata.distributions(path=[str(packages)]))))
    visited: set[str] = set()
    while pending:
        name = pending.pop()
        visited.add(name)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # required on other platforms only
        pending |= required_names(distribution) - visited
        for entry in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            (packages / entry).symlink_to(Path(str(distribution.locate_file(entry))))
    return environment_directory / "bin"


@pytest.fixture(scope="module", params=["the clone's root", "/", "an unwritable directory"])
def working_directory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The working directory."""
    if request.param == "the clone's root":
        return ROOT
    if request.param == "/":
        return Path("/")
    if os.geteuid() == 0 and Path("/proc").is_dir():
        return Path("/proc")  # nobody can write there, root included
    directory = tmp_path_factory.mktemp("unwritable")
    directory.chmod(0o555)
    return directory


def test_nothing_is_compiled_and_the_version_says_so(installed: Path) -> None:
    assert run(installed / "python", "-c", "import Cython", cwd=Path("/")).returncode == 1
    result = run(installed / "kfmt", "--version", cwd=Path("/"))
    expected = (
        f"{', '.join(build_state.MODULES)} interpreted (slow: no C compiler when it was installed)"
    )
    assert result.stdout.decode().strip().endswith(expected)
    assert result.stderr == b""


def version(installed: Path, directory: Path) -> str:
    """The output of `python -m kfmt_cli --version` in a directory."""
    result = run(installed / "python", "-m", "kfmt_cli", "--version", cwd=directory)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode().strip()


def test_sources_say_why_they_are_not_compiled(installed: Path, tmp_path: Path) -> None:
    native = tmp_path / "kfmt_cli/core/native"
    shutil.copytree(ROOT / "kfmt_cli", native.parent.parent, ignore=IGNORE_BUILD_OUTPUT)
    shutil.copy(ROOT / "setup.py", tmp_path)
    expected = f"these are the sources in {tmp_path}, without extensions"
    assert expected in version(installed, tmp_path)
    (native / build_state.NOT_COMPILED).write_text("no C compiler when it was installed\n")
    assert "(slow: no C compiler when it was installed)" in version(installed, tmp_path)
    (native / "kernel.cpython-39-x86_64-linux-gnu.so").write_bytes(b"")
    assert f"{native} has extensions for another Python version" in version(installed, tmp_path)


def test_without_a_compiler_the_sources_of_the_clone_say_so(sources: Path, installed: Path) -> None:
    assert "no C compiler when it was installed" in version(installed, sources)


@pytest.mark.skipif(build_state.interpreted_modules() != [], reason="there is no C compiler")
def test_an_installation_compiles_the_sources_of_the_clone(
    sources: Path, installed: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(sources, clone, ignore=shutil.ignore_patterns("build", "dist"))
    stale = clone / "kfmt_cli/core/native" / f"gone{EXTENSION_SUFFIXES[0]}"
    stale.write_bytes(b"an extension of an earlier version")
    options = ["--no-build-isolation", "--no-deps", "--no-index", "-w", "dist", "."]
    wheel_result = run(sys.executable, "-m", "pip", "wheel", *options, cwd=clone)
    assert wheel_result.returncode == 0, wheel_result.stderr.decode()
    assert version(installed, clone).endswith("kernel compiled")
    assert not stale.exists()
    [wheel] = clone.glob("dist/*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert f"kfmt_cli/core/native/kernel{EXTENSION_SUFFIXES[0]}" in names
    assert f"kfmt_cli/core/native/{build_state.NOT_COMPILED}" not in names


@pytest.mark.parametrize(
    "arguments",
    [
        ("dump", ORDERS, TXN, UPGRADED),
        ("dump", "--records", "--json", ORDERS, TXN, UPGRADED),
        ("dump", "--records", "--format", "csv", ORDERS),
        ("dump", "--bits", TXN),
        ("verify-crc", "--deep", SAMPLES / "kafka-2.8.2"),
        ("index-check", SAMPLES / "kafka-3.9.1-broker1"),
        ("index-check", ORDERS.parent, "--lookup-offset", "130"),
        ("rebuild-index", ORDERS, "DST"),
        ("build", SAMPLES / "hand-made.jsonl", "DST"),
        ("convert-v0-to-v2", UPGRADED.parent, "DST"),
        ("encode-varint", "300"),
        ("decode-varint", "d804"),
    ],
    ids=lambda arguments: " ".join(Path(argument).name for argument in arguments),
)
def test_every_command_works_everywhere_and_says_the_same(
    arguments: tuple[str | Path, ...], installed: Path, working_directory: Path, tmp_path: Path
) -> None:
    def with_destination(name: str) -> list[str]:
        return [str(tmp_path / name if argument == "DST" else argument) for argument in arguments]

    result = run(installed / "kfmt", *with_destination("interpreted"), cwd=working_directory)
    expected = kfmt(*with_destination("compiled"), cwd=Path("/"))
    assert (result.returncode, result.stdout.decode(), result.stderr.decode()) == (
        expected.code,
        expected.out,
        expected.err,
    )
    assert result.stdout
    assert file_contents(tmp_path / "interpreted") == file_contents(tmp_path / "compiled")
    assert bool(file_contents(tmp_path / "compiled")) is ("DST" in arguments)


def file_contents(directory: Path) -> dict[str, bytes]:
    """The contents of every file in a directory tree."""
    paths = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def test_a_large_file_is_said_to_take_long_and_only_once(installed: Path, tmp_path: Path) -> None:
    small_log, large_log = tmp_path / "0.log", tmp_path / "1.log"
    small_log.write_bytes(ORDERS.read_bytes())
    large_log.write_bytes(ORDERS.read_bytes() + bytes(9 << 20))
    assert (
        SLOW_MESSAGE.encode() not in run(installed / "kfmt", "dump", small_log, cwd=tmp_path).stderr
    )
    for command in ("dump", "verify-crc"):
        result = run(installed / "kfmt", command, large_log, large_log, cwd=tmp_path)
        lines = result.stderr.decode().splitlines()
        assert len([line for line in lines if SLOW_MESSAGE in line]) == 1
        expected = kfmt(command, large_log, large_log, cwd=tmp_path)
        assert result.stdout.decode() == expected.out
        assert [line for line in lines if SLOW_MESSAGE not in line] == expected.err.splitlines()


def test_standard_input_is_said_to_take_long_as_well(installed: Path, tmp_path: Path) -> None:
    large = tmp_path / "1.log"
    large.write_bytes(ORDERS.read_bytes() * (1 + (9 << 20) // ORDERS.stat().st_size))
    command = f"cat {large} | {installed / 'kfmt'} verify-crc -"
    result = run("sh", "-c", command, cwd=tmp_path)
    assert result.stderr.decode().count(SLOW_MESSAGE) == 1


def test_an_installation_without_cython_has_no_extensions(sources: Path, tmp_path: Path) -> None:
    code = (
        "import runpy, sys; sys.modules['Cython'] = None; sys.argv[0] = 'setup.py'; "
        "runpy.run_path('setup.py', run_name='__main__')"
    )
    arguments = ["-c", code, "-q", "bdist_wheel", "-d", str(tmp_path)]
    result = run(sys.executable, *arguments, cwd=sources)
    assert result.returncode == 0, result.stderr.decode()
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.name == f"kfmt_cli-{__version__}-py3-none-any.whl"
    assert b"Cython is not installed" in result.stderr


def test_the_modules_that_are_compiled_are_named() -> None:
    names = [
        path.stem
        for path in (ROOT / "kfmt_cli/core/native").glob("*.py")
        if "\n    import cython\n" in path.read_text()
    ]
    assert sorted(names) == sorted(build_state.MODULES)


@pytest.fixture
def kernel_directory(tmp_path: Path) -> Path:
    """The kernel's directory in a clone with a compiled kernel."""
    if build_state.interpreted_modules():
        pytest.skip("there is no C compiler")
    shutil.copytree(ROOT / "kfmt_cli", tmp_path / "kfmt_cli")
    shutil.copy(ROOT / "setup.py", tmp_path)
    return tmp_path / "kfmt_cli/core/native"


COMMANDS = [("--version",), ("dump", ORDERS), ("verify-crc", ORDERS), ("check", ORDERS.parent)]


def stderr_lines(clone: Path, *arguments: str | Path, code: int) -> list[str]:
    """The lines that kfmt writes on standard error in a clone."""
    result = run(sys.executable, "-m", "kfmt_cli", *arguments, cwd=clone)
    assert result.returncode == code
    return result.stderr.decode().splitlines()


def append(file: Path, text: str) -> None:
    """Append text to a file."""
    file.write_text(file.read_text() + text)


def test_a_kernel_of_other_sources_is_said_in_one_line(kernel_directory: Path) -> None:
    clone = kernel_directory.parents[2]
    assert stderr_lines(clone, "dump", ORDERS, code=0) == []
    append(kernel_directory / "scan.py", "a syntax error\n")
    for arguments in COMMANDS:
        [line] = stderr_lines(clone, *arguments, code=0)
        assert line.startswith(
            f"kfmt: the compiled kernel in {kernel_directory} was not built from the sources"
        )
        assert line.endswith("pip install -e .")


@pytest.mark.parametrize("name", ["emit.py", "text.pxd", build_state.COMPILED_FROM])
def test_whatever_the_compiler_reads_makes_a_kernel_of_other_sources(
    name: str, kernel_directory: Path
) -> None:
    assert build_state.stale_message(kernel_directory) is None
    append(kernel_directory / name, "# other\n")
    assert build_state.stale_message(kernel_directory) is not None
    (kernel_directory / name).unlink()
    assert build_state.stale_message(kernel_directory) is not None


def test_an_extension_that_is_missing_is_said_in_one_line(kernel_directory: Path) -> None:
    for name in (*build_state.MODULES, build_state.SHARED):
        extension = kernel_directory / f"{name}{EXTENSION_SUFFIXES[0]}"
        extension.rename(kernel_directory / "away")
        assert build_state.missing_extensions(kernel_directory) == [name]
        (kernel_directory / "away").rename(extension)
    assert build_state.missing_extensions(kernel_directory) == []
    (kernel_directory / f"row_bounds{EXTENSION_SUFFIXES[0]}").unlink()
    for arguments in COMMANDS:
        [line] = stderr_lines(kernel_directory.parents[2], *arguments, code=4)
        assert line.startswith(
            f"kfmt: the compiled kernel in {kernel_directory} lacks row_bounds, "
        )
        assert line.endswith("pip install -e .")


def test_the_suite_refuses_a_kernel_of_other_sources(kernel_directory: Path) -> None:
    clone = kernel_directory.parents[2]
    shutil.copytree(ROOT / "tests/support", clone / "tests/support")
    for name in ("tests/__init__.py", "tests/conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, clone / name)
    (clone / "tools").symlink_to(ROOT / "tools")
    (clone / "tests/test_nothing.py").write_text("def test_nothing() -> None: ...\n")
    append(kernel_directory / "scan.py", "# other\n")
    result = run(sys.executable, "-m", "pytest", "-n", "0", cwd=clone)
    assert result.returncode == 4
    assert b"pip install -e ." in result.stdout + result.stderr


def test_modules_are_imported_from_a_zip_archive(tmp_path: Path) -> None:
    """As on the workers of a Spark Connect server, to which kfmt is sent."""
    archive_path = tmp_path / "kfmt_cli.zip"
    with zipfile.ZipFile(archive_path, "w") as archive:
        for pattern in SHIPPED_FILES:
            for path in (ROOT / "kfmt_cli").rglob(pattern):
                archive.write(path, path.relative_to(ROOT))
    modules = "kfmt_cli.findings.codes, kfmt_cli.rows.documents, kfmt_cli.rows.types.state_rows"
    code = f"import sys; sys.path.insert(0, {str(archive_path)!r}); import {modules}"
    code += "; assert '.zip' in sys.modules['kfmt_cli'].__file__"
    result = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONNOUSERSITE="1")
    assert result.returncode == 0, result.stderr.decode()
