"""Compresses a sample of the batches with other codecs."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from kfmt_cli.broker.offsets.seek import read_blocks_from
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.core.codecs.compress import compress
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.log.block import BATCH_HEADER_BYTES
from kfmt_cli.log.decompression import decompress_ahead
from kfmt_cli.render.style import format_grouped
from kfmt_cli.rows.documents import WHAT_IF_ROW

SAMPLE_BYTES = 8 << 20  # bytes of records per partition, to try other codecs on
MIN_SAMPLE_BYTES = 64 << 10
MIN_LOG_SAMPLE_BYTES = 1 << 20  # at least this many of these bytes per log


@dataclass(frozen=True, slots=True)
class CodecTrial:
    """A codec to try."""

    name: str
    level: int | None = None
    """None for the producer's default."""

    @property
    def label(self) -> str:
        """Its name on the command line, such as zstd:3."""
        return self.name if self.level is None else f"{self.name}:{self.level}"


@dataclass(slots=True)
class CodecTrialResults:
    """Results of several codecs on the same sample."""

    codecs: tuple[CodecTrial, ...]
    record_bytes: int = 0
    """Bytes of records."""
    stored_bytes: int = 0
    """Bytes of the batches as they are stored."""
    bytes_by_codec: Counter[CodecTrial] = field(default_factory=Counter)
    """Bytes of the batches after recompression, by codec."""
    seconds_by_codec: dict[CodecTrial, float] = field(default_factory=lambda: defaultdict(float))
    """Compression time in seconds, by codec."""

    def add_sample(self, file: InputFile, limit: DecompressionLimit, max_bytes: int) -> None:
        """Try the codecs on the first records of a log, about `max_bytes` bytes; raises
        InputError."""
        end_bytes = self.record_bytes + max_bytes
        for block in read_blocks_from(file):
            is_valid = (block.batches.crc_valid == 1) & (block.batches.is_v2 == 1)
            block.batches = block.batches.select_rows(is_valid & (block.batches.control == 0))
            for decompressed_block in decompress_ahead(block, limit):
                data, starts, ends = decompressed_block.decompressed or (
                    decompressed_block.data,
                    decompressed_block.batches.start + BATCH_HEADER_BYTES,
                    decompressed_block.batches.end,
                )
                record_ranges = list(zip(starts.tolist(), ends.tolist(), strict=True))
                records = [data[start:end] for start, end in record_ranges]
                self.record_bytes += sum(map(len, records))
                self.stored_bytes += int(decompressed_block.batches.size.sum())
                for codec in self.codecs:
                    self._compress(codec, records)
            if self.record_bytes >= end_bytes:
                break

    def _compress(self, codec: CodecTrial, records: list[bytes]) -> None:
        start_time = time.perf_counter()
        for uncompressed in records:
            self.bytes_by_codec[codec] += BATCH_HEADER_BYTES + len(
                compress(codec.name, uncompressed, 2, codec.level)
            )
        self.seconds_by_codec[codec] += time.perf_counter() - start_time


def try_codecs(
    run: CommandRun,
    codecs: tuple[CodecTrial, ...],
    partitions: Sequence[Partition],
    limit: DecompressionLimit,
    total_bytes: int | None = None,
) -> None:
    """Show the result of each codec on a sample of each partition. total_bytes: limit for all
    samples, which skip partitions if there are many; None for full samples of all partitions."""
    results = CodecTrialResults(tuple(dict.fromkeys(codecs)))
    sample_bytes, step = SAMPLE_BYTES, 1
    if total_bytes is not None and partitions:
        sample_bytes = min(max(total_bytes // len(partitions), MIN_SAMPLE_BYTES), SAMPLE_BYTES)
        step = -(-len(partitions) * sample_bytes // total_bytes)
    for partition in partitions[::step] if codecs else ():
        log_bytes = max(
            sample_bytes // max(len(partition.logs), 1), min(sample_bytes, MIN_LOG_SAMPLE_BYTES)
        )
        end_bytes = results.record_bytes + sample_bytes
        with run.catch_unreadable():
            for file in partition.logs:
                results.add_sample(file, limit, log_bytes)
                if results.record_bytes >= end_bytes:
                    break
    for codec in codecs:
        _write_result(run, codec, results)


def _write_result(run: CommandRun, codec: CodecTrial, results: CodecTrialResults) -> None:
    compressed_bytes, seconds = results.bytes_by_codec[codec], results.seconds_by_codec[codec]
    saved = 1 - compressed_bytes / results.stored_bytes if results.stored_bytes else 0.0
    row: dict[str, object] = {
        "codec": codec.label,
        "sample_bytes": results.record_bytes,
        "stored_bytes": results.stored_bytes,
        "would_be_bytes": compressed_bytes,
        "saved": round(saved, 4),
        "seconds": round(seconds, 3),
    }
    comparison = "smaller" if saved >= 0 else "larger"
    line = (
        f"{codec.label}: {format_grouped(compressed_bytes)} bytes instead of "
        f"{format_grouped(results.stored_bytes)} for the "
        f"sample, {abs(saved):.1%} {comparison}"
    )
    if seconds:
        line += f"; compresses at {results.record_bytes / seconds / 1e6:.0f} MB/s"
    run.sink.write_document(WHAT_IF_ROW, row, [f"{line}\n"])
