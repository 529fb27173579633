"""Check batch headers against the batch's bytes, the segment and the previous batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from kfmt_cli.checks.base import Facts, LogCheck
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.findings import log as codes
from kfmt_cli.findings.damage import RECORDS_COUNT_MISMATCH
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.formats.legacy import LEGACY_CODECS
from kfmt_cli.log.block import CHECKED_FROM, Block, about_batch
from kfmt_cli.log.records import Records
from kfmt_cli.rows.log_tables import BatchTable


class Checksums(LogCheck):
    """The checksum of each batch matches its bytes."""

    codes = (codes.CRC_MISMATCH,)

    def take(self, run: Block, records: Records | None) -> Iterable[Finding]:
        del records
        wrong = np.flatnonzero(run.batches.crc_valid == 0)
        return [_mismatch(run, i) for i in wrong.tolist()]


def _mismatch(run: Block, i: int) -> Finding:
    """The finding for a batch that fails its checksum."""
    batches = run.batches
    stored, computed = int(batches.crc[i]), int(batches.crc_computed[i])
    position, size = int(batches.position[i]), int(batches.size[i])
    offset = int(batches.base_offset[i])
    covered = position + CHECKED_FROM[int(batches.magic[i])]
    return about_batch(
        run,
        i,
        codes.CRC_MISMATCH,
        f", offsets {offset}–{batches.last_offset[i]}: stored {stored:08x}, "
        f"computed {computed:08x} over bytes {covered}–{position + size - 1}",
        expected=f"{computed:08x}",
        found=f"{stored:08x}",
    )


class Following(LogCheck):
    """A rule about a batch and the offset before it."""

    looks_back = True

    def join(self, later: Following) -> Iterator[Finding]:
        if later.facts.get("position") is None:
            return
        before = self.facts.get("last_offset")
        first = later.facts.get("first_offset", later.facts["base_offset"])
        if before is not None and first <= before and later.facts.get("begins_with_wrapper", 1):
            yield backwards(later.file, later.facts, first, before)
        self.facts = {**later.facts, **self.facts, "last_offset": later.facts["last_offset"]}


class Headers(Following):
    """Offsets increase from batch to batch and match the segment; counts and codecs are valid."""

    codes = (
        codes.OFFSETS_BACKWARDS,
        codes.OFFSET_OUT_OF_SEGMENT,
        RECORDS_COUNT_MISMATCH,
        codes.CODEC_UNKNOWN,
    )

    def take(self, run: Block, records: Records | None) -> Iterable[Finding]:
        del records
        batches = run.batches
        if not len(batches):
            return ()
        base, last = batches.base_offset, batches.last_offset
        last_offset = self.facts.get("last_offset")
        first = base[:1] - 1 if last_offset is None else [last_offset]
        before = np.concatenate([first, last[:-1]])
        # A log without an offset in its name may contain any.
        named = base if self.base_offset is None else np.broadcast_to(self.base_offset, base.shape)
        headers = HeaderColumns(batches, before, named)
        masks = [rule.wrong(headers) for rule in RULES]
        if last_offset is None:  # before the lowest offset there is no number
            masks[0][:1] = False
        wrong = np.logical_or.reduce(masks)
        self.file = run.name
        self.facts = {**batch_facts(run, 0), **self.facts, "last_offset": int(last[-1])}
        if not wrong.any():
            return ()
        return [
            rule.finding(run, i, headers)
            for i in np.flatnonzero(wrong).tolist()
            for rule, mask in zip(RULES, masks, strict=True)
            if mask[i]
        ]


def oddities(batches: BatchTable, before: IntArray, of_segment: IntArray) -> BoolArray:
    """Which batches have impossible headers, regardless of their checksums.

    before: the previous batch's last offset, for each batch. of_segment: the base offset in the
    file name, for each; the batch's if it has none.
    """
    headers = HeaderColumns(batches, before, of_segment)
    wrong: BoolArray = np.logical_or.reduce([rule.wrong(headers) for rule in RULES])
    return wrong


class HeaderColumns:
    """The columns that the rules use; see `oddities`."""

    def __init__(self, batches: BatchTable, before: IntArray, of_segment: IntArray) -> None:
        self.before = before
        self.of_segment = of_segment
        self.base = batches.base_offset
        self.last = batches.last_offset
        self.is_v2 = batches.is_v2 == 1
        self.delta = batches.last_offset_delta
        self.declared = batches.records_count
        self.codec = batches.compression

    def range(self, i: int) -> str:
        """The offsets of a batch."""
        return f"{self.base[i]}–{self.last[i]}"


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """A rule about headers."""

    wrong: Callable[[HeaderColumns], BoolArray]
    """Which batches break it."""
    finding: Callable[[Block, int, HeaderColumns], Finding]
    """The finding for one of them."""


def batch_facts(run: Block, i: int) -> Facts:
    """What names a batch, such as the first of a stretch, which `join` may have to name."""
    return {name: int(run.batches[name][i]) for name in ("position", "number", "base_offset")}


def backwards(file: str, place: Facts, first: int, before: int) -> Finding:
    """The finding for a batch that does not begin after the previous offset."""
    words = f" starts at offset {first}, but follows offset {before}"
    return Finding(
        *(file, codes.OFFSETS_BACKWARDS, place["position"], words),
        offset=place["base_offset"],
        expected=before + 1,
        found=first,
        batch=place["number"],
    )


def _out(run: Block, i: int, of: HeaderColumns) -> Finding:
    segment, base = int(of.of_segment[i]), int(of.base[i])
    words = f" has offsets {of.range(i)}, but the segment's base offset is {segment}"
    return about_batch(run, i, codes.OFFSET_OUT_OF_SEGMENT, words, expected=segment, found=base)


def _ends_before(run: Block, i: int, of: HeaderColumns) -> Finding:
    words = f" ends at offset {of.last[i]}, before its base offset {of.base[i]}"
    return about_batch(run, i, codes.OFFSETS_BACKWARDS, words, found=int(of.delta[i]))


def _too_many(run: Block, i: int, of: HeaderColumns) -> Finding:
    delta, declared = int(of.delta[i]), int(of.declared[i])
    words = f" declares {declared} records, but its offsets {of.range(i)} allow 0 to {delta + 1}"
    room = f"0–{delta + 1}"
    return about_batch(run, i, RECORDS_COUNT_MISMATCH, words, expected=room, found=declared)


def _unknown_codec(run: Block, i: int, of: HeaderColumns) -> Finding:
    codec, magic = int(of.codec[i]), int(run.batches.magic[i])
    words = f" has codec {codec}"
    if codec < len(CODECS):
        words += f", {CODECS[codec]}, which magic {magic} does not allow"
    return about_batch(run, i, codes.CODEC_UNKNOWN, words, found=codec)


RULES = (
    HeaderRule(
        lambda of: of.base <= of.before,
        lambda run, i, of: backwards(
            run.name, batch_facts(run, i), int(of.base[i]), int(of.before[i])
        ),
    ),
    HeaderRule(
        lambda of: (of.base < of.of_segment) | (of.last - of.of_segment > MAX_RELATIVE_OFFSET),
        _out,
    ),
    HeaderRule(lambda of: of.is_v2 & (of.last < of.base), _ends_before),
    HeaderRule(
        lambda of: of.is_v2 & (of.delta >= 0) & ((of.declared < 0) | (of.declared > of.delta + 1)),
        _too_many,
    ),
    HeaderRule(
        lambda of: of.codec >= np.where(of.is_v2, len(CODECS), len(LEGACY_CODECS)), _unknown_codec
    ),
)
