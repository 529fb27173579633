"""Damaged copies of logs whose undamaged batches are known, for the fuzzers.

A mutant keeps for each byte where in the original it came from. A batch is undamaged where all its
bytes stand one after the other as they did. Whatever else is shown as a batch with a right
checksum is a phantom, unless what the checksum covers is that of one batch of the original.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.log.reader import LogReader
from tests.support.rebuild import batch_of, record

INSERTED = -1
MAGIC_AT = 16
CHECKED_AT = 21  # the first byte that the checksum of magic 2 covers
LENGTHS = (-1, -5, 0, 3, 13, 14, 20, 49, 0x7FFFFFFF, 0x7F000000, 0x00FFFFFF)


@dataclass(slots=True)
class Mutant:
    """data: the bytes. origin: the byte of the original that each was, or INSERTED. changed: which
    of them have another value now."""

    data: bytearray
    origin: IntArray
    changed: BoolArray

    @classmethod
    def of(cls, data: bytes) -> Mutant:
        """An undamaged copy."""
        n = len(data)
        return cls(bytearray(data), np.arange(n, dtype=np.int64), np.zeros(n, np.bool_))

    def put(self, at: int, new: bytes) -> None:
        """Overwrite bytes; those that stay what they were count as unchanged."""
        new = new[: len(self.data) - at]
        for i, byte in enumerate(new, at):
            if self.data[i] != byte:
                self.data[i] = byte
                self.changed[i] = True

    def insert(self, at: int, new: bytes) -> None:
        """Put bytes in."""
        self.data[at:at] = new
        self.origin = np.insert(self.origin, at, np.full(len(new), INSERTED))
        self.changed = np.insert(self.changed, at, np.ones(len(new), np.bool_))

    def cut(self, at: int, end: int) -> None:
        """Take bytes out."""
        del self.data[at:end]
        self.origin = np.delete(self.origin, slice(at, end))
        self.changed = np.delete(self.changed, slice(at, end))

    def place_of(self, byte: int) -> int | None:
        """Where a byte of the original stands now."""
        found = np.flatnonzero(self.origin == byte)
        return int(found[0]) if len(found) else None

    def undamaged(self, places: list[int]) -> set[tuple[int, int]]:
        """Position and size of each batch of the original that is whole; `places` end with EOF."""
        found = set()
        for start, end in pairwise(places):
            at = self.place_of(start)
            if at is None or at + end - start > len(self.data):
                continue
            here = slice(at, at + end - start)
            same = self.origin[here] == np.arange(start, end)
            if same.all() and not self.changed[here].any():
                found.add((at, end - start))
        return found

    def checked(self, position: int, size: int) -> bytes:
        """What the checksum of the batch at a place covers."""
        return checked(bytes(self.data[position : position + size]))


def checked(batch: bytes) -> bytes:
    """The bytes of a batch that its checksum covers."""
    return batch[CHECKED_AT if batch[MAGIC_AT] == 2 else MAGIC_AT :]


Mutation = Callable[[Mutant, list[int], random.Random], None]


def flip(mutant: Mutant, places: list[int], rng: random.Random) -> None:
    """Flip some bits in a few bytes."""
    del places
    at = rng.randrange(len(mutant.data))
    old = mutant.data[at : at + rng.randint(1, 8)]
    mutant.put(at, bytes(byte ^ rng.randint(1, 255) for byte in old))


def flip_header(mutant: Mutant, places: list[int], rng: random.Random) -> None:
    """Flip a byte of a batch's header."""
    at = min(rng.choice(places[:-1]) + rng.randrange(61), len(mutant.data) - 1)
    mutant.put(at, bytes([mutant.data[at] ^ rng.randint(1, 255)]))


def wrong_length(mutant: Mutant, places: list[int], rng: random.Random) -> None:
    """A length that leads to a later batch, or to no place at all."""
    i = rng.randrange(len(places) - 1)
    if rng.random() < 0.6:
        length = places[min(i + rng.randint(1, 6), len(places) - 1)] - places[i] - 12
        length += rng.choice((0, 0, 0, 1, -1, 7))
    else:
        length = rng.choice(LENGTHS)
    at = places[i] + 8
    if at + 4 <= len(mutant.data):
        mutant.put(at, (length & 0xFFFFFFFF).to_bytes(4, "big"))


def wrong_checksum(mutant: Mutant, places: list[int], rng: random.Random) -> None:
    """A stored checksum that is another, of magic 2 or older."""
    at = rng.choice(places[:-1]) + rng.choice((12, 17))
    if at + 4 <= len(mutant.data):
        mutant.put(at, rng.randbytes(4))


def zero(mutant: Mutant, places: list[int], rng: random.Random) -> None:
    """Overwrite a stretch with zeros."""
    del places
    at = rng.randrange(len(mutant.data))
    mutant.put(at, bytes(rng.randint(1, 600)))


def cut(mutant: Mutant, places: list[int], rng: random.Random) -> None:
    """Take a stretch out."""
    del places
    at = rng.randrange(len(mutant.data))
    mutant.cut(at, min(at + rng.randint(1, 600), len(mutant.data)))


def insert(mutant: Mutant, places: list[int], rng: random.Random) -> None:
    """Put random bytes in."""
    del places
    mutant.insert(rng.randrange(len(mutant.data)), rng.randbytes(rng.randint(1, 600)))


def torn_copy(mutant: Mutant, places: list[int], rng: random.Random) -> None:
    """The front of a batch before the whole of it: a write that was cut off and repeated."""
    i = rng.randrange(len(places) - 1)
    at = mutant.place_of(places[i])
    if at is not None:
        front = mutant.data[at : at + rng.randint(1, places[i + 1] - places[i] - 1)]
        mutant.insert(at, bytes(front))


def next_to_it(mutant: Mutant, places: list[int], rng: random.Random) -> None:
    """Damage in two batches one after the other."""
    i = rng.randrange(len(places) - 1)
    for start, end in pairwise(places[i : i + 3]):
        at = mutant.place_of(rng.randrange(start, end))
        if at is not None:
            mutant.put(at, bytes([mutant.data[at] ^ rng.randint(1, 255)]))


def zero_tail(mutant: Mutant, places: list[int], rng: random.Random) -> None:
    """Zeros after everything."""
    del places
    mutant.insert(len(mutant.data), bytes(rng.choice((1, 11, 12, 40, 500, 4096))))


MUTATIONS: list[Mutation] = [
    *(flip, flip_header, flip_header, wrong_length, wrong_length, wrong_length, wrong_checksum),
    *(zero, cut, insert, torn_copy, torn_copy, next_to_it, zero_tail),
]


# Of a log whose records hold batches. Where the bytes of a record are damaged, too, nothing tells a
# batch that it holds from one of the log: both are whole and have offsets that may follow.
OF_EMBEDDING: list[Mutation] = [wrong_length, torn_copy, zero_tail]


def mutant_of(data: bytes, places: list[int], rng: random.Random) -> Mutant:
    """A copy with one to four damages."""
    mutant = Mutant.of(data)
    for _ in range(rng.choice((1, 2, 2, 3, 3, 4))):
        if not mutant.data:
            break
        rng.choice(MUTATIONS)(mutant, places, rng)
    return mutant


def embedding_mutant(rng: random.Random) -> tuple[bytes, list[int], Mutant]:
    """A log whose records hold batches, where its own stand, and a copy with one damage."""
    data, places = embedding(rng)
    mutant = Mutant.of(data)
    rng.choice(OF_EMBEDDING)(mutant, places, rng)
    return data, places, mutant


def embedding(rng: random.Random) -> tuple[bytes, list[int]]:
    """A log whose records hold whole batches, and where its own batches stand."""
    data, places, offset = b"", [0], rng.choice((0, 0, 1000, 5_000_000))
    for _ in range(rng.randint(4, 12)):
        value = b""
        for _ in range(rng.randint(0, 3)):
            inner = offset + rng.choice((0, -1, 500, -offset, -offset, 1 << 40))
            value += rng.randbytes(rng.choice((0, 0, 5, 90)))
            value += batch_of(record(b"k", rng.randbytes(40)), 0, 1, max(inner, 0))
        data += batch_of(
            record(b"key", value + rng.randbytes(rng.choice((0, 0, 70)))), 0, 1, offset
        )
        offset += 1
        places.append(len(data))
    return data, places


def shown(file: InputFile) -> set[tuple[int, int]]:
    """Position and size of each batch that is shown with a right checksum."""
    source = open_source(file.path)
    found: set[tuple[int, int]] = set()
    try:
        for block in LogReader(source, file.base_offset).iter_blocks():
            good = block.batches.select_rows(block.batches["crc_valid"] == 1)
            found |= set(zip(good["position"].tolist(), good["size"].tolist(), strict=True))
    finally:
        source.close()
    return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the reader got wrong: undamaged batches that are not shown; batches that are none."""

    lost: set[tuple[int, int]]
    phantoms: set[tuple[int, int]]

    def __bool__(self) -> bool:
        return bool(self.lost or self.phantoms)


def judge(mutant: Mutant, data: bytes, places: list[int], file: Path) -> Verdict:
    """Read a mutant of `data`, written to `file` under the original's name, and compare."""
    file.write_bytes(mutant.data)
    seen = shown(classify_file(str(file), file.name))
    of_the_log = {checked(data[start:end]) for start, end in pairwise(places)}
    phantoms = {pair for pair in seen if mutant.checked(*pair) not in of_the_log}
    # Bytes that were cut out at a border can be read two ways: as the end of the batch before it,
    # or as the front of the one after it.
    real = seen - phantoms
    lost = {
        (at, size)
        for at, size in mutant.undamaged(places) - seen
        if not any(other < at < other + length for other, length in real)
    }
    return Verdict(lost, phantoms)
