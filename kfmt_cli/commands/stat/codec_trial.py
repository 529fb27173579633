"""Compresses a sample of the batches with other codecs."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from kfmt_cli.broker.log_reading.seek import read_blocks_from
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.core.codecs.compress import COMPRESSION_LEVELS, COMPRESSORS, compress
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.integers import parse_int
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import UsageError, unknown_name_error
from kfmt_cli.log.block import BATCH_HEADER_BYTES
from kfmt_cli.log.decompression import decompress_ahead
from kfmt_cli.render.style import format_thousands
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


def parse_codec_trial(codec_text: str) -> CodecTrial:
    """Parse CODEC[:LEVEL]; raises UsageError."""
    codec_name, separator, level_text = codec_text.partition(":")
    if codec_name not in COMPRESSORS:
        raise unknown_name_error("codec", codec_name, COMPRESSORS)
    if not separator:
        return CodecTrial(codec_name)
    level_range, level = COMPRESSION_LEVELS.get(codec_name), parse_int(level_text)
    if level_range is None or level is None or level not in level_range:
        levels_text = (
            "none" if level_range is None else f"{level_range.start} to {level_range.stop - 1}"
        )
        raise UsageError(f"--what-if {codec_text}: {codec_name} supports levels {levels_text}")
    return CodecTrial(codec_name, level)


@dataclass(slots=True)
class CodecTrialResults:
    """Results of several codecs on the same sample."""

    trials: tuple[CodecTrial, ...]
    record_bytes: int = 0
    """Bytes of records."""
    stored_bytes: int = 0
    """Bytes of the batches as they are stored."""
    bytes_by_trial: Counter[CodecTrial] = field(default_factory=Counter)
    """Bytes of the batches after recompression, by codec."""
    seconds_by_trial: dict[CodecTrial, float] = field(default_factory=lambda: defaultdict(float))
    """Compression time in seconds, by codec."""

    def add_sample(
        self, log_file: InputFile, decompression_limit: DecompressionLimit, max_bytes: int
    ) -> None:
        """Try the codecs on the first records of a log, about `max_bytes` bytes; raises
        InputError."""
        max_record_bytes = self.record_bytes + max_bytes
        for block in read_blocks_from(log_file):
            valid_mask = (block.batches.crc_valid == 1) & (block.batches.is_v2 == 1)
            block.batches = block.batches.select_rows(valid_mask & (block.batches.control == 0))
            for decompressed_block in decompress_ahead(block, decompression_limit):
                block_bytes, record_starts, record_ends = decompressed_block.decompressed or (
                    decompressed_block.data,
                    decompressed_block.batches.start + BATCH_HEADER_BYTES,
                    decompressed_block.batches.end,
                )
                record_ranges = list(zip(record_starts.tolist(), record_ends.tolist(), strict=True))
                batch_records = [
                    block_bytes[range_start:range_end] for range_start, range_end in record_ranges
                ]
                self.record_bytes += sum(map(len, batch_records))
                self.stored_bytes += int(decompressed_block.batches.size.sum())
                for trial in self.trials:
                    self._time_compression(trial, batch_records)
            if self.record_bytes >= max_record_bytes:
                break

    def _time_compression(self, trial: CodecTrial, batch_records: list[bytes]) -> None:
        start_seconds = time.perf_counter()
        for uncompressed_records in batch_records:
            self.bytes_by_trial[trial] += BATCH_HEADER_BYTES + len(
                compress(trial.name, uncompressed_records, 2, trial.level)
            )
        self.seconds_by_trial[trial] += time.perf_counter() - start_seconds


def try_codecs(
    run: CommandRun,
    trials: tuple[CodecTrial, ...],
    partitions: Sequence[Partition],
    decompression_limit: DecompressionLimit,
    max_total_bytes: int | None = None,
) -> None:
    """Show the result of each codec on a sample of each partition. max_total_bytes: limit for all
    samples, which skip partitions if there are many; None for full samples of all partitions."""
    trial_results = CodecTrialResults(tuple(dict.fromkeys(trials)))
    sample_bytes, partition_step = SAMPLE_BYTES, 1
    if max_total_bytes is not None and partitions:
        sample_bytes = min(max(max_total_bytes // len(partitions), MIN_SAMPLE_BYTES), SAMPLE_BYTES)
        partition_step = -(-len(partitions) * sample_bytes // max_total_bytes)
    for partition in partitions[::partition_step] if trials else ():
        log_sample_bytes = max(
            sample_bytes // max(len(partition.logs), 1), min(sample_bytes, MIN_LOG_SAMPLE_BYTES)
        )
        max_record_bytes = trial_results.record_bytes + sample_bytes
        with run.catch_input_errors():
            for log_file in partition.logs:
                trial_results.add_sample(log_file, decompression_limit, log_sample_bytes)
                if trial_results.record_bytes >= max_record_bytes:
                    break
    for trial in trials:
        _write_trial_result(run, trial, trial_results)


def _write_trial_result(
    run: CommandRun, trial: CodecTrial, trial_results: CodecTrialResults
) -> None:
    compressed_bytes, compression_seconds = (
        trial_results.bytes_by_trial[trial],
        trial_results.seconds_by_trial[trial],
    )
    saved_fraction = (
        1 - compressed_bytes / trial_results.stored_bytes if trial_results.stored_bytes else 0.0
    )
    row: dict[str, object] = {
        "codec": trial.label,
        "sample_bytes": trial_results.record_bytes,
        "stored_bytes": trial_results.stored_bytes,
        "would_be_bytes": compressed_bytes,
        "saved": round(saved_fraction, 4),
        "seconds": round(compression_seconds, 3),
    }
    comparison = "smaller" if saved_fraction >= 0 else "larger"
    line = (
        f"{trial.label}: {format_thousands(compressed_bytes)} bytes instead of "
        f"{format_thousands(trial_results.stored_bytes)} for the "
        f"sample, {abs(saved_fraction):.1%} {comparison}"
    )
    if compression_seconds:
        line += f"; compresses at {trial_results.record_bytes / compression_seconds / 1e6:.0f} MB/s"
    run.sink.write_document(WHAT_IF_ROW, row, [f"{line}\n"])
