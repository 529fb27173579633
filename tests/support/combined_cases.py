"""Partitions with two or three damages at once, generated from a seed."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.broken_partitions import (
    ORDERS,
    TXN,
    V0,
    V1,
    V1_GZIP,
    name,
    sample,
    with_crc32,
)
from tests.support.rebuild import with_crc
from tests.support.segments import int32, with_bytes
from tools.kafka import SAMPLES
from tools.observe import Files, Start

COMPACTED = SAMPLES / "kafka-3.9.1-broker1/compacted-0"
UPGRADED = SAMPLES / "kafka-2.8.2/upgraded-0"
ENDS = {ORDERS: 1500, TXN: 736, V0: 900, V1: 500, V1_GZIP: 500, COMPACTED: 3089, UPGRADED: 360}
EPOCHS = "leader-epoch-checkpoint"


@dataclass(frozen=True)
class CombinedCase:
    """A damaged partition."""

    description: str
    """The damages."""
    files: Files
    log_end: int
    """The log end offset of the undamaged partition."""
    log_start: int
    kinds: tuple[Start, ...]


Damage = Callable[["_Partition", random.Random], str]


class _Partition:
    """The files of a partition, to be damaged."""

    def __init__(self, partition: Path) -> None:
        self.files = dict(sample(partition))

    @property
    def bases(self) -> list[int]:
        names = (file for file in self.files if file.endswith(".log") and len(file) == 24)
        return sorted(int(name[:20]) for name in names)

    def any_base(self, rng: random.Random) -> int:
        """The base offset of a random segment, more often than others the last one."""
        bases = self.bases
        return bases[-1] if rng.random() < 0.3 else rng.choice(bases)

    def batches(self, base: int) -> list[tuple[int, int]]:
        """The start and end of each batch of a log, up to the first invalid length."""
        data = self.files[name(base)]
        ranges: list[tuple[int, int]] = []
        position = 0
        while position + 17 <= len(data):
            end = position + 12 + struct.unpack_from(">i", data, position + 8)[0]
            if not position + 26 <= end <= len(data):
                break
            ranges.append((position, end))
            position = end
        return ranges

    def change(self, base: int, position: int, new: bytes) -> None:
        file = name(base)
        self.files[file] = with_bytes(self.files[file], position, new)


def _batch(partition: _Partition, rng: random.Random) -> tuple[int, int, int, int] | None:
    base = partition.any_base(rng)
    batches = partition.batches(base)
    if not batches:
        return None
    batch_index = rng.choice([0, len(batches) - 1, rng.randrange(len(batches))])
    return base, batch_index, *batches[batch_index]


def _in_batch(label: str, change: Callable[[bytes, random.Random], bytes]) -> Damage:
    def damage(partition: _Partition, rng: random.Random) -> str:
        selected = _batch(partition, rng)
        if selected is None:
            return ""
        base, batch_index, start, end = selected
        data = partition.files[name(base)]
        new = change(data[start:end], rng)
        partition.files[name(base)] = data[:start] + new + data[end:]
        return f"{label} in batch {batch_index} of {base}"

    return damage


def _field(
    position: int, new: bytes, *, valid: bool = False
) -> Callable[[bytes, random.Random], bytes]:
    def change(batch: bytes, _: random.Random) -> bytes:
        if batch[16] < 2 and position > 16:
            return batch
        changed = with_bytes(batch, position, new)
        return with_crc(changed) if valid and batch[16] == 2 else changed

    return change


def _flip(batch: bytes, rng: random.Random) -> bytes:
    position = rng.randrange(21, len(batch)) if batch[16] == 2 else rng.randrange(18, len(batch))
    return with_bytes(batch, position, bytes([batch[position] ^ 1 << rng.randrange(8)]))


def _undecodable(batch: bytes, _: random.Random) -> bytes:
    """A wrapper of magic 0 or 1 with a valid checksum that does not decompress."""
    if batch[16] > 1 or not batch[17] & 7:
        return batch
    position = 34 if batch[16] else 26
    changed = with_bytes(
        batch, position + 1, bytes(byte ^ 255 for byte in batch[position + 1 : position + 9])
    )
    return with_crc32(changed)


def _longer(n_bytes: int) -> Callable[[bytes, random.Random], bytes]:
    return lambda batch, _: with_bytes(batch, 8, int32(len(batch) - 12 + n_bytes))


def _offset(delta: int) -> Callable[[bytes, random.Random], bytes]:
    def change(batch: bytes, _: random.Random) -> bytes:
        return struct.pack(">q", struct.unpack_from(">q", batch)[0] + delta) + batch[8:]

    return change


def _cut(partition: _Partition, rng: random.Random) -> str:
    base = partition.any_base(rng)
    data = partition.files[name(base)]
    size = rng.choice([0, 10, 40, len(data) // 2, max(len(data) - 5, 0), max(len(data) - 300, 0)])
    partition.files[name(base)] = data[:size]
    return f"{base} cut to {size} bytes"


def _tail(partition: _Partition, rng: random.Random) -> str:
    base = partition.any_base(rng)
    batches = partition.batches(base) or [(0, 0)]
    tails = {
        "zeros": bytes(200),
        "16 zeros": bytes(16),
        "ones": b"\xff" * 100,
        "garbage": b"\1" * 100,
        "its first batch": partition.files[name(base)][: batches[0][1]],
    }
    kind = rng.choice(list(tails))
    partition.files[name(base)] += tails[kind]
    return f"{kind} after {base}"


def _short(partition: _Partition, rng: random.Random) -> str:
    """A last batch that is shorter than a header, or bytes that look like one."""
    base = partition.any_base(rng)
    batches = partition.batches(base)
    if not batches:
        return ""
    start, end = batches[-1]
    size = rng.randrange(26, 61)
    data = partition.files[name(base)]
    header = data[start:end][:size].ljust(size, b"\1")
    header = header[:8] + int32(size - 12) + header[12:16] + b"\2" + header[17:]
    is_after = rng.random() < 0.3
    partition.files[name(base)] = data[: end if is_after else start] + header
    where = "behind" if is_after else "in place of"
    return f"{where} the last batch of {base} one of {size} bytes"


def _entries(partition: _Partition, rng: random.Random) -> str:
    """Entries of an offset index that do not increase."""
    base = partition.any_base(rng)
    file = name(base, ".index")
    data = partition.files.get(file, b"")
    entries = [data[position : position + 8] for position in range(0, len(data) // 8 * 8, 8)]
    if len(entries) < 3:
        return ""
    i = rng.randrange(1, len(entries) - 1)
    kind = rng.choice(["twice", "exchanged", "offset of the one before", "0", "zeros at the end"])
    if kind == "twice":
        entries.insert(i, entries[i])
    elif kind == "exchanged":
        entries[i], entries[i + 1] = entries[i + 1], entries[i]
    elif kind == "0":
        entries[i] = bytes(8)
    elif kind == "zeros at the end":
        entries[-2:] = [bytes(8)] * 2
    else:
        entries[i] = entries[i - 1][:4] + entries[i][4:]
    partition.files[file] = b"".join(entries)
    return f"{file}: entry {i} {kind}"


def _aborted(partition: _Partition, rng: random.Random) -> str:
    """An entry of a transaction index with a wrong field."""
    names = sorted(file for file in partition.files if file.endswith(".txnindex"))
    names = [file for file in names if partition.files[file]]
    if not names:
        return ""
    file = rng.choice(names)
    data = partition.files[file]
    position = rng.randrange(len(data) // 34) * 34
    field_offset, width = rng.choice([(0, 2), (2, 8), (10, 8), (18, 8), (26, 8)])
    new = rng.choice([b"\0\1" * 4, bytes(8), b"\0" * 6 + b"\x7f\0"])[:width]
    partition.files[file] = with_bytes(data, position + field_offset, new)
    return f"{file}: field at {position + field_offset} {new.hex()}"


def _hole(partition: _Partition, rng: random.Random) -> str:
    selected = _batch(partition, rng)
    if selected is None:
        return ""
    base, batch_index, start, end = selected
    content = rng.choice([bytes(end - start), rng.randbytes(end - start)])
    partition.change(base, start, content)
    return f"{'random bytes' if any(content) else 'zeros'} over batch {batch_index} of {base}"


def _without(suffix: str) -> Damage:
    def damage(partition: _Partition, rng: random.Random) -> str:
        names = [file for file in sorted(partition.files) if file.endswith(suffix)]
        if not names or (suffix == ".log" and len(names) == 1):
            return ""
        removed = rng.choice([names[0], names[-1], rng.choice(names)])
        del partition.files[removed]
        return f"no {removed}"

    return damage


def _without_all(suffix: str) -> Damage:
    def damage(partition: _Partition, _: random.Random) -> str:
        names = [file for file in partition.files if file.endswith(suffix)]
        for file in names:
            del partition.files[file]
        return f"no {suffix} at all"

    return damage


def _index(partition: _Partition, rng: random.Random) -> str:
    base = partition.any_base(rng)
    file = name(base, rng.choice([".index", ".index", ".timeindex"]))
    data = partition.files.get(file, b"")
    if not data:
        return ""
    other_file = rng.choice(
        [file_name for file_name in partition.files if file_name.endswith(Path(file).suffix)]
    )
    contents = {
        "empty": b"",
        "zeros": bytes(len(data)),
        "a zero tail": data + bytes(80),
        "cut": data[: len(data) // 2],
        "3 more bytes": data + b"abc",
        "random": rng.randbytes(len(data)),
        "a bit": with_bytes(data, len(data) // 2, bytes([data[len(data) // 2] ^ 4])),
        f"that of {other_file}": partition.files[other_file],
    }
    kind = rng.choice(list(contents))
    partition.files[file] = contents[kind]
    return f"{file}: {kind}"


def _snapshot(partition: _Partition, rng: random.Random) -> str:
    names = sorted(file for file in partition.files if file.endswith(".snapshot"))
    if not names:
        return ""
    file = rng.choice([names[-1], rng.choice(names)])
    data = partition.files[file]
    kind, content = rng.choice(
        [("empty", b""), ("cut", data[:5]), ("a bit", data[:-1] + bytes([data[-1] ^ 1]))]
    )
    partition.files[file] = content
    return f"{file}: {kind}"


def _epochs(partition: _Partition, rng: random.Random) -> str:
    content = rng.choice(
        [
            b"",
            b"0\n",
            b"x",
            b"0\n1\n0 0\n1 500\n",
            b"0\n1\n3000000000 0\n",
            b"0\n1\n0 0\n",
            b"0\n1\n-1 0\n",
        ]
    )
    partition.files[EPOCHS] = content
    return f"{EPOCHS} {content!r}"


def _copied(partition: _Partition, rng: random.Random) -> str:
    base = rng.choice(partition.bases)
    log = name(base)
    data = partition.files[log]
    suffix = rng.choice([".swap", ".swap", ".cleaned", ".deleted"])
    contents = {"whole": data, "empty": b"", "half": data[: len(data) // 2]}
    kind = rng.choice(list(contents))
    if rng.random() < 0.3 and len(partition.bases) > 2:
        other = rng.choice(partition.bases)
        contents["with the next"] = data + partition.files[name(other)]
        kind = "with the next"
    partition.files[log + suffix] = contents[kind]
    index = name(base, ".index")
    if index in partition.files and rng.random() < 0.5:
        partition.files[index + suffix] = partition.files[index]
    if rng.random() < 0.4:
        del partition.files[log]
    return f"{log}{suffix} {kind}"


def _stray(partition: _Partition, rng: random.Random) -> str:
    file = rng.choice(
        [
            "777.log",
            "5.log",
            name(777),
            name(100),
            name(250, ".index"),
            name(9999, ".timeindex"),
            "abc.log",
            "notes.txt",
        ]
    )
    content = rng.choice([b"", partition.files[name(rng.choice(partition.bases))]])
    partition.files[file] = content if file.endswith(".log") else b""
    return f"a file {file} of {len(content)} bytes"


def _renamed(partition: _Partition, rng: random.Random) -> str:
    base = rng.choice(partition.bases)
    new_base = base + rng.choice([-30, 30, 7, -1, 1])
    if new_base < 0:
        return ""
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        if name(base, suffix) in partition.files and (suffix == ".log" or rng.random() < 0.7):
            partition.files[name(new_base, suffix)] = partition.files.pop(name(base, suffix))
    return f"{base} renamed to {new_base}"


def _exchanged(partition: _Partition, rng: random.Random) -> str:
    if len(partition.bases) < 2:
        return ""
    base, other_base = rng.sample(partition.bases, 2)
    suffix = rng.choice([".log", ".index"])
    files = partition.files
    if name(base, suffix) not in files or name(other_base, suffix) not in files:
        return ""
    files[name(base, suffix)], files[name(other_base, suffix)] = (
        files[name(other_base, suffix)],
        files[name(base, suffix)],
    )
    return f"{suffix} of {base} and {other_base} exchanged"


def _joined(partition: _Partition, rng: random.Random) -> str:
    """A segment that also contains the batches of the next one."""
    bases = partition.bases
    if len(bases) < 2:
        return ""
    i = rng.randrange(len(bases) - 1)
    partition.files[name(bases[i])] += partition.files[name(bases[i + 1])]
    return f"{bases[i]} has also what {bases[i + 1]} has"


def _moved(partition: _Partition, rng: random.Random) -> str:
    selected = _batch(partition, rng)
    if selected is None:
        return ""
    base, batch_index, start, end = selected
    data = partition.files[name(base)]
    remaining = data[:start] + data[end:]
    kind = rng.choice(["left out", "at the end", "twice", "cut"])
    new = {
        "left out": remaining,
        "at the end": remaining + data[start:end],
        "twice": data[:end] + data[start:],
        "cut": data[: (start + end) // 2] + data[end:],
    }[kind]
    partition.files[name(base)] = new
    return f"batch {batch_index} of {base} {kind}"


DAMAGES: list[Damage] = [
    _in_batch("a bit", _flip),
    _in_batch("a bit", _flip),
    _in_batch("undecodable", _undecodable),
    _in_batch("undecodable", _undecodable),
    _in_batch("length -5", _longer(-5)),
    _in_batch("length +3", _longer(3)),
    _in_batch("length +2000", _longer(2000)),
    _in_batch("length 3", _field(8, int32(3))),
    _in_batch("length -9", _field(8, int32(-9))),
    _in_batch("the largest length", _field(8, int32(2**31 - 1))),
    _in_batch("magic 3", _field(16, b"\3")),
    _in_batch("magic 1", _field(16, b"\1")),
    _in_batch("magic 0", _field(16, b"\0")),
    _in_batch("magic -1", _field(16, b"\xff")),
    _in_batch("codec 5", _field(21, b"\0\5", valid=True)),
    _in_batch("gzip", _field(21, b"\0\1", valid=True)),
    _in_batch("control", _field(21, b"\0\x20", valid=True)),
    _in_batch("count 1", _field(57, int32(1), valid=True)),
    _in_batch("count 99", _field(57, int32(99), valid=True)),
    _in_batch("delta 99", _field(23, int32(99), valid=True)),
    _in_batch("delta -1", _field(23, int32(-1), valid=True)),
    _in_batch("offset +7", _offset(7)),
    _in_batch("offset -20", _offset(-20)),
    _in_batch("offset -1000", _offset(-1000)),
    _in_batch("offset +1000", _offset(1000)),
    _in_batch("offset +2^40", _offset(1 << 40)),
    _in_batch("the largest offset", lambda data, _: struct.pack(">q", 2**63 - 20) + data[8:]),
    _cut,
    _cut,
    _tail,
    _hole,
    _hole,
    _without(".log"),
    _without(".index"),
    _without(".timeindex"),
    _without(".snapshot"),
    _without(".txnindex"),
    _without_all(".index"),
    _without_all(".snapshot"),
    _index,
    _index,
    _index,
    _short,
    _entries,
    _entries,
    _aborted,
    _snapshot,
    _epochs,
    _copied,
    _copied,
    _stray,
    _renamed,
    _exchanged,
    _joined,
    _moved,
    _moved,
]
PARTITIONS = [ORDERS, ORDERS, ORDERS, TXN, V1, V1_GZIP, UPGRADED, COMPACTED]


def combined(seed: int, count: int) -> Iterator[CombinedCase]:
    """Yield so many partitions, each with two or three damages."""
    rng = random.Random(seed)
    for _ in range(count):
        sample_path = rng.choice(PARTITIONS)
        partition = _Partition(sample_path)
        damages = []
        for damage in rng.sample(DAMAGES, rng.choice([2, 2, 3])):
            if not partition.bases:
                break
            if description := damage(partition, rng):
                damages.append(description)
        log_end = ENDS[sample_path]
        log_start = rng.choice([0, 0, 0, 0, 0, 0, 100, 300]) if sample_path == ORDERS else 0
        description = f"{sample_path.name}: {'; '.join(damages)}" + (
            f"; log start {log_start}" if log_start else ""
        )
        yield CombinedCase(description, partition.files, log_end, log_start, tuple(Start))
