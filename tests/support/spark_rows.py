"""Rows of `kfmt dump` and of Spark's tables in one form; logs that Spark can split."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import ORDERS, kfmt
from tests.support.segments import positions

Key = tuple[Any, ...]


def dumped(*paths: Path, code: int = 0, suffix: str = ".log") -> list[Key]:
    """The records of `kfmt dump` of files with a suffix: logs, or KRaft snapshots."""
    result = kfmt("dump", *paths, "--records", "--json", "--bytes", "hex")
    assert result.code == code, result.err
    root = paths[0] if len(paths) == 1 and paths[0].is_dir() else Path()
    rows: list[Key] = []
    batch: dict[str, Any] = {}
    for row in result.rows:
        if row["type"] == "batch":
            batch = row
        elif row["type"] == "record":
            rows.append(_row_of_dump(root, batch, row))
    rows = [row for row in rows if row[0].endswith(suffix)]
    return sorted(rows, key=_order)


def _row_of_dump(root: Path, batch: dict[str, Any], row: dict[str, Any]) -> Key:
    timestamp = None if row["timestamp"] in (None, -1) else row["timestamp"] * 1000
    headers = None
    if row["headers"] is not None:
        headers = tuple(
            (bytes.fromhex(header["key"]).decode(errors="replace"), header["value"])
            for header in row["headers"]
        )
    has_producer = batch["producer_id"] not in (None, -1)
    return (
        str((root / row["file"]).absolute()),
        row["offset"],
        timestamp,
        row["timestamp_type"],
        row["key"],
        row["value"],
        headers,
        batch["producer_id"] if has_producer else None,
        batch["producer_epoch"] if has_producer else None,
        row["sequence"] if row["sequence"] not in (None, -1) else None,
        batch["attributes"]["transactional"],
        batch["attributes"]["control"],
        row["position"],
        row["batch_position"],
    )


COLUMNS = (
    *("file", "offset", "micros", "timestamp_type", "key", "value", "headers", "producer_id"),
    *("producer_epoch", "sequence", "transactional", "control", "position", "batch_position"),
)


def record_keys(rows: Iterable[dict[str, Any]]) -> list[Key]:
    """Rows of the table `records`, the timestamp as `micros`."""
    keys: list[Key] = []
    for row in rows:
        headers = row["headers"]
        if headers is not None:
            headers = tuple((header["key"], _hex(header["value"])) for header in headers)
        values = {**row, "key": _hex(row["key"]), "value": _hex(row["value"]), "headers": headers}
        keys.append(tuple(values[name] for name in COLUMNS))
    return sorted(keys, key=_order)


def exported(directory: Path) -> list[Key]:
    """The records below an export of Parquet files."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    rows: list[dict[str, Any]] = []
    for file in directory.rglob("records/**/*.parquet"):
        table = pq.ParquetFile(file).read()
        table = table.append_column("micros", table["timestamp"].cast(pa.int64()))
        rows += table.drop_columns(["timestamp"]).to_pylist()
    return record_keys(rows)


def _hex(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).hex()


def _order(key: Key) -> tuple[object, ...]:
    return key[0], key[1], key[13], str(key[4])


def with_index(directory: Path, data: bytes, undamaged: bytes) -> Path:
    """A log with these bytes and an index of every batch of the undamaged log."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / ORDERS.name
    log.write_bytes(data)
    starts = positions(undamaged)[1:-1]
    entries = [(struct.unpack_from(">q", undamaged, start)[0], start) for start in starts]
    log.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    return log


def make_unlistable(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a directory unlistable, even for root."""
    original_scandir = os.scandir

    def scandir(path: str) -> Any:
        if path == str(directory):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return original_scandir(path)

    monkeypatch.setattr("kfmt_cli.core.stores.os.scandir", scandir)
