"""Times the README's second command (install, then test) in a fresh clone, part by part.

    python -m tools.second_command [--runs 2] [--commit HEAD] [--keep]

Each run clones the repository into a new directory and executes the command's parts there, as a
shell would. Seconds are wall time, CPU seconds those of all processes of a part; the seconds of
tests are those that pytest reports, of all processes. A fixed load of C (checksums of 1 GiB, in one
thread) is timed before each run, so that machines can be compared.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND_START = "python3 -m venv .venv-test && "
LOAD_BYTES = 256 << 20
SHOWN_FILES = 12
_TEST_FILE = re.compile(r"\[ *\d+%\] (tests/\S+) .* ([\d.]+) s$")


@dataclass(frozen=True)
class Part:
    """A timed part. cpu_seconds: None if it is part of a process."""

    name: str
    seconds: float
    cpu_seconds: float | None = None

    @property
    def line(self) -> str:
        """A line for readers."""
        cpu = "" if self.cpu_seconds is None else f"{self.cpu_seconds:9.1f}"
        return f"{self.name:<48}{self.seconds:9.1f}{cpu}"


def main() -> None:
    """Time the runs, and print each. Raises SystemExit if a part fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--keep", action="store_true", help="do not delete the clones")
    options = parser.parse_args()
    for number in range(1, options.runs + 1):
        directory = Path(tempfile.mkdtemp(prefix="kfmt-"))
        clone = directory / "kfmt"
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, clone], check=True)
        subprocess.run(["git", "checkout", "-q", options.commit], cwd=clone, check=True)
        print(f"run {number} of {options.runs}", flush=True)
        print(f"{'part':<48}{'seconds':>9}{'CPU':>9}")
        print(time_fixed_load().line, flush=True)
        total = 0.0
        for parts in time_command(clone):
            print(*(part.line for part in parts), sep="\n", flush=True)
            total += parts[0].seconds
        print(Part("all of the second command", total).line)
        if not options.keep:
            shutil.rmtree(directory)


def time_fixed_load() -> Part:
    """Time work that depends on the machine alone."""
    data = bytes(range(256)) * (LOAD_BYTES // 256)
    start = time.perf_counter()
    for _ in range(4):
        zlib.crc32(data)
    return Part("fixed load of C", time.perf_counter() - start)


def command_parts(readme: str) -> list[str]:
    """The parts of the second command in README.md, which `&&` joins."""
    line = next(line for line in readme.splitlines() if line.startswith(COMMAND_START))
    return line.split(" && ")


def time_command(clone: Path) -> Iterator[list[Part]]:
    """Execute each part; yields a part and those within it."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
    }
    for command in command_parts((clone / "README.md").read_text()):
        start, start_cpu = time.perf_counter(), _children_cpu_seconds()
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=clone,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        lines = [(time.perf_counter() - start, line.rstrip()) for line in process.stdout]
        code = process.wait()
        whole = Part(command[:46], time.perf_counter() - start, _children_cpu_seconds() - start_cpu)
        if code:
            print(*(line for _, line in lines[-60:]), sep="\n")
            raise SystemExit(f"exit code {code}: {command}")
        yield [whole, *suite_parts(lines)]


def suite_parts(lines: Iterable[tuple[float, str]]) -> Iterator[Part]:
    """The time until the first file is finished, then the seconds of tests by room, and the
    slowest files. lines: seconds since the start, and what pytest printed then."""
    seconds_by_file: dict[str, float] = {}
    for seconds, line in lines:
        if match := _TEST_FILE.match(line):
            if not seconds_by_file:
                yield Part("    until the first file is finished", seconds)
            seconds_by_file[match[1]] = float(match[2])
    seconds_by_room: defaultdict[str, float] = defaultdict(float)
    for file, file_seconds in seconds_by_file.items():
        seconds_by_room[file.split("/")[1]] += file_seconds
    for seconds_by_name in (seconds_by_room, seconds_by_file):
        slowest_first = sorted(seconds_by_name.items(), key=lambda item: -item[1])
        for name, name_seconds in slowest_first[:SHOWN_FILES]:
            yield Part(f"    {name}", name_seconds)


def _children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
