"""The summary of a run: what the results of files add up to."""

from __future__ import annotations

from tests.support.samples import ORDERS, kfmt
from tools.kafka import ROOT

N_DAMAGED = 7


def test_the_last_line_counts_the_files_with_errors() -> None:
    damaged = ROOT / "damaged_segments"
    for paths in ([damaged], [damaged, ORDERS], [damaged / "flipped-bit-0"], [ORDERS]):
        rows = kfmt("verify-crc", *paths, "--json").of("file")
        n_damaged = sum(row["errors"] > 0 for row in rows)
        last_line = kfmt("verify-crc", *paths).out.splitlines()[-1]
        assert last_line.split(" segment")[0] == str(len(rows))
        verdict = f", {n_damaged} damaged" if n_damaged else ", no damage"
        assert verdict in last_line
    result = kfmt("verify-crc", damaged, damaged / "nothing")
    assert f", {N_DAMAGED} of these damaged, 1 not read" in result.out
