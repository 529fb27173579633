"""Search in the keys and values of a partition, directly in the file if no batch is compressed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from kfmt_cli.browse.block_index import BlockIndex, IndexedBlock
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.source import Source
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.log.block import Block
from kfmt_cli.log.selection.record_filter import RecordFilter
from kfmt_cli.log.selection.regex import BytesRegex, compile_regex
from kfmt_cli.log.selection.selection import Selection

TEXT_SEARCH, REGEX_SEARCH, HEX_SEARCH = "text", "regex", "hex"
KEY_AND_VALUE, KEY_ONLY, VALUE_ONLY = "key and value", "key", "value"
MAX_HITS = 10_000
NO_END_POSITION = 1 << 62  # bytes


@dataclass(frozen=True, slots=True)
class SearchTerm:
    """A search term."""

    typed_text: str
    """The text as typed."""
    search_kind: str = TEXT_SEARCH
    """`TEXT_SEARCH`, `REGEX_SEARCH` or `HEX_SEARCH`."""
    searched_field: str = KEY_AND_VALUE
    """`KEY_AND_VALUE`, `KEY_ONLY` or `VALUE_ONLY`."""

    @property
    def pattern(self) -> BytesRegex:
        """The pattern to search the bytes for; raises UsageError."""
        try:
            if self.search_kind == REGEX_SEARCH:
                return compile_regex(self.typed_text)
            return BytesRegex(re.escape(self.literal or b""))
        except ValueError as error:
            raise UsageError(f"{self.typed_text!r} is not a regular expression: {error}") from None

    @property
    def literal(self) -> bytes | None:
        """The literal bytes, None for a regular expression; raises UsageError."""
        if self.search_kind == REGEX_SEARCH:
            return None
        if self.search_kind == HEX_SEARCH:
            try:
                if literal := bytes.fromhex(self.typed_text):
                    return literal
                raise ValueError
            except ValueError:
                raise UsageError(
                    f"{self.typed_text!r} is not hexadecimal (two digits per byte)"
                ) from None
        return os.fsencode(self.typed_text)

    @property
    def searched_fields(self) -> tuple[str, ...]:
        """The fields to search: `KEY_ONLY`, `VALUE_ONLY`, or both."""
        return (
            (KEY_ONLY, VALUE_ONLY)
            if self.searched_field == KEY_AND_VALUE
            else (self.searched_field,)
        )

    @property
    def find_options(self) -> list[tuple[str, str]]:
        """The equivalent `kfmt find` options and values, one per call; raises UsageError."""
        literal = self.literal or b""
        if self.search_kind == REGEX_SEARCH:
            regex = self.typed_text
        elif self.search_kind == HEX_SEARCH or not _is_printable(literal):
            regex = "".join(f"\\x{byte:02x}" for byte in literal)
        else:
            regex = re.escape(self.typed_text)
        return [(f"--{field_name}", f"~{regex}") for field_name in self.searched_fields]


def _is_printable(literal: bytes) -> bool:
    try:
        return literal.decode().isprintable()
    except UnicodeDecodeError:
        return False


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A matching record."""

    batch_position: int
    offset: int
    file_name: str = ""
    """The name of the log."""


@dataclass(slots=True)
class PartitionSearch:
    """A search of all logs of a partition: from a batch of the open log onward, through the later
    logs, then from the first log to the start of the search. It runs on its own thread."""

    logs: Sequence[InputFile]
    """The logs of the partition, in the order of their base offsets."""
    open_log_index: BlockIndex
    """The index of the open log, which is one of `logs`."""
    search_term: SearchTerm
    start_position: int = 0
    """The byte of the open log at which the search starts."""
    is_cancelled: Callable[[], bool] = lambda: False
    decompression_limit: DecompressionLimit | None = None
    current_log_index: int = 0
    """The index of the log being searched."""
    searched_bytes: int = 0
    """Bytes searched so far."""
    total_bytes: int = 0
    """The size of all logs in bytes."""
    read_errors: list[str] = field(default_factory=list)
    """Why some of the logs could not be read."""

    def __post_init__(self) -> None:
        self.total_bytes = sum(map(file_size, self.logs))

    def iter_hits(self) -> Iterator[SearchHit]:
        """The matching records; raises UsageError."""
        start_log_index = next(
            (i for i, log in enumerate(self.logs) if log.path == self.open_log_index.file.path), 0
        )
        yield from self._search_log(start_log_index, self.start_position, NO_END_POSITION)
        for log_index in (*range(start_log_index + 1, len(self.logs)), *range(start_log_index)):
            yield from self._search_log(log_index, 0, NO_END_POSITION)
        if self.start_position:
            yield from self._search_log(start_log_index, 0, self.start_position)

    def _search_log(
        self, log_index: int, start_position: int, end_position: int
    ) -> Iterator[SearchHit]:
        """The hits in one log, in the batches with positions in [start, end)."""
        if self.is_cancelled():
            return
        self.current_log_index = log_index
        file = self.logs[log_index]
        try:
            is_open_log = file.path == self.open_log_index.file.path
            block_index = (
                self.open_log_index
                if is_open_log
                else BlockIndex(file, self.open_log_index.batch_filter)
            )
            yield from self._search_indexed_log(block_index, start_position, end_position)
        except InputError as error:
            self.read_errors.append(str(error))

    def _search_indexed_log(
        self, block_index: BlockIndex, start_position: int, end_position: int
    ) -> Iterator[SearchHit]:
        pattern, literal = self.search_term.pattern, self.search_term.literal
        filter_by_field = {
            KEY_ONLY: RecordFilter(key_pattern=pattern),
            VALUE_ONLY: RecordFilter(value_pattern=pattern),
        }
        selections = [
            Selection(record_filter=filter_by_field[field_name])
            for field_name in self.search_term.searched_fields
        ]
        with closing(block_index.open_file()) as source:
            for indexed_block in self._iter_indexed_blocks(
                block_index, start_position, end_position
            ):
                if self.is_cancelled():
                    return
                if (
                    not indexed_block.is_uncompressed_v2
                    or literal is None
                    or _contains_literal(source, indexed_block, literal)
                ):
                    block = block_index.read_block(indexed_block)
                    batches = block.batches
                    in_range_mask = (batches.position >= start_position) & (
                        batches.position < end_position
                    )
                    block.batches = batches.select_rows(np.flatnonzero(in_range_mask))
                    if indexed_block.is_uncompressed_v2 and literal:
                        block = _block_with_literal(block, literal)
                    yield from self._search_block(block, selections, block_index.file.name)
                self.searched_bytes += indexed_block.end_position - max(
                    indexed_block.reader_state.position, start_position
                )

    def _iter_indexed_blocks(
        self, block_index: BlockIndex, start_position: int, end_position: int
    ) -> Iterator[IndexedBlock]:
        """The blocks with bytes in [start, end); extends the index as needed. Raises InputError."""
        n_visited = 0
        while not self.is_cancelled():
            if n_visited < len(block_index.blocks):
                indexed_block = block_index.blocks[n_visited]
                n_visited += 1
                if indexed_block.reader_state.position >= end_position:
                    return
                if indexed_block.end_position > start_position:
                    yield indexed_block
            elif block_index.is_complete:
                if block_index.read_error:
                    raise InputError(block_index.read_error)
                return
            else:
                block_index.extend_index(
                    target_position=block_index.end_position + 1, is_cancelled=self.is_cancelled
                )

    def _search_block(
        self, block: Block, selections: list[Selection], file_name: str
    ) -> Iterator[SearchHit]:
        for run, records in selections[0].iter_candidate_runs(
            block, self.decompression_limit or DecompressionLimit()
        ):
            batch_indexes = records.batch_of_row
            match_mask = np.logical_or.reduce(
                [selection.record_mask(run, records) for selection in selections]
            )
            for record_index in np.flatnonzero(match_mask).tolist():
                batch_position = int(run.batches.position[batch_indexes[record_index]])
                yield SearchHit(batch_position, int(records.rows.offset[record_index]), file_name)


def _contains_literal(source: Source, indexed_block: IndexedBlock, literal: bytes) -> bool:
    """Whether the literal occurs anywhere in the bytes of an uncompressed block."""
    start_position = indexed_block.reader_state.position
    n_bytes = indexed_block.end_position - start_position
    return literal in source.read_block(start_position, n_bytes, n_bytes)[:n_bytes]


def _block_with_literal(block: Block, literal: bytes) -> Block:
    """The block with only the batches that contain the literal; the block itself if the literal
    occurs too often to filter."""
    literal_positions: list[int] = []
    literal_position = block.data.find(literal)
    while literal_position >= 0 and len(literal_positions) < 2 * len(block.batches):
        literal_positions.append(literal_position)
        literal_position = block.data.find(literal, literal_position + 1)
    if literal_position >= 0:
        return block  # the literal is in nearly every batch
    batches = block.batches
    batch_indexes = (
        np.searchsorted(batches.start, np.array(literal_positions, np.int64), side="right") - 1
    )
    matching_indexes = np.unique(batch_indexes[(batch_indexes >= 0)])
    return replace(block, batches=batches.select_rows(matching_indexes), findings=[])
