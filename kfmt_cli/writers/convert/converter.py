"""Converts messages of magic 0 and 1 to batches of magic 2, keeping offsets: convert-v0-to-v2.

A wrapper becomes one batch. Messages without a wrapper are grouped into batches. Batches of magic 2
are copied unchanged.
Source for magic 0: `org.apache.kafka.storage.internals.log.LogValidator`, which converted such
messages on a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np

from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.findings import codes
from kfmt_cli.findings.codes import INNER_CRC_MISMATCH
from kfmt_cli.findings.finding import Finding, has_errors
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.log.block import (
    Block,
    batch_finding,
    is_legacy,
    max_timestamps,
    split_block,
    split_runs,
)
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.records import RecordColumns, build_expand_program, fill_columns_from_batches
from kfmt_cli.writers.batches import EncodedBatches, encode_batches
from kfmt_cli.writers.build.batch_drafts import (
    BatchBounds,
    batch_start_mask,
    create_drafts,
    find_batch_starts,
)
from kfmt_cli.writers.convert.comparable_records import encode_comparable_records
from kfmt_cli.writers.segment_writer import SegmentWriter

MAX_DECOMPRESSED_CHUNK_BYTES = 256 << 10  # compressed bytes to decompress at once
_TIMESTAMP_TYPE_PROGRAM = build_expand_program(("timestamp_type", "timestamp_type", None, None))
NO_PREVIOUS_OFFSET = -1 << 63
NO_HEADERS = np.zeros((4, 0), np.int64)


@dataclass(slots=True)
class ConversionCounts:
    """The counts of a conversion."""

    messages: int = 0
    batches: int = 0
    batches_after: int = 0
    left_out: int = 0
    """Damaged batches, which are dropped."""
    has_legacy: bool = False
    """Whether some batches have magic 0 or 1."""
    findings: list[Finding] = field(default_factory=list)
    digest: bytes = b""
    """The digest of the records in the form of `comparable_records.py`."""

    @property
    def damaged(self) -> bool:
        """Whether some findings are errors."""
        return has_errors(self.findings)


@dataclass(frozen=True, slots=True)
class IntactContent:
    """The undamaged content of a run of batches."""

    run: Block
    records: RecordColumns
    is_valid: BoolArray
    """The mask of undamaged batches; older wrappers may still lack some messages."""
    findings: list[Finding]
    first_offset: int | None
    """The first offset kept, None without any."""
    last_offset: int | None
    """The last offset kept, None without any."""
    comparable_bytes: bytearray
    """The records in the form of `comparable_records.py`."""
    converted_batches: EncodedBatches | None = None
    """The converted batches; None if the log is only read, or if nothing is undamaged."""


@dataclass(frozen=True, slots=True)
class Converter:
    """The settings of a conversion."""

    codec: str | None
    """None keeps the codec of each wrapper."""
    batch_bounds: BatchBounds
    decompression_limit: DecompressionLimit
    n_threads: int
    """The number of threads."""

    def convert_log(
        self,
        log: InputFile,
        segment_writer: SegmentWriter | None,
        on_progress: Callable[[int], None],
    ) -> ConversionCounts:
        """Convert a log into a segment; raises InputError, OutputError. segment_writer: None to
        only read the log."""
        conversion_counts = ConversionCounts()
        digest = blake2b()
        process_run = self._read_intact_content if segment_writer is None else self._convert_run
        for content in self._iter_intact_contents(log, process_run, on_progress):
            if segment_writer is not None and content.converted_batches is not None:
                segment_writer.append_batches(content.converted_batches)
                conversion_counts.batches_after += len(content.converted_batches)
            conversion_counts.messages += len(content.records.rows)
            conversion_counts.batches += len(content.is_valid)
            conversion_counts.left_out += int((~content.is_valid).sum())
            conversion_counts.findings += content.findings
            conversion_counts.has_legacy |= is_legacy(content.run)
            digest.update(content.comparable_bytes)
        conversion_counts.digest = digest.digest()
        return conversion_counts

    def _iter_intact_contents(
        self,
        log: InputFile,
        process_run: Callable[..., IntactContent],
        on_progress: Callable[[int], None],
    ) -> Iterator[IntactContent]:
        """The runs of a log, in order. A run that overlaps earlier ones is processed again."""
        previous_offset = NO_PREVIOUS_OFFSET
        with open_checked_log(log, read_ahead=False) as opened_log:
            runs = _iter_small_runs(opened_log.blocks, on_progress)
            for first_content in map_ordered(
                process_run, runs, self.n_threads if opened_log.is_large else 0
            ):
                overlaps_earlier = (
                    first_content.first_offset is not None
                    and first_content.first_offset <= previous_offset
                )
                content = (
                    process_run(first_content.run, previous_offset)
                    if overlaps_earlier
                    else first_content
                )
                if content.last_offset is not None:
                    previous_offset = max(previous_offset, content.last_offset)
                yield content

    def _read_intact_content(
        self, run: Block, previous_offset: int = NO_PREVIOUS_OFFSET
    ) -> IntactContent:
        """The undamaged records of a run, and the findings about damaged ones.

        previous_offset: the last offset kept from earlier runs. It is not known at first, as runs
        are processed concurrently; a run that overlaps earlier ones is processed again.
        """
        is_valid = run.batches.crc_valid == 1
        records = read_records(run, self.decompression_limit)
        findings = [*run.findings, *records.findings]
        if not is_legacy(run):
            fill_columns_from_batches(run, records, _TIMESTAMP_TYPE_PROGRAM)
            findings += _exclude_backward_batches(run, is_valid, previous_offset)
        is_retained = np.repeat(is_valid, records.row_counts)
        corrupt_message_offsets = [
            finding.offset for finding in records.findings if finding.code is INNER_CRC_MISMATCH
        ]
        if corrupt_message_offsets:
            is_retained &= ~np.isin(
                records.rows.offset, np.array(corrupt_message_offsets, np.int64)
            )
        if is_legacy(run):
            findings += _exclude_backward_records(run, records, is_retained, previous_offset)
        if not is_retained.all():
            n_retained_before = np.concatenate([[0], np.cumsum(is_retained)])
            records.row_ends = n_retained_before[records.row_ends]
            records.rows = records.rows.select_rows(is_retained)
        first_offset, last_offset = _first_and_last_offset(run, records, is_valid)
        comparable_bytes = encode_comparable_records(records)
        return IntactContent(
            run, records, is_valid, findings, first_offset, last_offset, comparable_bytes
        )

    def _convert_run(self, run: Block, previous_offset: int = NO_PREVIOUS_OFFSET) -> IntactContent:
        intact_content = self._read_intact_content(run, previous_offset)
        if intact_content.first_offset is None:
            return intact_content
        has_legacy_magic = is_legacy(run)
        converted_batches = (
            self._encode_grouped_batches(run, intact_content.records)
            if has_legacy_magic
            else _copy_valid_batches(run, intact_content.is_valid)
        )
        return replace(intact_content, converted_batches=converted_batches)

    def _encode_grouped_batches(self, run: Block, records: RecordColumns) -> EncodedBatches:
        rows, batches = records.rows, run.batches
        batch_index = records.batch_of_row
        is_wrapped = batches.compression[batch_index] != 0
        starts_batch = batch_start_mask(rows)
        starts_batch[1:] |= (np.diff(batch_index) != 0) & (is_wrapped[1:] | is_wrapped[:-1])
        starts_batch[1:] |= np.diff(batches.magic[batch_index]) != 0
        start_rows = find_batch_starts(rows, starts_batch, ~is_wrapped, self.batch_bounds)
        requested_codec = CODECS.index(self.codec) if self.codec is not None else None
        batch_codecs = (
            batches.compression[batch_index][start_rows]
            if requested_codec is None
            else requested_codec
        )
        drafts = create_drafts(rows, start_rows, batch_codecs)
        end_rows = np.append(start_rows[1:], len(rows))[: len(start_rows)]
        return encode_batches(drafts, RecordColumns(records.data, rows, NO_HEADERS, end_rows))


def _first_and_last_offset(
    run: Block, records: RecordColumns, is_valid: BoolArray
) -> tuple[int | None, int | None]:
    """The first and last offset kept from a run."""
    if is_legacy(run):
        first_offsets, last_offsets = records.rows.offset, records.rows.offset
    else:
        first_offsets = run.batches.base_offset[is_valid]
        last_offsets = run.batches.last_offset[is_valid]
    return (int(first_offsets[0]), int(last_offsets[-1])) if len(first_offsets) else (None, None)


def _exclude_backward_batches(
    run: Block, is_valid: BoolArray, previous_offset: int
) -> Iterator[Finding]:
    """Exclude batches of magic 2 from `is_valid` that do not begin after the batches kept.

    Consumers would receive their offsets twice, and no index could find them.
    """
    batches = run.batches
    base_offsets, last_offsets = batches.base_offset, batches.last_offset
    previous_offsets = np.concatenate([[previous_offset], last_offsets])
    if (base_offsets > previous_offsets[:-1]).all() and (last_offsets >= base_offsets).all():
        return
    reported_positions = {
        finding.position for finding in run.findings if finding.code is codes.OFFSETS_BACKWARDS
    }
    offset_ranges = zip(base_offsets.tolist(), last_offsets.tolist(), strict=True)
    for batch_index, (batch_base_offset, batch_last_offset) in enumerate(offset_ranges):
        if not is_valid[batch_index]:
            continue
        if batch_base_offset > previous_offset and batch_last_offset >= batch_base_offset:
            previous_offset = batch_last_offset
            continue
        is_valid[batch_index] = False
        if int(batches.position[batch_index]) not in reported_positions:
            message = f"offset {batch_base_offset} follows offset {previous_offset}"
            yield batch_finding(
                run, batch_index, codes.OFFSETS_BACKWARDS, message, found=batch_base_offset
            )


def _exclude_backward_records(
    run: Block, records: RecordColumns, is_retained: BoolArray, previous_offset: int
) -> Iterator[Finding]:
    """Exclude messages from `is_retained` whose offsets do not increase.

    A batch of magic 2 cannot contain them, and no index could find them. The reader has checked the
    offsets of wrappers and of messages without one, but not of messages inside wrappers.
    """
    offsets = records.rows.offset
    retained_offsets = np.where(is_retained, offsets, NO_PREVIOUS_OFFSET)
    max_previous_offsets = np.maximum.accumulate(
        np.concatenate([[previous_offset], retained_offsets])
    )[:-1]
    is_backward = is_retained & (offsets <= max_previous_offsets)
    if not is_backward.any():
        return
    is_retained &= ~is_backward
    batch_indexes = np.searchsorted(records.row_ends, np.flatnonzero(is_backward), side="right")
    wrapper_indexes = batch_indexes[run.batches.compression[batch_indexes] != 0]
    for wrapper_index in np.unique(wrapper_indexes).tolist():
        first_row = int(np.flatnonzero(is_backward)[np.searchsorted(batch_indexes, wrapper_index)])
        message = f"offset {offsets[first_row]} follows offset {max_previous_offsets[first_row]}"
        yield batch_finding(run, wrapper_index, codes.RECORD_OFFSETS_BACKWARDS, message)


def _copy_valid_batches(run: Block, is_valid: BoolArray) -> EncodedBatches:
    """The batches unchanged, without the damaged ones."""
    batches = run.batches.select_rows(is_valid)
    output_ends = np.cumsum(batches.size)
    block_starts = batches.start.tolist()
    block_ends = batches.end.tolist()
    if block_starts and output_ends[-1] == block_ends[-1] - block_starts[0]:
        copied_data = run.data[block_starts[0] : block_ends[-1]]
    else:
        copied_data = b"".join(
            run.data[block_start:block_end]
            for block_start, block_end in zip(block_starts, block_ends, strict=True)
        )
    base_offsets, last_offsets = batches.base_offset, batches.last_offset
    return EncodedBatches(
        copied_data, output_ends, base_offsets, last_offsets, max_timestamps(batches)
    )


def _iter_small_runs(
    blocks: Iterator[Block], on_progress: Callable[[int], None]
) -> Iterator[Block]:
    """Split blocks into runs of batches of one kind, none too large when decompressed."""
    for block in blocks:
        on_progress(len(block.data))
        for run in split_runs(block):
            if run.batches.compression.any():
                yield from split_block(run, MAX_DECOMPRESSED_CHUNK_BYTES)
            else:
                yield run
