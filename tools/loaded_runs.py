"""Runs the default tests next to busy loops, again and again, and lists what failed.

    python -m tools.loaded_runs [--runs 20] [--loops 4] [PYTEST ARGUMENT …]

A test that fails here but not alone waits for a while instead of for what happens, or depends on
the order of what runs at the same time. Each failure is printed with the number of its run.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUSY_LOOP = "while True: pass"
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$")


@contextmanager
def busy_loops(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep `count` processes busy; yields them."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def failed_tests(output: str) -> list[str]:
    """The tests in pytest's summary that failed."""
    return [match[1] for line in output.splitlines() if (match := _FAILURE.match(line))]


def main() -> None:
    """Run, and exit with 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--loops", type=int, default=4)
    options, arguments = parser.parse_known_args()
    n_failures_by_test: Counter[str] = Counter()
    n_failed_runs = 0
    with busy_loops(options.loops):
        for run in range(1, options.runs + 1):
            start = time.monotonic()
            result = subprocess.run(
                [sys.executable, "-m", "pytest", "-rfE", "--durations", "0", *arguments],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            tests = failed_tests(result.stdout)
            n_failures_by_test.update(tests)
            n_failed_runs += bool(result.returncode)
            summary = result.stdout.rstrip().rpartition("\n")[2].strip("= ")
            print(f"run {run}: {summary} ({time.monotonic() - start:.0f} s)", flush=True)
            for test in tests:
                print(f"  {test}", flush=True)
            if result.returncode and not tests:
                print(result.stdout[-3000:], result.stderr[-3000:], flush=True)
    print(f"{n_failed_runs} of {options.runs} runs failed")
    for test, n_failures in n_failures_by_test.most_common():
        print(f"{n_failures:4d}  {test}")
    sys.exit(bool(n_failed_runs))


if __name__ == "__main__":
    main()
