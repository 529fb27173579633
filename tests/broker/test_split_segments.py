"""A segment with offsets too far from its base offset, which a start splits, as UnifiedLog of 3.9.1
and 4.4.0 did."""

from __future__ import annotations

from pathlib import Path

from tests.support.broken_partitions import CLOSED, ORDERS, name, sample
from tests.support.samples import kfmt
from tests.support.segments import positions, with_bytes

FAR = 1 << 32


def files_with_far_batch() -> dict[str, bytes]:
    """The first segment of orders-0; the second under a later name, without indexes and with its
    last batch far away."""
    files = sample(ORDERS)
    log = files[name(CLOSED)]
    far_log = with_bytes(log, positions(log)[-2], FAR.to_bytes(8, "big"))
    first = {name(0, suffix): files[name(0, suffix)] for suffix in (".log", ".index", ".timeindex")}
    return {**first, name(500): far_log}


def test_a_segment_that_is_split_while_it_opens_stays(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    for file_name, content in files_with_far_batch().items():
        (partition / file_name).write_bytes(content)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 1500\n")
    result = kfmt("check", tmp_path, "--json", "--jobs", "1")
    starts = {row["after"]: row for row in result.of("broker_start") if row["topic"] == "orders"}
    deleted = {after: [Path(file).name for file in row["deleted"]] for after, row in starts.items()}
    assert deleted == {"crash": [name(500)], "clean-shutdown": []}
    assert {row["log_end_offset"] for row in starts.values()} == {FAR + 20}
