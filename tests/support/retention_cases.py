"""Partitions and settings of which retention is foretold."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tests.support.broken_partitions import ORDERS, TXN, name, sample
from tests.support.rebuild import with_crc
from tests.support.segments import positions, with_bytes
from tools.observe import Files

TIMES = ".timeindex"
LAG = {"min.compaction.lag.ms": str(10**15), "max.compaction.lag.ms": str(2**63 - 1)}
"""So that the cleaner does nothing."""
# When the broker starts, an hour after the records; timestamps of orders-0 are four minutes apart
# from segment to segment, so that ages hang on the broker's clock alone.
NOW = 1_700_005_000_000


def ago(timestamp: int) -> int:
    """How many milliseconds before the broker's start that was."""
    return NOW - timestamp


@dataclass(frozen=True)
class Case:
    """A partition, the topic's settings, and what options say the same to kfmt."""

    what: str
    files: Files
    settings: dict[str, str]
    modified: dict[str, int] = field(default_factory=dict)
    """When files were changed last, in milliseconds; others at the broker's start."""
    beside: Files = field(default_factory=dict)


def last_times() -> list[int]:
    """The last timestamp of each time index of orders-0."""
    files = sample(ORDERS)
    names = sorted(file for file in files if file.endswith(TIMES))
    return [struct.unpack(">q", files[name][-12:-4])[0] for name in names]


def late(base: int, by: int) -> Files:
    """orders-0 with a batch whose largest timestamp is in the future, as its time index says."""
    files = dict(sample(ORDERS))
    data = files[name(base)]
    start, end = positions(data)[5:7]
    at = NOW + by
    batch = with_crc(with_bytes(data[start:end], 35, struct.pack(">q", at)))
    files[name(base)] = data[:start] + batch + data[end:]
    index = files[name(base, TIMES)]
    files[name(base, TIMES)] = index[:-12] + struct.pack(">qi", at, 119)
    return files


def cases() -> Iterator[Case]:
    """Every case; a minute more or less of a start does not matter."""
    orders, txn = dict(sample(ORDERS)), dict(sample(TXN))
    times = last_times()
    between = [ago((a + b) // 2) for a, b in pairwise(times)]
    size = sum(len(content) for name, content in orders.items() if name.endswith(".log"))
    first = len(orders[name(0)])
    ms, sizes = "retention.ms", "retention.bytes"
    day = str(24 * 3600 * 1000)
    yield Case("nothing is set", orders, {ms: "-1", sizes: "-1"})
    for i, age in enumerate(between):
        yield Case(f"{i + 1} expired", orders, {ms: str(age), sizes: "-1"})
    yield Case("all expired", orders, {ms: day, sizes: "-1"})
    for what, limit in (
        ("as large as it is", size),
        ("one byte less", size - 1),
        ("without the first", size - first),
        ("half", size // 2),
        ("nothing", 0),
    ):
        yield Case(f"bytes: {what}", orders, {ms: "-1", sizes: str(limit)})
    yield Case("both, time first", orders, {ms: str(between[3]), sizes: str(size - first)})
    yield Case("both, size first", orders, {ms: str(between[0]), sizes: str(size // 2)})
    yield Case("the future in the middle", late(480, 10**9), {ms: day, sizes: "-1"})
    yield Case("the future in the first", late(0, 10**9), {ms: day, sizes: "-1"})
    zeros = {**orders, name(480, TIMES): orders[name(480, TIMES)] + bytes(120)}
    yield Case("zeros, not the first", zeros, {ms: str(ago(0) - 10**9), sizes: "-1"})
    first_zeros = {**orders, name(0, TIMES): bytes(120)}
    yield Case("zeros in the first", first_zeros, {ms: str(ago(0) - 10**9), sizes: "-1"})
    for what, changed in (
        ("empty", {**orders, name(0, TIMES): b""}),
        ("missing", {text: c for text, c in orders.items() if text != name(0, TIMES)}),
    ):
        yield Case(f"time index {what}, a young file", changed, {ms: day, sizes: "-1"})
        old = {name(0): NOW - 10 * 24 * 3600 * 1000}
        yield Case(f"time index {what}, an old file", changed, {ms: day, sizes: "-1"}, old)
    yield Case("transactions", txn, {ms: "1", sizes: "-1"})
    open_ = {name: c for name, c in txn.items() if not name.endswith(".snapshot")}
    data = open_[name(635)]
    open_[name(635)] = data[: positions(data)[-3]]
    yield Case("cut, without snapshots", open_, {ms: "1", sizes: "-1"})
    yield Case("compact", orders, {ms: day, "cleanup.policy": "compact", **LAG})
    both = {ms: str(between[2]), "cleanup.policy": "compact,delete", **LAG}
    yield Case("compact and delete", orders, both)
    for offset in (100, 240, 500, 1500):
        start = f"0\n1\ngiven 0 {offset}\n".encode()
        beside = {"log-start-offset-checkpoint": start}
        yield Case(f"the log starts at {offset}", orders, {ms: "-1", sizes: "-1"}, {}, beside)
    empty = {**{k: v for k, v in orders.items() if not k.startswith(f"{1440:020}")}}
    empty |= {name(1440): b"", name(1440, ".index"): b"", name(1440, TIMES): b""}
    yield Case("the active one is empty", empty, {ms: day, sizes: "-1"})
