"""A file that two paths lead to is read, shown and counted once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tools.kafka import ROOT, SAMPLES

BUCKET = ROOT / "tests/kept/aiven-1.0.0/plain"
TIERED_DIRECTORY = BUCKET / "tiered"
(OBJECT,) = TIERED_DIRECTORY.rglob(f"{357:020}-*.log")
BROKER = SAMPLES / "kafka-3.9.1-broker1"

CASES = {
    "directory, partition": (BROKER, (BROKER, BROKER / "orders-0")),
    "partition, directory": (BROKER, (BROKER / "orders-0", BROKER)),
    "directory, log": (BROKER, (BROKER, BROKER / f"orders-0/{480:020}.log")),
    "log, directory": (BROKER, (BROKER / f"orders-0/{480:020}.log", BROKER)),
    "bucket, part": (BUCKET, (BUCKET, TIERED_DIRECTORY)),
    "part, bucket": (BUCKET, (TIERED_DIRECTORY, BUCKET)),
    "bucket, object": (BUCKET, (BUCKET, OBJECT)),
    "object, bucket": (BUCKET, (OBJECT, BUCKET)),
}
COMMANDS = (
    ("cat",),
    ("check",),
    ("dump", "--records"),
    ("find", "--offset", "300"),
    ("find", "--timestamp", "2020-01-01"),
    ("index-check",),
    ("stat",),
    ("txn",),
    ("verify-crc",),
    ("sql", 'SELECT topic, partition, "offset" FROM records'),
)


def _count_rows_and_messages(arguments: tuple[str | Path, ...]) -> Counter[str]:
    """The count of each JSON object and message, without the names of files."""
    result = kfmt(*arguments, "--json")
    rows = [json.loads(line) for line in result.out.splitlines()]
    for row in rows:
        for name in ("file", "log_dir", "paths", "files", "elapsed_s"):
            row.pop(name, None)
    messages = [line.rpartition(": ")[2] for line in result.err.splitlines()]
    return Counter([*(json.dumps(row, sort_keys=True) for row in rows), *messages])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("case", CASES)
def test_a_file_of_two_paths_is_shown_once(case: str, command: tuple[str, ...]) -> None:
    single_path, paths = CASES[case]
    assert _count_rows_and_messages((*command, *paths)) == _count_rows_and_messages(
        (*command, single_path)
    )


@pytest.mark.parametrize("case", CASES)
def test_it_is_exported_once(case: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    single_path, paths = CASES[case]
    results = [
        kfmt("export", *inputs, "--to", tmp_path / str(i))
        for i, inputs in enumerate(((single_path,), paths))
    ]
    assert [result.code for result in results] == [0, 0]
    assert results[0].out.splitlines()[-1] == results[1].out.splitlines()[-1]
