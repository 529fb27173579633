"""Damaged copies of logs with known undamaged batches, for the fuzzers.

A mutant has the original position of each byte. A batch is undamaged if all its bytes follow each
other as in the original. Any other batch that the reader returns with a valid checksum is a
phantom, unless the bytes under its checksum are those of a batch of the original.
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
MAGIC_POSITION = 16
FIRST_CHECKED_BYTE = 21  # the first byte that the checksum of magic 2 covers
PAGE_BYTES = (128, 512, 4096)
LENGTHS = (-1, -5, 0, 3, 13, 14, 20, 49, 0x7FFFFFFF, 0x7F000000, 0x00FFFFFF)


@dataclass(slots=True)
class Mutant:
    """data: the bytes. origin: the original position of each byte, or INSERTED. changed: whether
    the byte's value differs from the original."""

    data: bytearray
    origin: IntArray
    changed: BoolArray

    @classmethod
    def of(cls, data: bytes) -> Mutant:
        """An undamaged copy."""
        n = len(data)
        return cls(bytearray(data), np.arange(n, dtype=np.int64), np.zeros(n, np.bool_))

    def put(self, position: int, new: bytes) -> None:
        """Overwrite bytes; those with the same value count as unchanged."""
        new = new[: len(self.data) - position]
        for i, byte in enumerate(new, position):
            if self.data[i] != byte:
                self.data[i] = byte
                self.changed[i] = True

    def insert(self, position: int, new: bytes) -> None:
        """Insert bytes."""
        self.data[position:position] = new
        self.origin = np.insert(self.origin, position, np.full(len(new), INSERTED))
        self.changed = np.insert(self.changed, position, np.ones(len(new), np.bool_))

    def cut(self, start: int, end: int) -> None:
        """Remove bytes."""
        del self.data[start:end]
        self.origin = np.delete(self.origin, slice(start, end))
        self.changed = np.delete(self.changed, slice(start, end))

    def swap(self, first: int, second: int, n_bytes: int) -> None:
        """Exchange two ranges that do not overlap, the second one perhaps shortened by the end."""
        n_bytes = min(n_bytes, len(self.data) - second)
        data = bytes(self.data)
        order = np.arange(len(data))
        order[first : first + n_bytes] = np.arange(second, second + n_bytes)
        order[second : second + n_bytes] = np.arange(first, first + n_bytes)
        self.data[:] = np.frombuffer(data, np.uint8)[order].tobytes()
        self.origin, self.changed = self.origin[order], self.changed[order]

    def move(self, start: int, end: int, to_position: int) -> None:
        """Move a range; `to_position` counts without it."""
        data = self.data[start:end]
        origin, changed = self.origin[start:end].copy(), self.changed[start:end].copy()
        self.cut(start, end)
        self.data[to_position:to_position] = data
        self.origin = np.insert(self.origin, to_position, origin)
        self.changed = np.insert(self.changed, to_position, changed)

    def position_of(self, byte: int) -> int | None:
        """The current position of a byte of the original."""
        matches = np.flatnonzero(self.origin == byte)
        return int(matches[0]) if len(matches) else None

    def undamaged_batches(self, starts: list[int]) -> set[tuple[int, int]]:
        """Position and size of each undamaged batch of the original; `starts` has the starts of its
        batches and its end."""
        batches = set()
        for start, end in pairwise(starts):
            position = self.position_of(start)
            if position is None or position + end - start > len(self.data):
                continue
            byte_range = slice(position, position + end - start)
            is_in_place = self.origin[byte_range] == np.arange(start, end)
            if is_in_place.all() and not self.changed[byte_range].any():
                batches.add((position, end - start))
        return batches

    def checked_bytes(self, position: int, size: int) -> bytes:
        """The bytes that the checksum of the batch at a position covers."""
        return checked_bytes(bytes(self.data[position : position + size]))


def checked_bytes(batch: bytes) -> bytes:
    """The bytes of a batch that its checksum covers."""
    return batch[FIRST_CHECKED_BYTE if batch[MAGIC_POSITION] == 2 else MAGIC_POSITION :]


Mutation = Callable[[Mutant, list[int], random.Random], None]


def flip(mutant: Mutant, starts: list[int], rng: random.Random) -> None:
    """Flip some bits in a few bytes."""
    del starts
    position = rng.randrange(len(mutant.data))
    bytes_before = mutant.data[position : position + rng.randint(1, 8)]
    mutant.put(position, bytes(byte ^ rng.randint(1, 255) for byte in bytes_before))


def flip_header(mutant: Mutant, starts: list[int], rng: random.Random) -> None:
    """Flip a byte of a batch's header."""
    position = min(rng.choice(starts[:-1]) + rng.randrange(61), len(mutant.data) - 1)
    mutant.put(position, bytes([mutant.data[position] ^ rng.randint(1, 255)]))


def wrong_length(mutant: Mutant, starts: list[int], rng: random.Random) -> None:
    """Overwrite a length with one that leads to a later batch, or to no batch."""
    i = rng.randrange(len(starts) - 1)
    if rng.random() < 0.6:
        length = starts[min(i + rng.randint(1, 6), len(starts) - 1)] - starts[i] - 12
        length += rng.choice((0, 0, 0, 1, -1, 7))
    else:
        length = rng.choice(LENGTHS)
    position = starts[i] + 8
    if position + 4 <= len(mutant.data):
        mutant.put(position, (length & 0xFFFFFFFF).to_bytes(4, "big"))


def wrong_checksum(mutant: Mutant, starts: list[int], rng: random.Random) -> None:
    """Overwrite a stored checksum, of magic 2 or older."""
    position = rng.choice(starts[:-1]) + rng.choice((12, 17))
    if position + 4 <= len(mutant.data):
        mutant.put(position, rng.randbytes(4))


def zero(mutant: Mutant, starts: list[int], rng: random.Random) -> None:
    """Overwrite a range with zeros."""
    del starts
    position = rng.randrange(len(mutant.data))
    mutant.put(position, bytes(rng.randint(1, 600)))


def cut(mutant: Mutant, starts: list[int], rng: random.Random) -> None:
    """Remove a range."""
    del starts
    position = rng.randrange(len(mutant.data))
    mutant.cut(position, min(position + rng.randint(1, 600), len(mutant.data)))


def insert(mutant: Mutant, starts: list[int], rng: random.Random) -> None:
    """Insert random bytes."""
    del starts
    mutant.insert(rng.randrange(len(mutant.data)), rng.randbytes(rng.randint(1, 600)))


def torn_copy(mutant: Mutant, starts: list[int], rng: random.Random) -> None:
    """Insert a prefix of a batch before the batch: a write that was interrupted and repeated."""
    i = rng.randrange(len(starts) - 1)
    position = mutant.position_of(starts[i])
    if position is not None:
        prefix = mutant.data[position : position + rng.randint(1, starts[i + 1] - starts[i] - 1)]
        mutant.insert(position, bytes(prefix))


def damage_neighbours(mutant: Mutant, starts: list[int], rng: random.Random) -> None:
    """Damage two neighbouring batches."""
    i = rng.randrange(len(starts) - 1)
    for start, end in pairwise(starts[i : i + 3]):
        position = mutant.position_of(rng.randrange(start, end))
        if position is not None:
            mutant.put(position, bytes([mutant.data[position] ^ rng.randint(1, 255)]))


def zero_tail(mutant: Mutant, starts: list[int], rng: random.Random) -> None:
    """Append zeros."""
    del starts
    mutant.insert(len(mutant.data), bytes(rng.choice((1, 11, 12, 40, 500, 4096))))


def swap_pages(mutant: Mutant, rng: random.Random) -> None:
    """Exchange two pages, which are as large as a few batches: a write at the wrong place."""
    page = rng.choice([size for size in PAGE_BYTES if 2 * size < len(mutant.data)] or [64])
    n_pages = -(-len(mutant.data) // page)
    if n_pages > 1:
        first, second = sorted(rng.sample(range(n_pages), 2))
        mutant.swap(first * page, second * page, page)


def move_page(mutant: Mutant, rng: random.Random) -> None:
    """Move a page to another place."""
    page = rng.choice([size for size in PAGE_BYTES if 2 * size < len(mutant.data)] or [64])
    start = rng.randrange(-(-len(mutant.data) // page)) * page
    end = min(start + page, len(mutant.data))
    mutant.move(start, end, rng.randrange(0, len(mutant.data) - (end - start) + 1, page))


MUTATIONS: list[Mutation] = [
    *(flip, flip_header, flip_header, wrong_length, wrong_length, wrong_length, wrong_checksum),
    *(zero, cut, insert, torn_copy, torn_copy, damage_neighbours, zero_tail),
]


# For a log whose records contain batches. If a record's own bytes are damaged, a batch in the
# record cannot be distinguished from one of the log: both are undamaged, with plausible offsets.
EMBEDDING_MUTATIONS: list[Mutation] = [wrong_length, torn_copy, zero_tail]


def mutant_of(data: bytes, starts: list[int], rng: random.Random) -> Mutant:
    """A copy of the data with one to four damages."""
    mutant = Mutant.of(data)
    for _ in range(rng.choice((1, 2, 2, 3, 3, 4))):
        if not mutant.data:
            break
        rng.choice(MUTATIONS)(mutant, starts, rng)
    return mutant


def embedding_mutant(rng: random.Random) -> tuple[bytes, list[int], Mutant]:
    """A log whose records contain batches, the positions of its own, and a copy with one damage."""
    data, starts = embedding(rng)
    mutant = Mutant.of(data)
    rng.choice(EMBEDDING_MUTATIONS)(mutant, starts, rng)
    return data, starts, mutant


def embedding(rng: random.Random) -> tuple[bytes, list[int]]:
    """A log whose records contain batches, and the positions of its own batches."""
    data, starts, offset = b"", [0], rng.choice((0, 0, 1000, 5_000_000))
    for _ in range(rng.randint(4, 12)):
        value = b""
        for _ in range(rng.randint(0, 3)):
            inner_offset = offset + rng.choice((0, -1, 500, -offset, -offset, 1 << 40))
            value += rng.randbytes(rng.choice((0, 0, 5, 90)))
            value += batch_of(record(b"k", rng.randbytes(40)), 0, 1, max(inner_offset, 0))
        data += batch_of(
            record(b"key", value + rng.randbytes(rng.choice((0, 0, 70)))), 0, 1, offset
        )
        offset += 1
        starts.append(len(data))
    return data, starts


def read_batches(file: InputFile) -> set[tuple[int, int]]:
    """Position and size of each batch that the reader returns with a valid checksum."""
    source = open_source(file.path)
    batches: set[tuple[int, int]] = set()
    try:
        for block in LogReader(source, file.base_offset).iter_blocks():
            valid = block.batches.select_rows(block.batches["crc_valid"] == 1)
            batches |= set(zip(valid["position"].tolist(), valid["size"].tolist(), strict=True))
    finally:
        source.close()
    return batches


@dataclass(frozen=True, slots=True)
class Verdict:
    """The reader's errors: undamaged batches that it does not return, and phantoms."""

    lost: set[tuple[int, int]]
    phantoms: set[tuple[int, int]]

    def __bool__(self) -> bool:
        return bool(self.lost or self.phantoms)


def check_mutant(mutant: Mutant, data: bytes, starts: list[int], file: Path) -> Verdict:
    """Write a mutant of `data` to `file`, which has the original's name, read it, and compare."""
    file.write_bytes(mutant.data)
    returned = read_batches(classify_file(str(file), file.name))
    original_contents = {checked_bytes(data[start:end]) for start, end in pairwise(starts)}
    phantoms = {
        batch for batch in returned if mutant.checked_bytes(*batch) not in original_contents
    }
    # Bytes removed at a boundary are ambiguous: they may be the end of the batch before it, or the
    # start of the one after it.
    valid = returned - phantoms
    lost = {
        (position, size)
        for position, size in mutant.undamaged_batches(starts) - returned
        if not any(start < position < start + length for start, length in valid)
    }
    return Verdict(lost, phantoms)
