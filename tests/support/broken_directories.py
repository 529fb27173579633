"""Real partition directories, each with one damaged index, snapshot or file name."""

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
    DamagedPartition,
    name,
    rearranged,
    sample,
    with_log,
)
from tests.support.rebuild import with_crc
from tests.support.segments import positions, with_bytes
from tools.observe import Files

OFFSET, TIME, TRANSACTION = ">ii", ">qi", ">hqqqq"
ENTRY_FORMATS = {".index": OFFSET, ".timeindex": TIME, ".txnindex": TRANSACTION}
Row = tuple[int, ...]
Edit = Callable[[list[Row]], list[Row]]


def undamaged(partition: object = ORDERS) -> DamagedPartition:
    """A sample without damage."""
    path = TXN if partition == TXN else ORDERS
    return DamagedPartition(path, dict(sample(path)), CLOSED, 0, CLOSED)


def with_file(broken: DamagedPartition, file: str, content: bytes | None) -> DamagedPartition:
    """The partition with another content of a file; None removes the file."""
    files: Files = {k: v for k, v in broken.files.items() if k != file}
    if content is not None:
        files[file] = content
    return replace(broken, files=files)


def index(suffix: str, edit: Edit, base: int = CLOSED) -> DamagedPartition:
    """An index of orders-0 with other entries."""
    entry_format = ENTRY_FORMATS[suffix]
    file_name = name(base, suffix)
    broken = undamaged()
    entries = edit(list(struct.iter_unpack(entry_format, broken.files[file_name])))
    content = b"".join(struct.pack(entry_format, *entry) for entry in entries)
    return replace(with_file(broken, file_name, content), base=base)


def transaction_index(edit: Edit) -> DamagedPartition:
    """The first transaction index of txn-0 with other entries."""
    broken = undamaged(TXN)
    entries = edit(list(struct.iter_unpack(TRANSACTION, broken.files[name(0, ".txnindex")])))
    content = b"".join(struct.pack(TRANSACTION, *entry) for entry in entries)
    return replace(with_file(broken, name(0, ".txnindex"), content), base=0)


def mixed_transaction() -> DamagedPartition:
    """txn-0 with a non-transactional batch in a transaction, whose marker is another producer's."""
    data = sample(TXN)[name(357)]
    batches = list(pairwise(positions(data)))
    first_start = next(
        batch_start for batch_start, _ in batches if not data[batch_start + 22] & 0x20
    )
    producer = data[first_start + 43 : first_start + 51]
    of_producer = [batch for batch in batches if data[batch[0] + 43 : batch[0] + 51] == producer]
    later_batches = [batch for batch in of_producer if batch[0] > first_start]
    (marker_start, marker_end), (batch_start, batch_end) = later_batches[:2]
    foreign_marker = with_crc(
        with_bytes(data[marker_start:marker_end], 43, (999_999).to_bytes(8, "big"))
    )
    non_transactional = with_crc(
        with_bytes(
            data[batch_start:batch_end],
            21,
            bytes([data[batch_start + 21], data[batch_start + 22] & ~0x10]),
        )
    )
    content = (
        data[:marker_start]
        + foreign_marker
        + data[marker_end:batch_start]
        + non_transactional
        + data[batch_end:]
    )
    return with_log(
        TXN, 357, batch_start, int.from_bytes(data[batch_start : batch_start + 8], "big"), content
    )


def changed_file(
    file: str, change: Callable[[bytes], bytes | None], partition: object = ORDERS
) -> DamagedPartition:
    """A sample with one file changed or, if `change` returns None, removed."""
    broken = undamaged(partition)
    base = int(file[:20])
    return replace(with_file(broken, file, change(broken.files[file])), base=base)


def swapped(entries: list[Row]) -> list[Row]:
    """The entries with two of them swapped."""
    return [*entries[:3], entries[4], entries[3], *entries[5:]]


def add_to_entry(entry_index: int, first: int | None = None, second: int | None = None) -> Edit:
    """An edit that adds to the fields of an entry."""

    def edit(entries: list[Row]) -> list[Row]:
        old_first, old_second = entries[entry_index]
        edited = list(entries)
        edited[entry_index] = (old_first + (first or 0), old_second + (second or 0))
        return edited

    return edit


def missing(*file_names: str, partition: object = ORDERS) -> DamagedPartition:
    """A sample without some files."""
    broken = undamaged(partition)
    for file_name in file_names:
        broken = with_file(broken, file_name, None)
    return replace(broken, base=int(file_names[0][:20]))


def undamaged_v0() -> DamagedPartition:
    """A partition of a broker that wrote no time indexes."""
    return DamagedPartition(V0, dict(sample(V0)), 0, 0, 0)


def _without_batch() -> DamagedPartition:
    """The closed segment of orders-0 without offsets 340–359; its indexes still have them."""
    log = rearranged(CLOSED, [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11])
    return with_log(ORDERS, CLOSED, 13_357, 340, log)


def offset_not_in_log() -> DamagedPartition:
    """An entry of the offset index has an offset between two batches."""
    broken = _without_batch()
    file_name = name(CLOSED, ".index")
    entries = list(struct.iter_unpack(OFFSET, broken.files[file_name]))
    entries[3:5] = [(119, entries[3][1])]
    return with_file(broken, file_name, b"".join(struct.pack(OFFSET, *entry) for entry in entries))


def time_offset_not_in_log() -> DamagedPartition:
    """An entry of the time index has an offset between two batches; the offset index is right."""
    broken = _without_batch()
    file_name = name(CLOSED, ".index")
    entries = [
        entry for entry in struct.iter_unpack(OFFSET, broken.files[file_name]) if entry[0] != 119
    ]
    return with_file(broken, file_name, b"".join(struct.pack(OFFSET, *entry) for entry in entries))
