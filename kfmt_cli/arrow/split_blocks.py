"""Reads the blocks of splits, small logs in groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kfmt_cli.arrow.columns.tables import read_undamaged_logs
from kfmt_cli.arrow.input_files import create_split_reader, group_small_splits
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.execution.split_reader import SplitReader
from kfmt_cli.log.block import Block
from kfmt_cli.log.selection.selection import Selection


def read_split_blocks(
    request: ReadRequest, splits: Sequence[FileSplit]
) -> Iterator[tuple[FileSplit, SplitReader, Iterable[Block]]]:
    """The blocks of each split, with headers and checksums checked, and its reader, which has the
    findings and the boundary once the blocks are read."""
    for split_group in group_small_splits(splits):
        small_logs = read_undamaged_logs(split_group) if len(split_group) > 1 else None
        for file_index, split in enumerate(split_group):
            reader = create_split_reader(request, split)
            yield (
                split,
                reader,
                _iter_read_batches(reader, split)
                if small_logs is None
                else (_select_file_block(small_logs, file_index, split),),
            )


def _iter_read_batches(reader: SplitReader, split: FileSplit) -> Iterator[Block]:
    """The blocks of a split, without batches that are read from other replicas."""
    selection = Selection(offset_intervals=split.offset_intervals)
    for block in reader.iter_blocks(split):
        yield selection.select_batches(block) if selection else block


def _select_file_block(small_logs: Block, file_index: int, split: FileSplit) -> Block:
    """The batches of one of several small logs, with only its own bytes."""
    batches = small_logs.batches.select_rows(small_logs.batches.file_number == file_index)
    first_byte = int(batches.start[0]) if len(batches) else 0
    file_bytes = small_logs.data[first_byte : int(batches.end[-1])] if len(batches) else b""
    batches.start, batches.end = batches.start - first_byte, batches.end - first_byte
    return Block(split.path, file_bytes, 0, batches)
