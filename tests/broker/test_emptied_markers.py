"""A transaction marker that the cleaner emptied: a batch without records, which brokers read."""

from __future__ import annotations

import shutil
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.rebuild import with_crc
from tests.support.samples import TXN, kfmt
from tests.support.segments import int32, positions, with_bytes


@pytest.mark.parametrize("which", [0, -1])
def test_a_broker_recovers_a_log_with_an_emptied_marker(which: int, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(TXN.parent, tmp_path / "txn-0"))
    log = max(directory.glob("*.log"))
    data = log.read_bytes()
    batches = [data[start:end] for start, end in pairwise(positions(data))]
    markers = [i for i, batch in enumerate(batches) if batch[22] & 0x20]
    emptied = with_bytes(batches[markers[which]][:61], 8, int32(49))
    batches[markers[which]] = with_crc(with_bytes(emptied, 57, struct.pack(">i", 0)))
    log.write_bytes(b"".join(batches))
    for file in directory.glob(f"{log.stem}.*index"):
        file.unlink()
    starts = kfmt("check", directory, "--json").of("broker_start")
    assert [(row["starts"], row["log_end_offset"]) for row in starts] == [(True, 736)] * 2
