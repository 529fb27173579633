"""Splits of a log: each batch is read in the split in which it begins, wherever the cuts are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.split_merger import needs_whole_read
from kfmt_cli.execution.split_reader import SplitBoundary, SplitReader
from tests.support.samples import ORDERS
from tests.support.segments import positions

STARTS = positions(ORDERS.read_bytes())
SIZE = STARTS[-1]
WHOLE = FileSplit(str(ORDERS), LOG_KIND, 0, SIZE, ORDERS.stat().st_mtime_ns, 0, SIZE)


def read(cuts: list[int]) -> list[tuple[list[int], SplitBoundary | None]]:
    """The positions of the batches in each split, and what it tells its neighbours."""
    reader = SplitReader(searches_without_index=True)
    results = []
    for start, end in pairwise([0, *cuts, SIZE]):
        blocks = reader.iter_blocks(WHOLE.with_byte_range(start, end))
        batch_positions = [int(at) for block in blocks for at in block.batches.position]
        assert not reader.findings
        results.append((batch_positions, reader.boundary))
    return results


@given(st.lists(st.integers(1, SIZE - 1), unique=True, max_size=6).map(sorted))
@example([STARTS[3] + 1, STARTS[3] + 2, STARTS[3] + 3])
@example([SIZE - 2, SIZE - 1])
@example(STARTS[1:4])
def test_each_batch_is_in_one_split_and_an_empty_split_has_no_boundary(cuts: list[int]) -> None:
    results = read(cuts)
    assert [at for batches, _ in results for at in batches] == STARTS[:-1]
    for batches, boundary in results:
        assert (boundary is None) == (not batches)
        if boundary is not None:
            assert boundary.begin == batches[0]
            assert boundary.end == STARTS[STARTS.index(batches[-1]) + 1]
            assert boundary.batches == len(batches)
    assert not needs_whole_read(boundary for _, boundary in results)
