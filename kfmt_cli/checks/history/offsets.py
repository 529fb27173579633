"""The offsets that a partition must have, according to the files next to its logs and the
checkpoints of its log directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from kfmt_cli.broker.start.checkpoints import LEADER_EPOCH_CHECKPOINT
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.start.log_directory_files import LOG_START_CHECKPOINT
from kfmt_cli.broker.start.offset_intervals import read_log_offsets
from kfmt_cli.checks.base import Check
from kfmt_cli.checks.history.history_check import (
    CheckpointCheck,
    LogOffsetIntervals,
    format_first_names,
)
from kfmt_cli.disk.directory_listing import DirectoryListing, file_size, is_segment_log
from kfmt_cli.disk.kinds import classify_name
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND, PRODUCER_SNAPSHOT_KIND
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.findings import history as codes
from kfmt_cli.findings.finding import Finding


@dataclass(frozen=True)
class OffsetEvidence:
    """Evidence of a partition's offsets."""

    display_name: str
    """The partition, as displayed."""
    listing: DirectoryListing
    offset_intervals: LogOffsetIntervals
    checkpoint_offsets: Mapping[str, int]
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
            (max(first, self.log_start_offset), last, proof)
            for first, last, proof in self._iter_lost_offsets()
            if last >= self.log_start_offset
        ]

    def _iter_lost_offsets(self) -> Iterator[tuple[int, int, str]]:
        files = [self.listing.input_file(file) for file in self.listing.files]
        log_by_base_offset = {file.base_or_zero: file for file in files if is_segment_log(file)}
        base_offsets = sorted(log_by_base_offset)
        proven_ranges: list[tuple[int, int]] = []
        for file in files:
            base_offset = file.base_offset
            is_index = (
                file.kind is OFFSET_INDEX_KIND
                and not classify_name(file.path.rpartition("/")[2])[2]
            )
            if (
                not is_index
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
                proven_ranges.append((base_offset, next_base_offset - 1))
                yield (
                    base_offset,
                    next_base_offset - 1,
                    f"{_file_name(file.name)} exists, but its log does not",
                )
        for base_offset, next_base_offset in (
            pairwise(base_offsets) if self.is_compacted is False else ()
        ):
            offset_interval = self.offset_intervals.get(base_offset)
            if (
                offset_interval is None
                or offset_interval[1] > next_base_offset - 1
                or base_offset in self.damaged_base_offsets
            ):
                continue
            first, last = offset_interval[1], next_base_offset - 1
            if any(
                first_proven <= last and last_proven >= first
                for first_proven, last_proven in proven_ranges
            ):
                continue
            fact = (
                "has 0 bytes"
                if not file_size(log_by_base_offset[base_offset])
                else f"ends at offset {offset_interval[1]}"
            )
            proof = (
                f"{_file_name(log_by_base_offset[base_offset].name)} {fact}, and the next segment "
                f"starts at {next_base_offset}"
            )
            yield first, last, f"{proof}; the topic is not compacted"
        yield from self._iter_lost_after_end(base_offsets)

    def _iter_lost_after_end(self, base_offsets: list[int]) -> Iterator[tuple[int, int, str]]:
        """The offsets from the log end offset onward that a checkpoint or snapshot proves lost."""
        if not base_offsets or base_offsets[-1] not in self.offset_intervals:
            return
        log_end_offset = self.offset_intervals[base_offsets[-1]][1]
        if base_offsets[-1] in self.damaged_base_offsets:
            # A damaged batch is not missing: a start decides on its offsets.
            file = self.listing.input_file(f"{base_offsets[-1]:020}{LOG_KIND.suffix}")
            intervals = read_log_offsets(file, base_offsets[-1]).contained_offsets(None)
            log_end_offset = max([log_end_offset, *(last + 1 for _, last in intervals)])
        offset_by_file_name = dict(self.checkpoint_offsets)
        if self.epoch_start_offset is not None:
            offset_by_file_name[LEADER_EPOCH_CHECKPOINT] = self.epoch_start_offset
        for name in self.listing.files:
            kind, file_offset, is_transient = classify_name(name)
            if kind is PRODUCER_SNAPSHOT_KIND and file_offset is not None and not is_transient:
                offset_by_file_name[name] = file_offset
        if not offset_by_file_name:
            return
        file_name = max(offset_by_file_name, key=lambda path: offset_by_file_name[path])
        if offset_by_file_name[file_name] > log_end_offset:
            proof = (
                f"log end offset {log_end_offset}, but {file_name} records "
                f"{offset_by_file_name[file_name]}"
            )
            yield log_end_offset, offset_by_file_name[file_name] - 1, proof


class OffsetsCheck(Check):
    """A rule about which offsets a partition must have."""

    def check_evidence(self, evidence: OffsetEvidence) -> Iterable[Finding]:
        """Findings about a partition."""
        raise NotImplementedError


class LostOffsetsCheck(OffsetsCheck):
    """No offset from the log start offset onward is already lost."""

    codes = (codes.OFFSETS_LOST,)

    def check_evidence(self, evidence: OffsetEvidence) -> Iterator[Finding]:
        for first, last, proof in evidence.lost_offsets:
            message = f"offsets {first}–{last} are already missing: {proof}"
            yield Finding(evidence.display_name, codes.OFFSETS_LOST, None, message, offset=first)


class CheckpointOffsetsCheck(CheckpointCheck):
    """No checkpoint offset is above its log end offset, and each has its partition."""

    codes = (
        codes.LOG_START_ABOVE_END,
        codes.CHECKPOINT_ABOVE_END,
        codes.CHECKPOINT_WITHOUT_PARTITION,
    )

    def check_directory(
        self,
        listing: DirectoryListing,
        directory: LogDirectory,
        offset_intervals: Mapping[tuple[str | None, int | None], LogOffsetIntervals],
        reported_end_offsets: Mapping[tuple[str | None, int | None], int],
    ) -> Iterator[Finding]:
        for checkpoint_name, offset_by_partition in directory.offsets_by_checkpoint.items():
            file_name = listing.input_file(checkpoint_name).name
            missing_partitions = []
            for (topic, partition), offset in offset_by_partition.items():
                log_intervals = offset_intervals.get((topic, partition))
                if log_intervals is None:
                    missing_partitions.append(f"{topic}-{partition}")
                    continue
                log_end_offset = max((end for _, end in log_intervals.values()), default=None)
                if log_end_offset is None or offset <= log_end_offset:
                    continue
                is_log_start = checkpoint_name == LOG_START_CHECKPOINT
                if not is_log_start and offset <= reported_end_offsets.get((topic, partition), 0):
                    continue  # reported as offsets-lost
                code = codes.LOG_START_ABOVE_END if is_log_start else codes.CHECKPOINT_ABOVE_END
                message = (
                    f"{topic}-{partition}: checkpoint offset {offset}, log end offset "
                    f"{log_end_offset}"
                )
                yield Finding(
                    file_name,
                    code,
                    None,
                    message,
                    offset=offset,
                    expected=log_end_offset,
                    found=offset,
                )
            if missing_partitions:
                message = f"no directory for {format_first_names(missing_partitions)}"
                yield Finding(file_name, codes.CHECKPOINT_WITHOUT_PARTITION, None, message)


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]
