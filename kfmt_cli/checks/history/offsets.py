"""The offsets that a partition must have, according to the files next to its logs and the
checkpoints of its log directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from kfmt_cli.broker.log_reading.offset_intervals import read_log_offsets
from kfmt_cli.broker.start.checkpoints import LEADER_EPOCH_CHECKPOINT, LOG_START_CHECKPOINT
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.checks.history.history_check import (
    CheckpointCheck,
    LogOffsetIntervals,
    format_first_names,
)
from kfmt_cli.disk.directory_listing import DirectoryListing, file_size, is_segment_log
from kfmt_cli.disk.kinds import classify_name
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND, PRODUCER_SNAPSHOT_KIND
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding


@dataclass(frozen=True)
class OffsetEvidence:
    """Evidence of a partition's offsets."""

    display_name: str
    """The partition, as displayed."""
    listing: DirectoryListing
    interval_by_base_offset: LogOffsetIntervals
    offset_by_checkpoint: Mapping[str, int]
    """The partition's offset in each checkpoint that is never above the log end offset."""
    log_start_offset: int
    is_compacted: bool | None
    """None if unknown."""
    epoch_start_offset: int | None = None
    """The start offset of the latest leader epoch."""
    damaged_base_offsets: frozenset[int] = frozenset()
    """Base offsets of logs with damage other than a missing end or zeros: their damaged
    batches still exist."""

    @cached_property
    def lost_offsets(self) -> list[tuple[int, int, str]]:
        """Ranges of lost offsets from the log start offset onward, each with its proof as text."""
        return [
            (max(first_offset, self.log_start_offset), last_offset, proof)
            for first_offset, last_offset, proof in self._iter_lost_offsets()
            if last_offset >= self.log_start_offset
        ]

    def _iter_lost_offsets(self) -> Iterator[tuple[int, int, str]]:
        files = [self.listing.input_file(file) for file in self.listing.files]
        log_by_base_offset = {
            file.base_offset_or_zero: file for file in files if is_segment_log(file)
        }
        base_offsets = sorted(log_by_base_offset)
        proven_lost_ranges: list[tuple[int, int]] = []
        for file in files:
            base_offset = file.base_offset
            is_offset_index = (
                file.kind is OFFSET_INDEX_KIND
                and not classify_name(file.path.rpartition("/")[2])[2]
            )
            if (
                not is_offset_index
                or base_offset is None
                or base_offset in log_by_base_offset
                or not file_size(file)
            ):
                continue
            next_base_offset = next(
                (
                    later_base_offset
                    for later_base_offset in base_offsets
                    if later_base_offset > base_offset
                ),
                None,
            )
            if next_base_offset is not None:
                proven_lost_ranges.append((base_offset, next_base_offset - 1))
                yield (
                    base_offset,
                    next_base_offset - 1,
                    f"{_file_name(file.name)} exists, but its log does not",
                )
        for base_offset, next_base_offset in (
            pairwise(base_offsets) if self.is_compacted is False else ()
        ):
            offset_interval = self.interval_by_base_offset.get(base_offset)
            if (
                offset_interval is None
                or offset_interval[1] > next_base_offset - 1
                or base_offset in self.damaged_base_offsets
            ):
                continue
            first_offset, last_offset = offset_interval[1], next_base_offset - 1
            if any(
                first_lost <= last_offset and last_lost >= first_offset
                for first_lost, last_lost in proven_lost_ranges
            ):
                continue
            log = log_by_base_offset[base_offset]
            log_end = f"ends at offset {offset_interval[1]}" if file_size(log) else "has 0 bytes"
            proof = f"{_file_name(log.name)} {log_end}, and the next segment starts at"
            message = f"{proof} {next_base_offset}; the topic is not compacted"
            yield first_offset, last_offset, message
        yield from self._iter_lost_after_log_end(base_offsets)

    def _iter_lost_after_log_end(self, base_offsets: list[int]) -> Iterator[tuple[int, int, str]]:
        """The offsets from the log end offset onward that a checkpoint or snapshot proves lost."""
        if not base_offsets or base_offsets[-1] not in self.interval_by_base_offset:
            return
        log_end_offset = self.interval_by_base_offset[base_offsets[-1]][1]
        if base_offsets[-1] in self.damaged_base_offsets:
            # A damaged batch is not missing: a start decides on its offsets.
            last_log = self.listing.input_file(f"{base_offsets[-1]:020}{LOG_KIND.suffix}")
            contained_intervals = read_log_offsets(last_log, base_offsets[-1]).contained_offsets(
                None
            )
            log_end_offset = max(
                [log_end_offset, *(last_offset + 1 for _, last_offset in contained_intervals)]
            )
        offset_by_file_name = dict(self.offset_by_checkpoint)
        if self.epoch_start_offset is not None:
            offset_by_file_name[LEADER_EPOCH_CHECKPOINT] = self.epoch_start_offset
        for listed_name in self.listing.files:
            kind, snapshot_offset, transient_suffix = classify_name(listed_name)
            if (
                kind is PRODUCER_SNAPSHOT_KIND
                and snapshot_offset is not None
                and not transient_suffix
            ):
                offset_by_file_name[listed_name] = snapshot_offset
        if not offset_by_file_name:
            return
        max_file_name = max(offset_by_file_name, key=lambda path: offset_by_file_name[path])
        if offset_by_file_name[max_file_name] > log_end_offset:
            proof = (
                f"log end offset {log_end_offset}, but {max_file_name} records "
                f"{offset_by_file_name[max_file_name]}"
            )
            yield log_end_offset, offset_by_file_name[max_file_name] - 1, proof


class OffsetsCheck:
    """A rule about which offsets a partition must have."""

    def check_evidence(self, evidence: OffsetEvidence) -> Iterable[Finding]:
        """Findings about a partition."""
        raise NotImplementedError


class LostOffsetsCheck(OffsetsCheck):
    """No offset from the log start offset onward is already lost."""

    def check_evidence(self, evidence: OffsetEvidence) -> Iterator[Finding]:
        for first_offset, last_offset, proof in evidence.lost_offsets:
            message = f"offsets {first_offset}–{last_offset} are already missing: {proof}"
            yield Finding(
                evidence.display_name, codes.OFFSETS_LOST, None, message, offset=first_offset
            )


class CheckpointOffsetsCheck(CheckpointCheck):
    """No checkpoint offset is above its log end offset, and each has its partition."""

    def check_directory(
        self,
        listing: DirectoryListing,
        log_directory: LogDirectory,
        intervals_by_partition: Mapping[tuple[str | None, int | None], LogOffsetIntervals],
        reported_end_by_partition: Mapping[tuple[str | None, int | None], int],
    ) -> Iterator[Finding]:
        for checkpoint_name, offset_by_partition in log_directory.offsets_by_checkpoint.items():
            file_name = listing.input_file(checkpoint_name).name
            missing_partitions = []
            for (topic, partition), checkpoint_offset in offset_by_partition.items():
                interval_by_base_offset = intervals_by_partition.get((topic, partition))
                if interval_by_base_offset is None:
                    missing_partitions.append(f"{topic}-{partition}")
                    continue
                log_end_offset = max(
                    (end_offset for _, end_offset in interval_by_base_offset.values()), default=None
                )
                if log_end_offset is None or checkpoint_offset <= log_end_offset:
                    continue
                is_log_start = checkpoint_name == LOG_START_CHECKPOINT
                if not is_log_start and checkpoint_offset <= reported_end_by_partition.get(
                    (topic, partition), 0
                ):
                    continue  # reported as offsets-lost
                code = codes.LOG_START_ABOVE_END if is_log_start else codes.CHECKPOINT_ABOVE_END
                message = (
                    f"{topic}-{partition}: checkpoint offset {checkpoint_offset}, log end offset "
                    f"{log_end_offset}"
                )
                yield Finding(
                    file_name,
                    code,
                    None,
                    message,
                    offset=checkpoint_offset,
                    expected=log_end_offset,
                    found=checkpoint_offset,
                )
            if missing_partitions:
                message = f"no directory for {format_first_names(missing_partitions)}"
                yield Finding(file_name, codes.CHECKPOINT_WITHOUT_PARTITION, None, message)


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]
