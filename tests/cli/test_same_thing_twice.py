"""What two paths lead to is read, shown and counted once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tools.kafka import ROOT, SAMPLES

BUCKET = ROOT / "tests/kept/aiven-1.0.0/plain"
OF_BUCKET = BUCKET / "tiered"
(OBJECT,) = OF_BUCKET.rglob(f"{357:020}-*.log")
BROKER = SAMPLES / "kafka-3.9.1-broker1"

CASES = {
    "directory, partition": (BROKER, (BROKER, BROKER / "orders-0")),
    "partition, directory": (BROKER, (BROKER / "orders-0", BROKER)),
    "directory, log": (BROKER, (BROKER, BROKER / f"orders-0/{480:020}.log")),
    "log, directory": (BROKER, (BROKER / f"orders-0/{480:020}.log", BROKER)),
    "bucket, part": (BUCKET, (BUCKET, OF_BUCKET)),
    "part, bucket": (BUCKET, (OF_BUCKET, BUCKET)),
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


def _counted(arguments: tuple[str | Path, ...]) -> Counter[str]:
    """How often each object and message comes, whatever the names of its files."""
    done = kfmt(*arguments, "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    for row in rows:
        for name in ("file", "log_dir", "paths", "files", "elapsed_s"):
            row.pop(name, None)
    words = [line.rpartition(": ")[2] for line in done.err.splitlines()]
    return Counter([*(json.dumps(row, sort_keys=True) for row in rows), *words])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("case", CASES)
def test_what_two_paths_lead_to_comes_once(case: str, command: tuple[str, ...]) -> None:
    alone, paths = CASES[case]
    assert _counted((*command, *paths)) == _counted((*command, alone))


@pytest.mark.parametrize("case", CASES)
def test_it_is_exported_once(case: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    alone, paths = CASES[case]
    outs = [
        kfmt("export", *each, "--to", tmp_path / str(i)) for i, each in enumerate(((alone,), paths))
    ]
    assert [done.code for done in outs] == [0, 0]
    assert outs[0].out.splitlines()[-1] == outs[1].out.splitlines()[-1]
