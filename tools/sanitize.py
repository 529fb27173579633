"""Run the tests of the compiled modules on a build that reports every invalid memory access.

python -m tools.sanitize            a set of tests that takes two to three minutes
python -m tools.sanitize TEST…      these tests, with any options of pytest
python -m tools.sanitize --mutants N [--seed S]    tools.fuzz_damage with N mutants

The modules are compiled by gcc with the address and undefined behaviour sanitizers in a directory
that is deleted afterwards. Python allocates each object with malloc, so that a read one byte after
a bytes object is detected. A report ends the process.

Other libraries are not built like this, and may crash or hang with the sanitizers loaded. A run
with a report that does not name kfmt's modules, or a timeout, is shown and repeated once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tools.kafka import ROOT

TESTS = [
    "tests/core/test_interpreted_kernel.py",
    "tests/core/test_layouts.py",
    "tests/core/test_compression.py",
    "tests/core/test_corpus.py",
    "tests/writers/test_writers.py",
    "tests/log/test_mutations.py",
    "-k=not bomb",  # slow, and they test only the codec libraries
]
COPIED = ["kfmt_cli", "tests", "tools", "setup.py", "pyproject.toml", "README.md", "LICENSE"]
LINKED = ["sample_segments", "damaged_segments", "docs", "bench"]
# Undefined behaviour traps with an illegal instruction, which the address sanitizer reports.
# Python's own flags have -fwrapv, which would hide signed overflow.
SANITIZERS = "-fsanitize=address,undefined -fsanitize-undefined-trap-on-error"
FLAGS = f"{SANITIZERS} -fno-wrapv -O1 -g"
REPORT = "report"
MODULES = "/core/native/"  # in a report, if a compiled module is in the stack
MAX_SECONDS = 900
HEAP_OVERFLOW = "import ctypes; ctypes.string_at(ctypes.create_string_buffer(100), 200)"
INTEGER_OVERFLOW = "int f(int a) { return a + 0x7fffffff; }"
LOCATION_CODE = "import kfmt_cli.core.native.kernel as it; print(it.COMPILED, it.__file__)"


def build(directory: Path) -> None:
    """Copy the project and compile its modules in the copy, with the sanitizers."""
    ignore = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "*.egg-info")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, directory / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, directory)
    for name in LINKED:
        (directory / name).symlink_to(ROOT / name)
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        check=True,
        cwd=directory,
        env={**os.environ, "CC": "gcc", "CFLAGS": FLAGS, "LDFLAGS": SANITIZERS},
    )
    (directory / "overflow.c").write_text(INTEGER_OVERFLOW)
    command = ["gcc", "-fwrapv", *FLAGS.split(), "-fPIC", "-shared", "overflow.c", "-o", "f.so"]
    subprocess.run(command, check=True, cwd=directory)


def environment(directory: Path) -> dict[str, str]:
    """The environment of a process that loads the modules of `build`."""
    library = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, check=True, text=True
    )
    return {
        **os.environ,
        "LD_PRELOAD": library.stdout.strip(),
        "ASAN_OPTIONS": f"detect_leaks=0:handle_sigill=1:log_path={directory / REPORT}",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(directory),
    }


def check(directory: Path) -> None:
    """Raise SystemExit if the sanitizers do not detect known errors."""
    env = environment(directory)
    command = [sys.executable, "-c"]
    result = subprocess.run(
        [*command, LOCATION_CODE],
        capture_output=True,
        check=True,
        cwd=directory,
        env=env,
        text=True,
    )
    if result.stdout.split(" ", 1)[0] != "True" or str(directory) not in result.stdout:
        raise SystemExit(f"not the modules that were built: {result.stdout}")
    expected_errors = {
        HEAP_OVERFLOW: "heap-buffer-overflow",
        "import ctypes; ctypes.CDLL('./f.so').f(5)": "ILL",
    }
    for code, expected in expected_errors.items():
        subprocess.run([*command, code], capture_output=True, check=False, cwd=directory, env=env)
        files = reports(directory)
        if len(files) != 1 or expected not in files[0].read_text():
            raise SystemExit(f"{expected} was not reported")
        files[0].unlink()


def reports(directory: Path) -> list[Path]:
    """The reports of the sanitizers, a file for each process that they ended."""
    return sorted(directory.glob(f"{REPORT}.*"))


def run(directory: Path, command: list[str], max_seconds: int | None) -> tuple[int, list[str]]:
    """Run a command with the sanitizers, and show their reports. Returns the exit code, negative
    after a signal or a timeout, and the reports."""
    process = subprocess.Popen(
        command, cwd=directory, env=environment(directory), start_new_session=True
    )
    try:
        code = process.wait(max_seconds)
    except subprocess.TimeoutExpired:
        print(f"no end after {max_seconds} s")
        code = -signal.SIGKILL
    finally:
        with suppress(ProcessLookupError):  # and its children
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    texts = [report.read_text() for report in reports(directory)]
    for report in reports(directory):
        report.unlink()
    print(*texts, f"{len(texts)} reports of the sanitizers", sep="\n")
    return code, texts


def main() -> None:
    """Build, then run the tests; exits with 1 on a report, else with pytest's exit code."""
    if sys.platform != "linux" or not shutil.which("gcc"):
        raise SystemExit("this needs gcc on Linux")
    with tempfile.TemporaryDirectory(prefix="kfmt-sanitize-") as scratch:
        directory = Path(scratch).resolve()
        build(directory)
        check(directory)
        tests = sys.argv[1:] or TESTS
        # A crashed worker has a report; a new one would only repeat the tests.
        module = ["pytest", "-p", "no:cacheprovider", "--max-worker-restart=0"]
        max_seconds: int | None = MAX_SECONDS
        if tests[0] == "--mutants":
            module, max_seconds = ["tools.fuzz_damage"], None
        command = [sys.executable, "-m", *module, *tests]
        code, texts = run(directory, command, max_seconds)
        if code and not any(MODULES in report for report in texts) and (texts or code < 0):
            print("no report names kfmt's modules: running once more")
            code, texts = run(directory, command, max_seconds)
    raise SystemExit(1 if texts else code)


if __name__ == "__main__":
    main()
