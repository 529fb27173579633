"""Partitions and settings for which kfmt predicts retention."""

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
NO_CLEANING = {"min.compaction.lag.ms": str(10**15), "max.compaction.lag.ms": str(2**63 - 1)}
"""Settings with which the cleaner does nothing."""
# The broker's start, an hour after the records. Timestamps of orders-0 are four minutes apart from
# segment to segment, so that ages depend on the broker's clock alone.
NOW = 1_700_005_000_000


def age(timestamp: int) -> int:
    """The milliseconds from a timestamp to the broker's start."""
    return NOW - timestamp


@dataclass(frozen=True)
class Case:
    """A partition and the topic's settings."""

    description: str
    files: Files
    settings: dict[str, str]
    modified: dict[str, int] = field(default_factory=dict)
    """Modification times of files in milliseconds; other files' is the broker's start."""
    beside: Files = field(default_factory=dict)


def last_times() -> list[int]:
    """The last timestamp of each time index of orders-0."""
    files = sample(ORDERS)
    names = sorted(file for file in files if file.endswith(TIMES))
    return [struct.unpack(">q", files[name][-12:-4])[0] for name in names]


def with_future_timestamp(base: int, milliseconds: int) -> Files:
    """orders-0 with a batch whose largest timestamp is in the future, and with its time index."""
    files = dict(sample(ORDERS))
    data = files[name(base)]
    start, end = positions(data)[5:7]
    timestamp = NOW + milliseconds
    batch = with_crc(with_bytes(data[start:end], 35, struct.pack(">q", timestamp)))
    files[name(base)] = data[:start] + batch + data[end:]
    index = files[name(base, TIMES)]
    files[name(base, TIMES)] = index[:-12] + struct.pack(">qi", timestamp, 119)
    return files


def cases() -> Iterator[Case]:
    """Every case; none depends on a minute more or less of a start."""
    orders, txn = dict(sample(ORDERS)), dict(sample(TXN))
    times = last_times()
    ages = [age((left + right) // 2) for left, right in pairwise(times)]
    size = sum(len(content) for name, content in orders.items() if name.endswith(".log"))
    first_size = len(orders[name(0)])
    ms, sizes = "retention.ms", "retention.bytes"
    day = str(24 * 3600 * 1000)
    yield Case("nothing is set", orders, {ms: "-1", sizes: "-1"})
    for i, retention_ms in enumerate(ages):
        yield Case(f"{i + 1} expired", orders, {ms: str(retention_ms), sizes: "-1"})
    yield Case("all expired", orders, {ms: day, sizes: "-1"})
    for what, limit in (
        ("as large as it is", size),
        ("one byte less", size - 1),
        ("without the first", size - first_size),
        ("half", size // 2),
        ("nothing", 0),
    ):
        yield Case(f"bytes: {what}", orders, {ms: "-1", sizes: str(limit)})
    yield Case("both, time first", orders, {ms: str(ages[3]), sizes: str(size - first_size)})
    yield Case("both, size first", orders, {ms: str(ages[0]), sizes: str(size // 2)})
    yield Case(
        "the future in the middle",
        with_future_timestamp(480, 10**9),
        {ms: day, sizes: "-1"},
    )
    yield Case("the future in the first", with_future_timestamp(0, 10**9), {ms: day, sizes: "-1"})
    zeros = {**orders, name(480, TIMES): orders[name(480, TIMES)] + bytes(120)}
    yield Case("zeros, not the first", zeros, {ms: str(age(0) - 10**9), sizes: "-1"})
    first_zeros = {**orders, name(0, TIMES): bytes(120)}
    yield Case("zeros in the first", first_zeros, {ms: str(age(0) - 10**9), sizes: "-1"})
    for what, changed in (
        ("empty", {**orders, name(0, TIMES): b""}),
        ("missing", {text: content for text, content in orders.items() if text != name(0, TIMES)}),
    ):
        yield Case(f"time index {what}, a young file", changed, {ms: day, sizes: "-1"})
        modified = {name(0): NOW - 10 * 24 * 3600 * 1000}
        yield Case(f"time index {what}, an old file", changed, {ms: day, sizes: "-1"}, modified)
    for what, lost in (
        ("the first", (name(0, TIMES), name(0, ".index"))),
        ("any", (TIMES, ".index")),
    ):
        changed = {k: v for k, v in orders.items() if not k.endswith(lost)}
        yield Case(f"no indexes of {what}", changed, {ms: str(ages[2]), sizes: "-1"})
    changed = {k: v for k, v in orders.items() if k != name(240, ".index")}
    changed[name(240, TIMES)] = b""
    yield Case("an empty time index alone", changed, {ms: str(ages[2]), sizes: "-1"})
    yield Case("transactions", txn, {ms: "1", sizes: "-1"})
    without_snapshots = {
        name: content for name, content in txn.items() if not name.endswith(".snapshot")
    }
    data = without_snapshots[name(635)]
    without_snapshots[name(635)] = data[: positions(data)[-3]]
    yield Case("cut, without snapshots", without_snapshots, {ms: "1", sizes: "-1"})
    yield Case("compact", orders, {ms: day, "cleanup.policy": "compact", **NO_CLEANING})
    both_policies = {
        ms: str(ages[2]),
        "cleanup.policy": "compact,delete",
        **NO_CLEANING,
    }
    yield Case("compact and delete", orders, both_policies)
    for offset in (100, 240, 500, 1500):
        start = f"0\n1\ngiven 0 {offset}\n".encode()
        beside = {"log-start-offset-checkpoint": start}
        yield Case(f"the log starts at {offset}", orders, {ms: "-1", sizes: "-1"}, {}, beside)
    empty = {**{k: v for k, v in orders.items() if not k.startswith(f"{1440:020}")}}
    empty |= {name(1440): b"", name(1440, ".index"): b"", name(1440, TIMES): b""}
    yield Case("the active one is empty", empty, {ms: day, sizes: "-1"})
