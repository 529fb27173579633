"""What other codecs would make of a sample of the batches of partitions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from kfmt_cli.broker.seek import blocks_from
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.compress import compress
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import HEADER_SIZE
from kfmt_cli.log.decompress import decompress_ahead
from kfmt_cli.render.style import grouped
from kfmt_cli.rows.documents import WHAT_IF

SAMPLE = 8 << 20  # bytes of records that another codec is tried on, of each partition
LEAST_SHARE = 1 << 20  # of these, bytes of each log


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec to try."""

    name: str
    level: int | None = None
    """None for the producer's own."""

    @property
    def words(self) -> str:
        """As it is asked for."""
        return self.name if self.level is None else f"{self.name}:{self.level}"


@dataclass(slots=True)
class Trial:
    """What a codec makes of a sample."""

    plain: int = 0
    """Bytes of records."""
    before: int = 0
    """Bytes of the batches as they are stored."""
    after: int = 0
    """Bytes of the batches as they would be."""
    seconds: float = 0.0
    """Seconds that compressing took."""

    def add(self, other: Trial) -> None:
        """Another sample."""
        self.plain += other.plain
        self.before += other.before
        self.after += other.after
        self.seconds += other.seconds


def try_codec(
    run: Run, codec: Codec, partitions: Sequence[Partition], limit: Limit, most: int = SAMPLE
) -> None:
    """Show what another codec would make of a sample of each partition. most: its bytes."""
    total = Trial()
    for partition in partitions:
        try:
            total.add(trial(partition, codec, limit, most))
        except InputError as error:
            run.complain(str(error))
    saved = 1 - total.after / total.before if total.before else 0.0
    row: dict[str, object] = {
        "codec": codec.words,
        "sample_bytes": total.plain,
        "stored_bytes": total.before,
        "would_be_bytes": total.after,
        "saved": round(saved, 4),
        "seconds": round(total.seconds, 3),
    }
    words = "smaller" if saved >= 0 else "larger"
    line = (
        f"{codec.words}: {grouped(total.after)} bytes instead of {grouped(total.before)} in a "
        f"sample, {abs(saved):.1%} {words}"
    )
    if total.seconds:
        line += f"; compresses {total.plain / total.seconds / 1e6:.0f} MB/s"
    run.sink.document(WHAT_IF, row, [f"{line}\n"])


def trial(partition: Partition, codec: Codec, limit: Limit, most: int = SAMPLE) -> Trial:
    """What a codec makes of the first records of each of a partition's logs; raises InputError.

    most: bytes of records.
    """
    found = Trial()
    share = most // max(len(partition.logs), 1)
    for file in partition.logs:
        found.add(_trial(file, codec, limit, max(share, min(most, LEAST_SHARE))))
        if found.plain >= most:
            break
    return found


def _trial(file: Input, codec: Codec, limit: Limit, most: int) -> Trial:
    found = Trial()
    for block in blocks_from(file):
        sound = (block.batches.crc_valid == 1) & (block.batches.is_v2 == 1)
        block.batches = block.batches.select(sound & (block.batches.control == 0))
        for part in decompress_ahead(block, limit):
            data, starts, ends = part.decompressed or (
                part.data,
                part.batches.start + HEADER_SIZE,
                part.batches.end,
            )
            began = time.perf_counter()
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                plain = data[start:end]
                made = compress(codec.name, plain, 2, codec.level)
                found.after += HEADER_SIZE + len(made)
                found.plain += len(plain)
            found.seconds += time.perf_counter() - began
            found.before += int(part.batches.size.sum())
        if found.plain >= most:
            break
    return found
