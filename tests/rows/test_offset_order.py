"""Offsets that no checksum confirms are not believed."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from kfmt_cli.commands.each_partition import iter_log_blocks
from kfmt_cli.disk.directory_listing import list_directory
from kfmt_cli.rows.offset_order import in_order_mask
from tests.broker.test_transaction_evidence import PARTITIONS, copy_partition
from tests.support.samples import kfmt
from tests.support.segments import positions

LOG = "00000000000000000000.log"


def test_undamaged_logs_are_in_order() -> None:
    for partition in PARTITIONS:
        for _, block in iter_log_blocks(list_directory(str(partition)).logs):
            assert in_order_mask(block.batches).all()


@pytest.mark.parametrize("change", [1, 5, 64, 1 << 20, -1, -5, -64])
def test_a_batch_with_another_base_offset_is_the_only_one_that_is_out_of_order(
    change: int, tmp_path: Path
) -> None:
    """Wherever it is, and whether it claims a later or an earlier offset."""
    source = PARTITIONS[0] / LOG
    data = source.read_bytes()
    starts = [start for start, _ in pairwise(positions(data))]
    for index in range(1, len(starts) - 1, 7):
        start = starts[index]
        offset = struct.unpack_from(">q", data, start)[0]
        if offset + change < 0:
            continue
        new = data[:start] + struct.pack(">q", offset + change) + data[start + 8 :]
        (tmp_path / LOG).write_bytes(new)
        ((_, block),) = iter_log_blocks(list_directory(str(tmp_path)).logs)
        out_of_order = np.flatnonzero(~in_order_mask(block.batches)).tolist()
        moves_into_neighbour = abs(change) == 1
        assert out_of_order == [index] or (moves_into_neighbour and len(out_of_order) <= 1)


def test_the_log_end_is_that_of_undamaged_batches(tmp_path: Path) -> None:
    """The last batch of an earlier segment claims an offset far beyond the log."""
    partition = copy_partition(PARTITIONS[0], tmp_path / "txn-0", with_other_files=True)
    data = bytearray((partition / LOG).read_bytes())
    last = positions(bytes(data))[-2]
    data[last + 24] ^= 0x10  # of the last offset delta
    (partition / LOG).write_bytes(bytes(data))
    (transactions,) = kfmt("txn", partition, "--json").of("transactions")
    assert transactions["log_end_offset"] == transactions["last_stable_offset"] == 736
    (stat,) = kfmt("stat", partition, "--deep", "--json").of("stat")
    assert stat["last_offset"] == 735
