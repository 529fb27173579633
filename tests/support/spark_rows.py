"""Rows of `kfmt dump` and of Spark's tables in one form; logs that can be cut."""

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
    """The records that `kfmt dump` shows of files of a suffix: logs, or KRaft snapshots."""
    done = kfmt("dump", *paths, "--records", "--json", "--bytes", "hex")
    assert done.code == code, done.err
    top = paths[0] if len(paths) == 1 and paths[0].is_dir() else Path()
    found: list[Key] = []
    batch: dict[str, Any] = {}
    for row in done.rows:
        if row["type"] == "batch":
            batch = row
        elif row["type"] == "record":
            found.append(_of_dump(top, batch, row))
    found = [row for row in found if row[0].endswith(suffix)]
    return sorted(found, key=_order)


def _of_dump(top: Path, batch: dict[str, Any], row: dict[str, Any]) -> Key:
    time = None if row["timestamp"] in (None, -1) else row["timestamp"] * 1000
    headers = None
    if row["headers"] is not None:
        headers = tuple(
            (bytes.fromhex(item["key"]).decode(errors="replace"), item["value"])
            for item in row["headers"]
        )
    produced = batch["producer_id"] not in (None, -1)
    return (
        str((top / row["file"]).absolute()),
        row["offset"],
        time,
        row["timestamp_type"],
        row["key"],
        row["value"],
        headers,
        batch["producer_id"] if produced else None,
        batch["producer_epoch"] if produced else None,
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


def of_rows(rows: Iterable[dict[str, Any]]) -> list[Key]:
    """Rows of the table `records`, the timestamp as `micros`."""
    found: list[Key] = []
    for row in rows:
        headers = row["headers"]
        if headers is not None:
            headers = tuple((header["key"], _hex(header["value"])) for header in headers)
        values = {**row, "key": _hex(row["key"]), "value": _hex(row["value"]), "headers": headers}
        found.append(tuple(values[name] for name in COLUMNS))
    return sorted(found, key=_order)


def exported(folder: Path) -> list[Key]:
    """The records below an export of Parquet files."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    rows: list[dict[str, Any]] = []
    for file in folder.rglob("records/**/*.parquet"):
        table = pq.ParquetFile(file).read()
        table = table.append_column("micros", table["timestamp"].cast(pa.int64()))
        rows += table.drop_columns(["timestamp"]).to_pylist()
    return of_rows(rows)


def _hex(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).hex()


def _order(key: Key) -> tuple[object, ...]:
    return key[0], key[1], key[13], str(key[4])


def with_index(folder: Path, data: bytes, whole: bytes) -> Path:
    """A log with these bytes and an index of every batch that the whole one has."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / ORDERS.name
    log.write_bytes(data)
    places = positions(whole)[1:-1]
    entries = [(struct.unpack_from(">q", whole, at)[0], at) for at in places]
    log.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    return log


def close(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a directory not be listed, even by root, who may list all of them."""
    listed = os.scandir

    def scandir(path: str) -> Any:
        if path == str(folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return listed(path)

    monkeypatch.setattr("kfmt_cli.core.stores.os.scandir", scandir)
