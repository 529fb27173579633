"""A batch at the lowest offset that there is."""

from __future__ import annotations

from pathlib import Path

from tests.support.samples import ORDERS, kfmt
from tests.support.segments import positions


def test_nothing_comes_before_the_lowest_offset(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    log = tmp_path / "a.log"
    log.write_bytes((-(1 << 63)).to_bytes(8, "big", signed=True) + data[8 : positions(data)[1]])
    codes = [row["code"] for row in kfmt("verify-crc", log, "--json").of("finding")]
    assert "offsets-backwards" not in codes
