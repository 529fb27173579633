"""`kfmt hex` of files that are not logs: entries, what is left over, zeros and checksums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import ORDERS, TXN, kfmt

INDEX = ORDERS.with_suffix(".index").read_bytes()
SNAPSHOT = (TXN.parent / f"{736:020}.snapshot").read_bytes()


def rows(file: Path, *options: str) -> list[dict[str, Any]]:
    return kfmt("hex", file, "--json", *options).of("field")


def index(folder: Path, data: bytes, base: int = 0) -> Path:
    file = folder / f"{base:020}.index"
    file.write_bytes(data)
    return file


def test_entries_say_the_offset_that_they_mean(tmp_path: Path) -> None:
    found = rows(index(tmp_path, INDEX, 100))
    offsets = [row["meaning"] for row in found if row["path"].endswith("relative_offset")]
    assert offsets[:3] == ["→ offset 139", "→ offset 159", "→ offset 179"]
    assert len(offsets) == len(INDEX) // 8
    heads = [row["position"] for row in found if "." not in row["path"]]
    assert heads == list(range(0, len(INDEX), 8))


@pytest.mark.parametrize(
    ("more", "meaning", "fault"),
    [
        (bytes(80), "zeros after the last entry, preallocated by the broker", None),
        (b"\1\2\3", None, "3 trailing bytes: a partial entry (8 bytes each)"),
        (bytes(7), None, None),
    ],
)
def test_what_is_left_over_after_the_entries(
    more: bytes, meaning: str | None, fault: str | None, tmp_path: Path
) -> None:
    found = rows(index(tmp_path, INDEX + more))
    rest = found[-1]
    assert (rest["path"], rest["position"], rest["size"]) == ("rest", len(INDEX), len(more))
    if fault is None and meaning is None:
        meaning = "zeros after the last entry, preallocated by the broker"
    assert (rest["meaning"], rest["fault"]) == (meaning, fault)


def test_one_entry_of_a_file_is_shown_by_number_and_by_byte(tmp_path: Path) -> None:
    file = index(tmp_path, INDEX)
    for option, value in (("--entry", "3"), ("--position", "24"), ("--position", "31")):
        found = rows(file, option, value)
        assert found[0]["position"] == 24
        assert sum(row["size"] for row in found if row["hex"]) == 8


def test_the_checksum_of_a_snapshot_is_said_to_match_or_not(tmp_path: Path) -> None:
    file = tmp_path / f"{736:020}.snapshot"
    for data, mark in ((SNAPSHOT, "✓"), (SNAPSHOT[:-1] + b"\7", "✗")):
        file.write_bytes(data)
        (crc,) = (row for row in rows(file) if row["path"].endswith("crc"))
        assert str(crc["meaning"] or crc["fault"]).startswith(mark) or mark in str(crc)
        last = len(data) - 1
        assert f"bytes 6..{last:x}" in str(crc)
    file.write_bytes(SNAPSHOT + b"abc")
    assert rows(file)[-1]["fault"] == "3 trailing bytes: a partial entry (46 bytes each)"
    file.write_bytes(SNAPSHOT[:4])
    assert any(row["fault"] for row in rows(file))
