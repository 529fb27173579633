"""The input and the result of a start on a partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES
from kfmt_cli.broker.start.recovery_segment import RecoverySegment
from kfmt_cli.broker.version import KafkaVersion
from kfmt_cli.disk.directory_listing import DirectoryListing


@dataclass(frozen=True, slots=True)
class LogLoaderInput:
    """The input of a start on a partition."""

    directory: DirectoryListing
    is_clean_shutdown: bool
    kafka_version: KafkaVersion
    """The version of the broker."""
    recovery_point: int = 0
    """The recovery point in the checkpoints, 0 if missing."""
    log_start_offset: int = 0
    """The log start offset in the checkpoints, 0 if missing."""
    unchanged_range_by_base: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Logs that recovery leaves unchanged: first offset and end offset by base offset."""
    bases_with_valid_index: frozenset[int] = frozenset()
    """Base offsets of segments with a valid index."""
    has_transactions: bool = False
    """Whether the unchanged logs contain transactions."""
    index_interval_bytes: int = DEFAULT_INDEX_INTERVAL_BYTES


@dataclass(slots=True)
class LoadedLog:
    """The result of a start on a partition."""

    segments: list[RecoverySegment]
    """The remaining segments, in order."""
    deleted_names: list[str]
    """File names, in order."""
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int | None = None
    """The last stable offset once all of the log is replicated."""

    def close(self) -> None:
        """Close the logs."""
        for segment in self.segments:
            segment.close()
