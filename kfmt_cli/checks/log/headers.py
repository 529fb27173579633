"""What the header of a batch must agree on with its bytes, with the segment, and with the batch
before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from kfmt_cli.checks.base import Facts, LogCheck, Scope
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray, Table
from kfmt_cli.findings import log as codes
from kfmt_cli.findings.damage import RECORDS_COUNT_MISMATCH
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.formats.legacy import LEGACY_CODECS
from kfmt_cli.log.block import CHECKED_FROM, Block, about_batch
from kfmt_cli.log.records import Records


class Checksums(LogCheck):
    """The checksum of each batch fits its bytes."""

    scope = Scope.HEADERS
    codes = (codes.CRC_MISMATCH,)
    of_packs = True

    def take(self, run: Block, records: Records | None) -> Iterable[Finding]:
        del records
        wrong = run.batches["crc_valid"] == 0
        return () if not wrong.any() else map(self._mismatch(run), np.flatnonzero(wrong).tolist())

    @staticmethod
    def _mismatch(run: Block):  # type: ignore[no-untyped-def]
        batches = run.batches

        def finding(i: int) -> Finding:
            stored, computed = int(batches["crc"][i]), int(batches["crc_computed"][i])
            position, size = int(batches["position"][i]), int(batches["size"][i])
            offset = int(batches["base_offset"][i])
            covered = position + CHECKED_FROM[int(batches["magic"][i])]
            return about_batch(
                run,
                i,
                codes.CRC_MISMATCH,
                f", offsets {offset}–{batches['last_offset'][i]}: stored {stored:08x}, "
                f"computed {computed:08x} over bytes {covered}–{position + size - 1}",
                expected=f"{computed:08x}",
                found=f"{stored:08x}",
            )

        return finding


class Headers(LogCheck):
    """Offsets increase from batch to batch and fit the segment; counts and codecs can be true."""

    scope = Scope.HEADERS
    codes = (
        codes.OFFSETS_BACKWARDS,
        codes.OFFSET_OUT_OF_SEGMENT,
        RECORDS_COUNT_MISMATCH,
        codes.CODEC_UNKNOWN,
    )
    looks_back = True
    of_packs = True

    def __init__(self, base_offset: int | None = None) -> None:
        super().__init__(base_offset)
        self._first: Block | None = None
        self._last_offset: int | None = None

    def take(self, run: Block, records: Records | None) -> Iterable[Finding]:
        del records
        batches = run.batches
        if not len(batches):
            return ()
        base, last = batches["base_offset"], batches["last_offset"]
        before = np.empty_like(last)
        before[1:] = last[:-1]
        before[:1] = base[:1] - 1 if self._last_offset is None else self._last_offset
        of_segment = None if self.base_offset is None else np.array(self.base_offset)
        wrong = oddities(batches, before, of_segment)
        if self._first is None:
            self._first = header_of(run, 0)
        self._last_offset = int(last[-1])
        if not wrong.any():
            return ()
        return [
            finding
            for i in np.flatnonzero(wrong).tolist()
            for finding in self._findings(run, i, int(before[i]))
        ]

    def join(self, later: Headers) -> Iterator[Finding]:
        if later._first is None:
            return
        base = int(later._first.batches["base_offset"][0])
        if self._last_offset is not None and base <= self._last_offset:
            yield backwards(later._first, 0, base, self._last_offset)
        self._first = self._first or later._first
        self._last_offset = later._last_offset

    def facts(self) -> Facts:
        return {**facts_of(self._first), "last_offset": self._last_offset}

    def recall(self, facts: Facts) -> None:
        self._first = header_from(facts)
        self._last_offset = facts["last_offset"]

    def _findings(self, run: Block, i: int, before: int) -> Iterator[Finding]:
        batches = run.batches
        base, last = int(batches["base_offset"][i]), int(batches["last_offset"][i])
        if base <= before:
            yield backwards(run, i, base, before)
        of_segment = self.base_offset
        if of_segment is not None and (
            base < of_segment or last - of_segment > MAX_RELATIVE_OFFSET
        ):
            words = f" holds offsets {base}–{last}, the segment begins at {of_segment}"
            code = codes.OFFSET_OUT_OF_SEGMENT
            yield about_batch(run, i, code, words, expected=of_segment, found=base)
        delta, declared = int(batches["last_offset_delta"][i]), int(batches["records_count"][i])
        is_v2 = bool(batches["is_v2"][i])
        if is_v2 and delta < 0:
            words = f" ends at offset {last}, before it begins at {base}"
            yield about_batch(run, i, codes.OFFSETS_BACKWARDS, words, found=delta)
        elif is_v2 and not 0 <= declared <= delta + 1:
            words = (
                f" declares {declared} records; its offsets {base}–{last} leave room for 0 to "
                f"{delta + 1}"
            )
            room = f"0–{delta + 1}"
            code = RECORDS_COUNT_MISMATCH
            yield about_batch(run, i, code, words, expected=room, found=declared)
        codec = int(batches["compression"][i])
        if codec >= len(CODECS if is_v2 else LEGACY_CODECS):
            yield about_batch(run, i, codes.CODEC_UNKNOWN, f" says codec {codec}", found=codec)


def oddities(batches: Table, before: IntArray, of_segment: IntArray | None) -> BoolArray:
    """Batches whose headers cannot be true, whatever their checksums say.

    before: the last offset of the batch before each. of_segment: the base offset in the file's
    name, one for all or one for each; None where it says nothing.
    """
    base, last = batches["base_offset"], batches["last_offset"]
    wrong: BoolArray = base <= before
    if of_segment is not None:
        wrong |= (base < of_segment) | (last - of_segment > MAX_RELATIVE_OFFSET)
    is_v2 = batches["is_v2"] == 1
    wrong |= batches["compression"] >= np.where(is_v2, len(CODECS), len(LEGACY_CODECS))
    delta, declared = batches["last_offset_delta"], batches["records_count"]
    wrong |= is_v2 & ((delta < 0) | (declared < 0) | (declared > delta + 1))
    return wrong


def backwards(run: Block, i: int, first: int, before: int) -> Finding:
    """A batch that does not begin after the offset before it."""
    words = f" begins at offset {first}, but offset {before} comes before it"
    code = codes.OFFSETS_BACKWARDS
    return about_batch(run, i, code, words, expected=before + 1, found=first)


# The first batch of a stretch, which `join` may have to name.


def header_of(run: Block, i: int) -> Block:
    """One batch of the run without its bytes, so that these need not be kept."""
    return Block(run.name, b"", run.position, run.batches.select(slice(i, i + 1)))


_NAMED = ("position", "number", "base_offset")


def facts_of(first: Block | None) -> Facts:
    """What is kept of a batch that `join` may have to name."""
    if first is None:
        return dict.fromkeys(_NAMED)
    return {name: int(first.batches[name][0]) for name in _NAMED}


def header_from(facts: Facts) -> Block | None:
    """The inverse of `facts_of`, but for the name of the file."""
    if facts["position"] is None:
        return None
    batch = Table.empty(_NAMED, 1)
    for name in _NAMED:
        batch[name] = facts[name] or 0
    return Block("", b"", 0, batch)
