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


def ran(*arguments: str | Path, cwd: Path, key: str = "") -> Done:
    """A command, which says nothing of where segments were put together, and leaves nothing."""
    rest = cwd / "made"
    rest.mkdir(exist_ok=True)
    if key:
        done = kfmt(*arguments, cwd=cwd, TMPDIR=str(rest), KFMT_RSM_PRIVATE_KEY=key)
    else:
        done = kfmt(*arguments, cwd=cwd, TMPDIR=str(rest))
    assert str(rest) not in done.out + done.err
    assert list(rest.iterdir()) == []
    return done


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
