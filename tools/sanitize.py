"""Run the tests of the compiled modules on a build that reports every wrong access to memory.

python -m tools.sanitize            a set of tests that takes two to three minutes
python -m tools.sanitize TEST…      these tests, with any options of pytest
python -m tools.sanitize --mutants N [--seed S]    tools.fuzz_damage with so many mutants

The modules are compiled by gcc with the address and undefined behaviour sanitizers in a directory
that is deleted afterwards. Python takes each object from malloc, so that a read one byte after a
bytes object is noticed. Whatever a sanitizer reports ends the process that it finds it in.

Other libraries are not built so, and may die or hang with the sanitizers loaded. A run with a
report that does not name one of kfmt's modules, or without an end, is shown and done once more.
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
    "-k=not bomb",  # those take long and only look at the codecs' libraries
]
COPIED = ["kfmt_cli", "tests", "tools", "setup.py", "pyproject.toml", "README.md", "LICENSE"]
LINKED = ["sample_segments", "damaged_segments", "docs", "bench"]
# Undefined behaviour is an illegal instruction, which the address sanitizer reports like the rest.
# Python asks for -fwrapv, which would hide signed overflow.
SANITIZERS = "-fsanitize=address,undefined -fsanitize-undefined-trap-on-error"
FLAGS = f"{SANITIZERS} -fno-wrapv -O1 -g"
REPORT = "report"
MODULES = "/core/native/"  # in a report, where one of them is among the frames
MOST_SECONDS = 900
BEYOND = "import ctypes; ctypes.string_at(ctypes.create_string_buffer(100), 200)"
OVERFLOW = "int f(int a) { return a + 0x7fffffff; }"
WHERE = "import kfmt_cli.core.native.kernel as it; print(it.COMPILED, it.__file__)"


def build(home: Path) -> None:
    """Copy the project and compile its modules in the copy, with the sanitizers."""
    ignore = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "*.egg-info")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, home / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, home)
    for name in LINKED:
        (home / name).symlink_to(ROOT / name)
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        check=True,
        cwd=home,
        env={**os.environ, "CC": "gcc", "CFLAGS": FLAGS, "LDFLAGS": SANITIZERS},
    )
    (home / "overflow.c").write_text(OVERFLOW)
    command = ["gcc", "-fwrapv", *FLAGS.split(), "-fPIC", "-shared", "overflow.c", "-o", "f.so"]
    subprocess.run(command, check=True, cwd=home)


def environment(home: Path) -> dict[str, str]:
    """What a process needs in order to load the modules of `build`."""
    found = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, check=True, text=True
    )
    return {
        **os.environ,
        "LD_PRELOAD": found.stdout.strip(),
        "ASAN_OPTIONS": f"detect_leaks=0:handle_sigill=1:log_path={home / REPORT}",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(home),
    }


def check(home: Path) -> None:
    """Raise SystemExit when the sanitizers would not see anything."""
    env = environment(home)
    command = [sys.executable, "-c"]
    where = subprocess.run(
        [*command, WHERE], capture_output=True, check=True, cwd=home, env=env, text=True
    )
    if where.stdout.split(" ", 1)[0] != "True" or str(home) not in where.stdout:
        raise SystemExit(f"not the modules that were built: {where.stdout}")
    wrong = {BEYOND: "heap-buffer-overflow", "import ctypes; ctypes.CDLL('./f.so').f(5)": "ILL"}
    for code, words in wrong.items():
        subprocess.run([*command, code], capture_output=True, check=False, cwd=home, env=env)
        found = reports(home)
        if len(found) != 1 or words not in found[0].read_text():
            raise SystemExit(f"{words} was not reported")
        found[0].unlink()


def reports(home: Path) -> list[Path]:
    """What the sanitizers wrote, a file for each process that they ended."""
    return sorted(home.glob(f"{REPORT}.*"))


def run(home: Path, command: list[str], limit: int | None) -> tuple[int, list[str]]:
    """Run a command with the sanitizers, and show their reports. Its exit code, negative if it was
    ended by a signal or took more than `limit` seconds, and the reports."""
    process = subprocess.Popen(command, cwd=home, env=environment(home), start_new_session=True)
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        print(f"no end after {limit} s")
        code = -signal.SIGKILL
    finally:
        with suppress(ProcessLookupError):  # with those that it has started
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    found = [report.read_text() for report in reports(home)]
    for report in reports(home):
        report.unlink()
    print(*found, f"{len(found)} reports of the sanitizers", sep="\n")
    return code, found


def main() -> None:
    """Build, then run the tests; exits with 1 on a report, else with pytest's exit code."""
    if sys.platform != "linux" or not shutil.which("gcc"):
        raise SystemExit("this needs gcc on Linux")
    with tempfile.TemporaryDirectory(prefix="kfmt-sanitize-") as folder:
        home = Path(folder).resolve()
        build(home)
        check(home)
        tests = sys.argv[1:] or TESTS
        # A worker that has died has a report; another one would only do the same tests again.
        module = ["pytest", "-p", "no:cacheprovider", "--max-worker-restart=0"]
        limit: int | None = MOST_SECONDS
        if tests[0] == "--mutants":
            module, limit = ["tools.fuzz_damage"], None
        command = [sys.executable, "-m", *module, *tests]
        code, found = run(home, command, limit)
        if code and not any(MODULES in report for report in found) and (found or code < 0):
            print("no report names kfmt's modules: running once more")
            code, found = run(home, command, limit)
    raise SystemExit(1 if found else code)


if __name__ == "__main__":
    main()
