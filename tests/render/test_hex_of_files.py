"""`kfmt hex` of files that are not logs: entries, trailing bytes, zeros and checksums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import ORDERS, TXN, kfmt

INDEX = ORDERS.with_suffix(".index").read_bytes()
SNAPSHOT = (TXN.parent / f"{736:020}.snapshot").read_bytes()


def field_rows(file: Path, *options: str) -> list[dict[str, Any]]:
    return kfmt("hex", file, "--json", *options).of("field")


def write_index(directory: Path, data: bytes, base_offset: int = 0) -> Path:
    file = directory / f"{base_offset:020}.index"
    file.write_bytes(data)
    return file


def test_entries_say_the_offset_that_they_mean(tmp_path: Path) -> None:
    fields = field_rows(write_index(tmp_path, INDEX, 100))
    offsets = [row["meaning"] for row in fields if row["path"].endswith("relative_offset")]
    assert offsets[:3] == ["→ offset 139", "→ offset 159", "→ offset 179"]
    assert len(offsets) == len(INDEX) // 8
    entry_positions = [row["position"] for row in fields if "." not in row["path"]]
    assert entry_positions == list(range(0, len(INDEX), 8))


@pytest.mark.parametrize(
    ("trailing", "meaning", "fault"),
    [
        (bytes(80), "zeros after the last entry, preallocated by the broker", None),
        (b"\1\2\3", None, "3 trailing bytes: a partial entry (8 bytes each)"),
        (bytes(7), None, None),
    ],
)
def test_trailing_bytes_after_the_entries_are_shown(
    trailing: bytes, meaning: str | None, fault: str | None, tmp_path: Path
) -> None:
    fields = field_rows(write_index(tmp_path, INDEX + trailing))
    last_field = fields[-1]
    assert (last_field["path"], last_field["position"], last_field["size"]) == (
        "rest",
        len(INDEX),
        len(trailing),
    )
    if fault is None and meaning is None:
        meaning = "zeros after the last entry, preallocated by the broker"
    assert (last_field["meaning"], last_field["fault"]) == (meaning, fault)


def test_one_entry_of_a_file_is_shown_by_number_and_by_byte(tmp_path: Path) -> None:
    file = write_index(tmp_path, INDEX)
    for option, value in (("--entry", "3"), ("--position", "24"), ("--position", "31")):
        fields = field_rows(file, option, value)
        assert fields[0]["position"] == 24
        assert sum(row["size"] for row in fields if row["hex"]) == 8


def test_the_checksum_of_a_snapshot_is_said_to_match_or_not(tmp_path: Path) -> None:
    file = tmp_path / f"{736:020}.snapshot"
    for data, mark in ((SNAPSHOT, "✓"), (SNAPSHOT[:-1] + b"\7", "✗")):
        file.write_bytes(data)
        (crc,) = (row for row in field_rows(file) if row["path"].endswith("crc"))
        assert str(crc["meaning"] or crc["fault"]).startswith(mark) or mark in str(crc)
        last = len(data) - 1
        assert f"bytes 6..{last:x}" in str(crc)
    file.write_bytes(SNAPSHOT + b"abc")
    assert field_rows(file)[-1]["fault"] == "3 trailing bytes: a partial entry (46 bytes each)"
    file.write_bytes(SNAPSHOT[:4])
    assert any(row["fault"] for row in field_rows(file))
