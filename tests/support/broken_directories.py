"""Real partition directories whose indexes, snapshots or file names are broken, one thing each."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from tests.support.broken_partitions import (
    CLOSED,
    ORDERS,
    TXN,
    V0,
    Broken,
    changed,
    name,
    rearranged,
    sample,
)
from tests.support.rebuild import with_crc
from tests.support.segments import positions, with_bytes
from tools.observe import Files

OFFSET, TIME, TRANSACTION = ">ii", ">qi", ">hqqqq"
FORMS = {".index": OFFSET, ".timeindex": TIME, ".txnindex": TRANSACTION}
Row = tuple[int, ...]
Edit = Callable[[list[Row]], list[Row]]


def whole(partition: object = ORDERS) -> Broken:
    """A sample in which nothing is broken."""
    its = TXN if partition == TXN else ORDERS
    return Broken(its, dict(sample(its)), CLOSED, 0, CLOSED)


def with_file(broken: Broken, file: str, content: bytes | None) -> Broken:
    """Another content of a file, None for no file."""
    files: Files = {k: v for k, v in broken.files.items() if k != file}
    if content is not None:
        files[file] = content
    return replace(broken, files=files)


def index(suffix: str, edit: Edit, base: int = CLOSED) -> Broken:
    """An index of orders-0 with other entries."""
    form = FORMS[suffix]
    file = name(base, suffix)
    its = whole()
    entries = edit(list(struct.iter_unpack(form, its.files[file])))
    content = b"".join(struct.pack(form, *entry) for entry in entries)
    return replace(with_file(its, file, content), base=base)


def aborts(edit: Edit) -> Broken:
    """The first transaction index of txn-0 with other entries."""
    its = whole(TXN)
    entries = edit(list(struct.iter_unpack(TRANSACTION, its.files[name(0, ".txnindex")])))
    content = b"".join(struct.pack(TRANSACTION, *entry) for entry in entries)
    return replace(with_file(its, name(0, ".txnindex"), content), base=0)


def mixed() -> Broken:
    """A batch of txn-0 that says that it is in no transaction, after one whose marker is
    another producer's."""
    data = sample(TXN)[name(357)]
    spans = list(pairwise(positions(data)))
    first = next(at for at, _ in spans if not data[at + 22] & 0x20)
    producer = data[first + 43 : first + 51]
    of_it = [span for span in spans if data[span[0] + 43 : span[0] + 51] == producer]
    behind = [span for span in of_it if span[0] > first]
    (marker, marker_end), (at, end) = behind[:2]
    other = with_crc(with_bytes(data[marker:marker_end], 43, (999_999).to_bytes(8, "big")))
    plain = with_crc(with_bytes(data[at:end], 21, bytes([data[at + 21], data[at + 22] & ~0x10])))
    content = data[:marker] + other + data[marker_end:at] + plain + data[end:]
    return changed(TXN, 357, at, int.from_bytes(data[at : at + 8], "big"), content)


def bytes_of(
    file: str, change: Callable[[bytes], bytes | None], partition: object = ORDERS
) -> Broken:
    """A file of a sample with other bytes, or none."""
    its = whole(partition)
    base = int(file[:20])
    return replace(with_file(its, file, change(its.files[file])), base=base)


def swapped(entries: list[Row]) -> list[Row]:
    """Two entries in each other's place."""
    return [*entries[:3], entries[4], entries[3], *entries[5:]]


def entry(number: int, first: int | None = None, second: int | None = None) -> Edit:
    """Add to the fields of an entry."""

    def edit(entries: list[Row]) -> list[Row]:
        a, b = entries[number]
        done = list(entries)
        done[number] = (a + (first or 0), b + (second or 0))
        return done

    return edit


def missing(*files: str, partition: object = ORDERS) -> Broken:
    """A sample without some files."""
    its = whole(partition)
    for file in files:
        its = with_file(its, file, None)
    return replace(its, base=int(files[0][:20]))


def whole_v0() -> Broken:
    """A partition of a broker that wrote no time indexes."""
    return Broken(V0, dict(sample(V0)), 0, 0, 0)


def _without_batch() -> Broken:
    """The closed segment of orders-0 without offsets 340–359; its indexes still have them."""
    log = rearranged(CLOSED, [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11])
    return changed(ORDERS, CLOSED, 13_357, 340, log)


def offset_not_in_log() -> Broken:
    """An entry of the offset index has an offset between two batches."""
    its = _without_batch()
    file = name(CLOSED, ".index")
    entries = list(struct.iter_unpack(OFFSET, its.files[file]))
    entries[3:5] = [(119, entries[3][1])]
    return with_file(its, file, b"".join(struct.pack(OFFSET, *entry) for entry in entries))


def time_offset_not_in_log() -> Broken:
    """An entry of the time index has an offset between two batches; the offset index is right."""
    its = _without_batch()
    file = name(CLOSED, ".index")
    entries = [pair for pair in struct.iter_unpack(OFFSET, its.files[file]) if pair[0] != 119]
    return with_file(its, file, b"".join(struct.pack(OFFSET, *entry) for entry in entries))
