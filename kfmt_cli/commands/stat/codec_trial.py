"""Compresses a sample of the batches with other codecs."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from kfmt_cli.broker.offsets.seek import blocks_from
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.compress import compress
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.log.block import HEADER_SIZE
from kfmt_cli.log.decompress import decompress_ahead
from kfmt_cli.render.style import grouped
from kfmt_cli.rows.documents import WHAT_IF

SAMPLE = 8 << 20  # bytes of records to try other codecs on, per partition
LEAST_SAMPLE = 64 << 10
LEAST_SHARE = 1 << 20  # of these, at least this many bytes per log


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec to try."""

    name: str
    level: int | None = None
    """None for the producer's default."""

    @property
    def words(self) -> str:
        """Its name on the command line, such as zstd:3."""
        return self.name if self.level is None else f"{self.name}:{self.level}"


@dataclass(slots=True)
class Trials:
    """Results of several codecs on the same sample."""

    codecs: tuple[Codec, ...]
    plain: int = 0
    """Bytes of records."""
    before: int = 0
    """Bytes of the batches as they are stored."""
    after: Counter[Codec] = field(default_factory=Counter)
    """Bytes of the batches after recompression, by codec."""
    seconds: dict[Codec, float] = field(default_factory=lambda: defaultdict(float))
    """Compression time in seconds, by codec."""

    def take(self, file: Input, limit: Limit, most: int) -> None:
        """Try the codecs on the first records of a log, about `most` bytes; raises InputError."""
        until = self.plain + most
        for block in blocks_from(file):
            sound = (block.batches.crc_valid == 1) & (block.batches.is_v2 == 1)
            block.batches = block.batches.select(sound & (block.batches.control == 0))
            for part in decompress_ahead(block, limit):
                data, starts, ends = part.decompressed or (
                    part.data,
                    part.batches.start + HEADER_SIZE,
                    part.batches.end,
                )
                bounds = list(zip(starts.tolist(), ends.tolist(), strict=True))
                records = [data[start:end] for start, end in bounds]
                self.plain += sum(map(len, records))
                self.before += int(part.batches.size.sum())
                for codec in self.codecs:
                    self._compress(codec, records)
            if self.plain >= until:
                break

    def _compress(self, codec: Codec, records: list[bytes]) -> None:
        began = time.perf_counter()
        for plain in records:
            self.after[codec] += HEADER_SIZE + len(compress(codec.name, plain, 2, codec.level))
        self.seconds[codec] += time.perf_counter() - began


def try_codecs(
    run: Run,
    codecs: tuple[Codec, ...],
    partitions: Sequence[Partition],
    limit: Limit,
    total: int | None = None,
) -> None:
    """Show the result of each codec on a sample of each partition. total: bytes of all samples, of
    fewer partitions if there are many; None for full samples of all."""
    trials = Trials(tuple(dict.fromkeys(codecs)))
    most, step = SAMPLE, 1
    if total is not None and partitions:
        most = min(max(total // len(partitions), LEAST_SAMPLE), SAMPLE)
        step = -(-len(partitions) * most // total)
    for partition in partitions[::step] if codecs else ():
        share = max(most // max(len(partition.logs), 1), min(most, LEAST_SHARE))
        until = trials.plain + most
        with run.complaining():
            for file in partition.logs:
                trials.take(file, limit, share)
                if trials.plain >= until:
                    break
    for codec in codecs:
        _show(run, codec, trials)


def _show(run: Run, codec: Codec, trials: Trials) -> None:
    after, seconds = trials.after[codec], trials.seconds[codec]
    saved = 1 - after / trials.before if trials.before else 0.0
    row: dict[str, object] = {
        "codec": codec.words,
        "sample_bytes": trials.plain,
        "stored_bytes": trials.before,
        "would_be_bytes": after,
        "saved": round(saved, 4),
        "seconds": round(seconds, 3),
    }
    words = "smaller" if saved >= 0 else "larger"
    line = (
        f"{codec.words}: {grouped(after)} bytes instead of {grouped(trials.before)} for the "
        f"sample, {abs(saved):.1%} {words}"
    )
    if seconds:
        line += f"; compresses at {trials.plain / seconds / 1e6:.0f} MB/s"
    run.sink.document(WHAT_IF, row, [f"{line}\n"])
