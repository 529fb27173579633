"""The buckets of tiered storage that tests read."""

from __future__ import annotations

from pathlib import Path

from tests.support.samples import Done, kfmt
from tools.kafka import ROOT, SAMPLES

KEPT = ROOT / "tests/kept/aiven-1.0.0"
KEY = KEPT / "encrypted/test-key.pkcs8.der"
BROKER = SAMPLES / "kafka-3.9.1-broker1"
TXN = "txn-SK1yrsvLS6GVcvsGssS1uA/0"
FIRST = f"{0:020}-a2ZtdAAAAAAAAAAAAAAD6A"


def run_kfmt(*arguments: str | Path, cwd: Path, key: str = "") -> Done:
    """Run a command; check that it neither names nor leaves its temporary directory's files."""
    temporary = cwd / "made"
    temporary.mkdir(exist_ok=True)
    if key:
        result = kfmt(*arguments, cwd=cwd, TMPDIR=str(temporary), KFMT_RSM_PRIVATE_KEY=key)
    else:
        result = kfmt(*arguments, cwd=cwd, TMPDIR=str(temporary))
    assert str(temporary) not in result.out + result.err
    assert list(temporary.iterdir()) == []
    return result


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
