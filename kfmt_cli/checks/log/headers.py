"""Check batch headers against the batch's bytes, the segment and the previous batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from kfmt_cli.checks.base import BoundaryState, LogCheck
from kfmt_cli.core.codecs.checksum_mistakes import describe_stored_checksum
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.findings import codes
from kfmt_cli.findings.codes import RECORDS_COUNT_MISMATCH
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.formats.legacy import LEGACY_CODECS
from kfmt_cli.log.block import (
    CHECKSUMMED_START_BY_MAGIC,
    Block,
    checksummed_bytes,
    create_batch_finding_with_detail,
)
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.rows.log_tables import BatchTable

# Wrong checksums of batches in the first bytes of a log are named: encoders under test write few
# batches, and damage has no name.
NAMED_CHECKSUM_BYTES = 1 << 14


class ChecksumCheck(LogCheck):
    """The checksum of each batch matches its bytes."""

    facts_key = "Checksums"

    def check_block(self, run: Block, records: RecordColumns | None) -> Iterable[Finding]:
        del records
        invalid_rows = np.flatnonzero(run.batches.crc_valid == 0)
        return [_crc_finding(run, i) for i in invalid_rows.tolist()]


def _crc_finding(run: Block, batch_index: int) -> Finding:
    """The finding for a batch that fails its checksum."""
    batches = run.batches
    stored_crc, computed_crc = int(batches.crc[batch_index]), int(batches.crc_computed[batch_index])
    position, batch_bytes = int(batches.position[batch_index]), int(batches.size[batch_index])
    base_offset = int(batches.base_offset[batch_index])
    magic = int(batches.magic[batch_index])
    crc_start = position + CHECKSUMMED_START_BY_MAGIC[magic]
    checksum_name = None
    if position + batch_bytes <= NAMED_CHECKSUM_BYTES:
        data = bytes(run.data[slice(*(int(batches[end][batch_index]) for end in ("start", "end")))])
        target = checksummed_bytes(data, position, magic)
        checksum_name = describe_stored_checksum(stored_crc, target, str)
    return create_batch_finding_with_detail(
        run,
        batch_index,
        codes.CRC_MISMATCH,
        f", offsets {base_offset}–{batches.last_offset[batch_index]}: stored {stored_crc:08x}, "
        f"computed {computed_crc:08x} over bytes {crc_start}–{position + batch_bytes - 1}"
        + (f"; {checksum_name}" if checksum_name else ""),
        expected=f"{computed_crc:08x}",
        found=f"{stored_crc:08x}",
    )


class PrecedingOffsetCheck(LogCheck):
    """A rule about a batch and the last offset of the previous one."""

    needs_previous_batch = True

    def merge_later_range(self, later_check: PrecedingOffsetCheck) -> Iterator[Finding]:
        if later_check.facts.get("position") is None:
            return
        previous_last_offset = self.facts.get("last_offset")
        first_offset = later_check.facts.get("first_offset", later_check.facts["base_offset"])
        if (
            previous_last_offset is not None
            and first_offset <= previous_last_offset
            and later_check.facts.get("begins_with_wrapper", 1)
        ):
            yield offset_backwards_finding(
                later_check.file_name, later_check.facts, first_offset, previous_last_offset
            )
        self.facts = {
            **later_check.facts,
            **self.facts,
            "last_offset": later_check.facts["last_offset"],
        }


class HeaderCheck(PrecedingOffsetCheck):
    """Offsets increase from batch to batch and match the segment; counts and codecs are valid."""

    facts_key = "Headers"

    def check_block(self, run: Block, records: RecordColumns | None) -> Iterable[Finding]:
        del records
        batches = run.batches
        if not batches:
            return ()
        base_offsets, last_offsets = batches.base_offset, batches.last_offset
        range_last_offset = self.facts.get("last_offset")
        initial_last_offset = (
            base_offsets[:1] - 1 if range_last_offset is None else [range_last_offset]
        )
        previous_last_offsets = np.concatenate([initial_last_offset, last_offsets[:-1]])
        # A log without an offset in its name may contain any.
        segment_base_offsets = (
            base_offsets
            if self.base_offset is None
            else np.broadcast_to(self.base_offset, base_offsets.shape)
        )
        headers = HeaderColumns(batches, previous_last_offsets, segment_base_offsets)
        broken_masks = [rule.is_broken(headers) for rule in HEADER_RULES]
        if range_last_offset is None:  # the lowest int64 has no predecessor
            broken_masks[0][:1] = False
        is_invalid = np.logical_or.reduce(broken_masks)
        self.file_name = run.file_name
        self.facts = {**identify_batch(run, 0), **self.facts, "last_offset": int(last_offsets[-1])}
        if not is_invalid.any():
            return ()
        return [
            rule.create_finding(run, i, headers)
            for i in np.flatnonzero(is_invalid).tolist()
            for rule, broken_mask in zip(HEADER_RULES, broken_masks, strict=True)
            if broken_mask[i]
        ]


def invalid_header_mask(
    batches: BatchTable, previous_last_offsets: IntArray, segment_base_offsets: IntArray
) -> BoolArray:
    """Which batches have impossible headers, regardless of their checksums.

    previous_last_offsets: the previous batch's last offset, for each batch. segment_base_offsets:
    the base offset in the file name, for each; the batch's if it has none.
    """
    headers = HeaderColumns(batches, previous_last_offsets, segment_base_offsets)
    is_invalid: BoolArray = np.logical_or.reduce([rule.is_broken(headers) for rule in HEADER_RULES])
    return is_invalid


class HeaderColumns:
    """The columns that the rules use; see `invalid_header_mask`."""

    def __init__(
        self, batches: BatchTable, previous_last_offsets: IntArray, segment_base_offsets: IntArray
    ) -> None:
        self.previous_last_offset = previous_last_offsets
        self.segment_base_offset = segment_base_offsets
        self.base_offset = batches.base_offset
        self.last_offset = batches.last_offset
        self.is_v2 = batches.is_v2 == 1
        self.last_offset_delta = batches.last_offset_delta
        self.records_count = batches.records_count
        self.codec = batches.compression

    def format_offsets(self, batch_index: int) -> str:
        """The offsets of a batch."""
        return f"{self.base_offset[batch_index]}–{self.last_offset[batch_index]}"


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """A rule about headers."""

    is_broken: Callable[[HeaderColumns], BoolArray]
    """Which batches break it."""
    create_finding: Callable[[Block, int, HeaderColumns], Finding]
    """The finding for one of them."""


def identify_batch(run: Block, batch_index: int) -> BoundaryState:
    """Text that identifies a batch in a finding; `merge_later` may report the first of a range."""
    return {
        name: int(run.batches[name][batch_index]) for name in ("position", "number", "base_offset")
    }


def offset_backwards_finding(
    file_name: str, batch_facts: BoundaryState, first_offset: int, previous_last_offset: int
) -> Finding:
    """The finding for a batch that does not begin after the previous offset."""
    message_end = f" starts at offset {first_offset}, but follows offset {previous_last_offset}"
    return Finding(
        *(file_name, codes.OFFSETS_BACKWARDS, batch_facts["position"], message_end),
        offset=batch_facts["base_offset"],
        expected=previous_last_offset + 1,
        found=first_offset,
        batch=batch_facts["number"],
    )


def _out_of_segment_finding(run: Block, batch_index: int, headers: HeaderColumns) -> Finding:
    segment_base_offset = int(headers.segment_base_offset[batch_index])
    batch_base_offset = int(headers.base_offset[batch_index])
    message_end = (
        f" has offsets {headers.format_offsets(batch_index)}, but the segment's base offset is "
        f"{segment_base_offset}"
    )
    is_first_batch = not run.batches.position[batch_index]
    is_above = batch_base_offset > segment_base_offset
    return create_batch_finding_with_detail(
        run,
        batch_index,
        codes.OFFSET_OVERFLOW if is_above and not is_first_batch else codes.OFFSET_OUT_OF_SEGMENT,
        message_end,
        expected=segment_base_offset,
        found=batch_base_offset,
    )


def _ends_before_base_finding(run: Block, batch_index: int, headers: HeaderColumns) -> Finding:
    message_end = (
        f" ends at offset {headers.last_offset[batch_index]}, before its base offset "
        f"{headers.base_offset[batch_index]}"
    )
    return create_batch_finding_with_detail(
        run,
        batch_index,
        codes.OFFSETS_BACKWARDS,
        message_end,
        found=int(headers.last_offset_delta[batch_index]),
    )


def _records_count_finding(run: Block, batch_index: int, headers: HeaderColumns) -> Finding:
    last_offset_delta, n_declared_records = (
        int(headers.last_offset_delta[batch_index]),
        int(headers.records_count[batch_index]),
    )
    message_end = (
        f" declares {n_declared_records} records, but its offsets "
        f"{headers.format_offsets(batch_index)} allow 0 "
        f"to {last_offset_delta + 1}"
    )
    allowed_counts = f"0–{last_offset_delta + 1}"
    return create_batch_finding_with_detail(
        run,
        batch_index,
        RECORDS_COUNT_MISMATCH if n_declared_records < 0 else codes.RECORDS_BEYOND_OFFSETS,
        message_end,
        expected=allowed_counts,
        found=n_declared_records,
    )


def _unknown_codec_finding(run: Block, batch_index: int, headers: HeaderColumns) -> Finding:
    codec, magic = int(headers.codec[batch_index]), int(run.batches.magic[batch_index])
    message_end = f" has codec {codec}"
    if codec < len(CODECS):
        message_end += f", {CODECS[codec]}, which magic {magic} does not allow"
    return create_batch_finding_with_detail(
        run, batch_index, codes.CODEC_UNKNOWN, message_end, found=codec
    )


HEADER_RULES = (
    HeaderRule(
        lambda headers: headers.base_offset <= headers.previous_last_offset,
        lambda run, i, headers: offset_backwards_finding(
            run.file_name,
            identify_batch(run, i),
            int(headers.base_offset[i]),
            int(headers.previous_last_offset[i]),
        ),
    ),
    HeaderRule(
        lambda headers: (
            (headers.base_offset < headers.segment_base_offset)
            | (headers.last_offset - headers.segment_base_offset > MAX_RELATIVE_OFFSET)
        ),
        _out_of_segment_finding,
    ),
    HeaderRule(
        lambda headers: headers.is_v2 & (headers.last_offset < headers.base_offset),
        _ends_before_base_finding,
    ),
    HeaderRule(
        lambda headers: (
            headers.is_v2
            & (headers.last_offset_delta >= 0)
            & (
                (headers.records_count < 0)
                | (headers.records_count > headers.last_offset_delta + 1)
            )
        ),
        _records_count_finding,
    ),
    HeaderRule(
        lambda headers: headers.codec >= np.where(headers.is_v2, len(CODECS), len(LEGACY_CODECS)),
        _unknown_codec_finding,
    ),
)
