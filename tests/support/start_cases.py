"""Damaged directories for which kfmt predicts the start: those of the claims, and more of each
kind."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.support.broken_partitions import ORDERS, TXN, DamagedPartition, name, rearranged, sample
from tests.support.rebuild import with_crc
from tests.support.segments import int32, positions, with_bytes
from tools.observe import Files, Start

CLOSED, LAST = 240, 1440
OFFSETS, TIMES, TRANSACTIONS = ".index", ".timeindex", ".txnindex"
EPOCHS = "leader-epoch-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
BOTH = (Start.CRASH, Start.CLEAN)


@dataclass(frozen=True)
class Case:
    """A partition before a start, and files of its log directory."""

    description: str
    files: Files
    of: str = "orders"
    beside: Files = field(default_factory=dict)
    kinds: tuple[Start, ...] = BOTH
    """The kinds of starts."""

    @property
    def log_end(self) -> int:
        """The log end offset of the undamaged partition."""
        return 1500 if self.of == "orders" else 736


def int64(value: int) -> bytes:
    """A big-endian integer of eight bytes."""
    return struct.pack(">q", value)


def excluding(files: Files, *names: str) -> Files:
    """The files without some."""
    return {name: content for name, content in files.items() if name not in names}


def with_suffixes(files: Files, *suffixes: str) -> Files:
    """The files of some kinds."""
    return {name: content for name, content in files.items() if name.endswith(suffixes)}


def segment(base: int) -> tuple[str, ...]:
    """The names of a segment's files."""
    return tuple(name(base, suffix) for suffix in (".log", OFFSETS, TIMES))


def cases() -> Iterator[Case]:
    """Every case."""
    orders, txn = dict(sample(ORDERS)), dict(sample(TXN))
    yield Case("nothing", orders)
    yield Case("nothing", txn, "txn")
    yield from _without_files(orders, txn)
    yield from _logs(orders)
    yield from _tails(orders)
    yield from _offsets(orders)
    yield from _indexes(orders, txn)
    yield from _names(orders)
    yield from _copies(orders)
    yield from _checkpoints(orders)


def _without_files(orders: Files, txn: Files) -> Iterator[Case]:
    yield Case("no indexes", with_suffixes(orders, ".log", ".snapshot"))
    yield Case("only logs", with_suffixes(orders, ".log"))
    yield Case("only logs", with_suffixes(txn, ".log"), "txn")
    yield Case("no first segment", excluding(orders, *segment(0)))
    yield Case("no middle segment", excluding(orders, *segment(CLOSED)))
    yield Case("no last segment", excluding(orders, *segment(LAST)))
    yield Case("no last log", excluding(orders, name(LAST)))
    for base, description in ((0, "first"), (CLOSED, "middle"), (LAST, "last")):
        yield Case(f"{description} log empty", {**orders, name(base): b""})
    yield Case(
        "every log empty",
        {file: b"" if file.endswith(".log") else content for file, content in orders.items()},
    )


def _logs(orders: Files) -> Iterator[Case]:
    log = name(CLOSED)
    data = orders[log]
    start = positions(data)[5]
    flipped = with_bytes(data, start + 100, bytes([data[start + 100] ^ 1]))
    short = with_bytes(data, start + 8, int32(3))
    all_starts = tuple(Start)
    yield Case("a bit and no index", excluding({**orders, log: flipped}, name(CLOSED, OFFSETS)))
    yield Case("a bit", {**orders, log: flipped}, kinds=all_starts)
    yield Case("a length of 3", {**orders, log: short}, kinds=all_starts)
    without_snapshots = {
        file: content for file, content in orders.items() if not file.endswith(".snapshot")
    }
    yield Case(
        "a length of 3 and no snapshots", {**without_snapshots, log: short}, kinds=all_starts
    )
    yield Case(
        "a length of 3 and a damaged snapshot",
        {**orders, log: short, name(1500, ".snapshot"): b"xx"},
        kinds=all_starts,
    )
    for base in (240, 480):
        snapshot = name(base, ".snapshot")
        files = {**without_snapshots, snapshot: orders[snapshot], log: short}
        yield Case(f"a length of 3 and only snapshot {base}", files, kinds=all_starts)
    order = [0, 1, 2, 3, 4, 6, 5, 7, 8, 9, 10, 11]
    moved = {**orders, log: rearranged(CLOSED, order)}
    yield Case("batches swapped and no index", excluding(moved, name(CLOSED, OFFSETS)))
    yield Case("batches swapped at the end", {**orders, name(LAST): rearranged(LAST, [0, 2, 1])})
    yield Case("a log twice in its file", {**orders, log: data + data})


def _tails(orders: Files) -> Iterator[Case]:
    data = orders[name(LAST)]
    start = positions(data)[2]
    for description, tail in (
        ("16 bytes", b"\1" * 16),
        ("17 zeros", bytes(17)),
        ("18 zeros", bytes(18)),
        ("ones", b"\xff" * 200),
        ("a large length", b"\1" * 200),
        ("the last batch again", data[start:]),
    ):
        yield Case(f"after the last batch: {description}", {**orders, name(LAST): data + tail})
    closed = orders[name(CLOSED)]
    yield Case("after a closed log: 5 bytes", {**orders, name(CLOSED): closed + b"\1" * 5})
    for description, size in (
        ("a header", start + 61),
        ("10 bytes", start + 10),
        ("half a batch", 100),
    ):
        yield Case(f"the last log ends after {description}", {**orders, name(LAST): data[:size]})


def _offsets(orders: Files) -> Iterator[Case]:
    data, last_log = orders[name(CLOSED)], orders[name(LAST)]
    starts = positions(data)
    start, end, last_start = starts[5], starts[6], positions(last_log)[2]

    def with_delta(log: bytes, batch_start: int, batch_end: int, value: int) -> bytes:
        return (
            log[:batch_start]
            + with_crc(with_bytes(log[batch_start:batch_end], 23, int32(value)))
            + log[batch_end:]
        )

    yield Case(
        "last offset too high",
        {**orders, name(LAST): with_delta(last_log, last_start, len(last_log), 99)},
    )
    yield Case(
        "last offset below the first", {**orders, name(CLOSED): with_delta(data, start, end, -1)}
    )
    for value in (1340, 250, 20, -5, 1 << 40):
        log = with_bytes(data, start, int64(value))
        yield Case(f"a batch in the middle at {value}", {**orders, name(CLOSED): log})
    yield Case("the first batch at 230", {**orders, name(CLOSED): with_bytes(data, 0, int64(230))})
    log = with_bytes(last_log, last_start, int64(1 << 40))
    yield Case("the last batch far away", {**orders, name(LAST): log})


def _indexes(orders: Files, txn: Files) -> Iterator[Case]:
    file = name(LAST, OFFSETS)
    index = orders[file]
    position = struct.unpack(">i", index[-4:])[0]
    for description, content in (
        ("a position after the log", index[:-4] + int32(99999)),
        ("a negative position", index[:-4] + int32(-9)),
        ("a position inside a batch", index[:-4] + int32(position + 7)),
        ("an offset after the log", index[:-8] + int32(500) + int32(0)),
        ("no entry", b""),
        ("zeros", bytes(len(index))),
        ("zeros at the end", index + bytes(800)),
        ("anything", bytes(range(160, 192))),
        ("three bytes more", index + b"abc"),
    ):
        yield Case(f"the last index has {description}", {**orders, file: content})
    yield Case("a time index of anything", {**orders, name(LAST, TIMES): bytes(range(160, 184))})
    aborts = txn[name(635, TRANSACTIONS)]
    with_low_offset = aborts[:18] + int64(3) + aborts[26:]
    yield Case(
        "an aborted transaction before", {**txn, name(635, TRANSACTIONS): with_low_offset}, "txn"
    )
    for version in (b"\0\3", b"\3\0", b"\x80\0"):
        content = version + aborts[2:]
        yield Case(
            f"aborted, version {version.hex()}", {**txn, name(635, TRANSACTIONS): content}, "txn"
        )


def _names(orders: Files) -> Iterator[Case]:
    for file in (
        *("5.log", "-5.log", "9999.log", ".log", "0240.index", "abc.timeindex", "abc.txnindex"),
        *("abc.snapshot", "abc.deleted", "abc.cleaned", "abc.swap", "notes.txt", ".DS_Store"),
        "00000000000000000240.log.bak",
    ):
        yield Case(f"a file {file}", {**orders, file: b""})
    yield Case("a log 240.log", {**orders, "240.log": orders[name(CLOSED)]})
    snapshot = orders[name(240, ".snapshot")]
    yield Case("a snapshot between", {**orders, name(77, ".snapshot"): snapshot})
    yield Case("a snapshot after the end", {**orders, name(7000, ".snapshot"): snapshot})


def _copies(orders: Files) -> Iterator[Case]:
    log, index, time_index = segment(CLOSED)
    data = orders[log]
    start = positions(data)[5]
    flipped = with_bytes(data, start + 100, bytes([data[start + 100] ^ 1]))
    yield Case("a deleted log", {**excluding(orders, log), f"{log}.deleted": data})
    yield Case("cleaned", {**orders, f"{log}.cleaned": data, f"{index}.cleaned": orders[index]})
    yield Case("a swapped log", {**orders, f"{log}.swap": data})
    swap_files = {f"{file}.swap": orders[file] for file in (log, index, time_index)}
    yield Case("a swapped segment", {**excluding(orders, log), **swap_files})
    swapped_and_cleaned = {**orders, f"{log}.swap": data[:start], f"{name(0)}.cleaned": b""}
    yield Case("swapped and cleaned", swapped_and_cleaned)
    yield Case("two segments in one", {**orders, f"{log}.swap": data + orders[name(480)]})
    yield Case("a damaged swapped log", {**orders, f"{log}.swap": flipped})
    yield Case("a swapped index", {**orders, f"{index}.swap": orders[index]})


def _checkpoints(orders: Files) -> Iterator[Case]:
    for description, content in (
        ("nothing", b""),
        ("a version", b"0\n"),
        ("no number", b"0\n1\n0 x\n"),
        ("a negative epoch", b"0\n1\n-1 0\n"),
        ("an epoch that goes back", b"0\n2\n3 500\n1 700\n"),
        ("an epoch after the end", b"0\n2\n0 0\n9 99999\n"),
        ("too many lines", b"0\n1\n0 0\n1 500\n"),
        ("an empty line", b"0\n1\n0 0\n\n"),
        ("another version", b"1\n1\n0 0\n"),
        ("spaces at the end", b"0\n1\n0 0  \n"),
    ):
        yield Case(f"{EPOCHS}: {description}", {**orders, EPOCHS: content})
    for offset in (100, 700, 1450, 1500, 9000):
        content = f"0\n1\ngiven 0 {offset}\n".encode()
        yield Case(f"the log starts at {offset}", orders, beside={LOG_STARTS: content})


def of_claim(broken: DamagedPartition) -> Case:
    """The partition of a claim."""
    topic = "txn" if broken.sample == TXN else "orders"
    return Case("", broken.files, topic)
