"""What the fuzzer's targets share: their type, the run of a command, and small samples."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.support import in_process
from tests.support.samples import environment
from tests.support.segments import positions
from tools.kafka import ROOT, SAMPLES

MAX_INPUT_BYTES = 4096  # bytes of an input
CORPUS = ROOT / "tests/corpus/fuzzed"
TargetFunction = Callable[[bytes, Path], bytes]


@dataclass(frozen=True, slots=True)
class Target:
    """run: reads bytes, in an empty directory. seeds: the first inputs."""

    run: TargetFunction
    seeds: Callable[[], Iterable[bytes]]


def kfmt(directory: Path, *arguments: str, exit_codes: tuple[int, ...] = (0, 1, 3)) -> bytes:
    """A command's output; raises AssertionError for an exit code that it cannot have."""
    code, out, err = in_process.run(arguments, b"", directory, environment(TMPDIR=str(directory)))
    assert code in exit_codes, (arguments, code, err)
    assert b"Traceback" not in err, err
    return out + err


@cache
def sample_batches() -> list[bytes]:
    """The batches of all small samples, one of each size and directory."""
    batch_by_size: dict[tuple[str, int], bytes] = {}
    for log in small_files("*.log"):
        data = log.read_bytes()
        try:
            batches = [data[start:end] for start, end in pairwise(positions(data))]
        except struct.error:  # a damaged one
            continue
        for batch in batches[:20]:
            if 17 < len(batch) <= MAX_INPUT_BYTES:
                batch_by_size.setdefault((log.parent.name, len(batch) // 100), batch)
    return list(batch_by_size.values())


def small_files(pattern: str) -> Iterator[Path]:
    """Files of the samples that match a pattern and are small."""
    for root in (SAMPLES, ROOT / "damaged_segments"):
        files = (path for path in sorted(root.rglob(pattern)) if path.is_file())
        yield from (path for path in files if path.stat().st_size <= 1 << 16)
