"""Big segments out of real ones: a real MiB again and again, its base offsets rewritten.

The base offset lies outside the checksum, so every batch stays valid.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEEDS = HERE / "seeds"
NAME = "00000000000000000000.log"
MIB = 1 << 20


@dataclass(frozen=True)
class Spec:
    """A file to make. seed: the real segment; size: about so many bytes."""

    name: str
    seed: str
    size: int


FULL = [
    Spec("none-0", "none.log", 428 * MIB),
    Spec("lz4-0", "lz4.log", 157 * MIB),
    Spec("zstd-0", "zstd.log", 110 * MIB),
    Spec("tiny-0", "tiny.log", 129 * MIB),
]
SMOKE = [Spec(f"smoke-{spec.name}", spec.seed, 4 * MIB) for spec in FULL]


def make(spec: Spec, folder: Path) -> Path:
    """The file, made when it is not there yet; kafka-dump-log needs a broker's name."""
    file = folder / spec.name / NAME
    if file.exists():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    data, batches = whole_batches((SEEDS / spec.seed).read_bytes())
    temporary = file.with_suffix(".tmp")
    offset = written = 0
    with temporary.open("wb") as out:
        while written < spec.size:
            for at, n_offsets in batches:
                struct.pack_into(">q", data, at, offset)
                offset += n_offsets
            written += out.write(data)
    temporary.replace(file)
    return file


def whole_batches(seed: bytes) -> tuple[bytearray, list[tuple[int, int]]]:
    """The bytes up to the last whole batch; where each begins and how many offsets it takes."""
    at = 0
    batches = []
    while at + 61 <= len(seed):
        (length,) = struct.unpack_from(">i", seed, at + 8)
        if at + 12 + length > len(seed):
            break
        (last_delta,) = struct.unpack_from(">i", seed, at + 23)
        batches.append((at, last_delta + 1))
        at += 12 + length
    return bytearray(seed[:at]), batches
