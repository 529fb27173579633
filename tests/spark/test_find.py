"""`kfmt pipeline find` finds what `kfmt find` finds."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import ORDERS, kfmt
from tests.support.spark_job import Job
from tests.support.spark_rows import with_index
from tools.kafka import SAMPLES

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="java not found"),
]
BROKER = SAMPLES / "kafka-3.9.1-broker1"
DAMAGED = SAMPLES.parent / "damaged_segments"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
NAMES = (
    *("topic", "partition", "position", "size", "base_offset", "last_offset", "offset"),
    *("record_position", "via"),
)
Row = tuple[Any, ...]


def rows_from_find(path: Path, *options: str) -> list[Row]:
    rows = kfmt("find", path, *options, "--json").of("found")
    root = path if path.is_dir() else Path()
    files = [str((root / row["file"]).absolute()) for row in rows]
    times = [None if row["timestamp"] in (None, -1) else row["timestamp"] for row in rows]
    matches = zip(files, times, rows, strict=True)
    return sorted(
        ((file, time, *(row[name] for name in NAMES)) for file, time, row in matches), key=sort_key
    )


def rows_from_job(to: Path) -> list[Row]:
    rows = map(json.loads, (to / "found/part-0.jsonl").read_text().splitlines())
    matches = []
    for row in rows:
        timestamp = row["timestamp"]
        time = timestamp and (datetime.fromisoformat(timestamp) - EPOCH) // timedelta(
            milliseconds=1
        )
        matches.append((row["file"], time, *(row[name] for name in NAMES)))
    return sorted(matches, key=sort_key)


def sort_key(row: Row) -> tuple[Any, ...]:
    return row[0], row[4], row[8] or 0


@pytest.mark.parametrize(
    ("path", "options"),
    [
        (BROKER, ["--key", "customer-7"]),
        (BROKER, ["--value", "~[13]7.*a"]),
        (BROKER, ["--key", "~9$", "--from-offset", "100", "--to-offset", "700"]),
        (BROKER, ["--header", "h=x"]),
        (BROKER, ["--producer-id", "1000"]),
        (BROKER, ["--producer-id", "1000", "--key", "~1"]),
        (BROKER, ["--from-time", "2023-11-14T22:20", "--to-time", "2023-11-14T22:21"]),
        (BROKER, ["--key", "~^customer", "--last", "3"]),
        (BROKER, ["--key", "~.", "--isolation", "read_committed"]),
        (SAMPLES / "kafka-2.8.2", ["--value", "~99"]),
        (SAMPLES / "kafka-0.8.2.2", ["--value", "~99"]),
        (DAMAGED, ["--key", "customer-7"]),
    ],
    ids=lambda argument: " ".join(argument) if isinstance(argument, list) else argument.name,
)
def test_the_matches_are_those_of_find(
    job: Job, tmp_path: Path, path: Path, options: list[str]
) -> None:
    to = tmp_path / "to"
    result = job("find", path, *options, "--to", to, "--format", "json", code=None)
    expected = rows_from_find(path, *options)
    assert rows_from_job(to) == expected
    assert f"{len(expected):,} place".replace(",", " ") in result.out
    assert result.code == (1 if path == DAMAGED or not expected else 0)


def test_a_log_in_parts(job: Job, tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    log = with_index(tmp_path / "in", data, data)
    to = tmp_path / "to"
    for _ in range(2):  # the second time from stored results
        options = ("--format", "json", "--max-split-bytes", "3000")
        assert job("find", log, "--key", "customer-7", "--to", to, *options).out
        assert rows_from_job(to) == rows_from_find(log, "--key", "customer-7")
    assert len(list((to / "_kfmt/done").iterdir())) > 3


def test_nothing_found_and_nothing_asked(job: Job, tmp_path: Path) -> None:
    to = tmp_path / "to"
    result = job("find", ORDERS, "--key", "nobody", "--to", to, code=1)
    assert "0 places" in result.out
    assert (to / "found/part-0.parquet").exists()
    message = job("find", ORDERS, "--to", tmp_path / "other", code=2).err
    assert "give a record filter such as --key" in message
    message = job("find", ORDERS, "--key", "other", "--to", to, code=2).err
    assert "contains results of a run with other options" in message
