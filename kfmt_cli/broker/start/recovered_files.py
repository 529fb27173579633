"""The indexes and snapshots that a broker writes if it finds only the logs of a partition.

This is the start that `check` predicts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.broker.log_recovery import encode_fixed_size_rows
from kfmt_cli.broker.start.loaded_log import LogLoaderInput
from kfmt_cli.broker.start.log_loader import load_log
from kfmt_cli.broker.start.recovery_segment import RecoverySegment
from kfmt_cli.broker.transactions.producer_state import (
    ProducerStateManager,
)
from kfmt_cli.broker.version import OLDEST_VERSION
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.formats.index import ABORTED_TRANSACTION, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY


@dataclass(slots=True)
class RecoveredSegment:
    """A segment that remains after the start."""

    base_offset: int
    n_offset_entries: int
    """The number of entries in its offset index."""
    content_by_name: dict[str, bytes | None] = field(default_factory=dict)


def recover_partition(
    directory: DirectoryListing, index_interval_bytes: int, expired_up_to_ms: int | None
) -> tuple[list[RecoveredSegment], dict[int, bytes]]:
    """The remaining segments with their indexes, and the snapshots by offset.

    expired_up_to_ms: as for `ProducerStateManager.expire`, None to expire no producer. Raises
    StartError, InputError.
    """
    producer_state = ProducerStateManager(expired_up_to_ms=expired_up_to_ms)
    loaded_log = load_log(
        LogLoaderInput(
            directory,
            is_clean_shutdown=False,
            kafka_version=OLDEST_VERSION,
            has_transactions=True,
            index_interval_bytes=index_interval_bytes,
        ),
        producer_state,
    )
    loaded_log.close()
    recovered_segments = [encode_index_files(segment) for segment in loaded_log.segments]
    return recovered_segments, producer_state.encode_written_snapshots()


def encode_index_files(segment: RecoverySegment) -> RecoveredSegment:
    """The indexes of a recovered segment."""
    offsets, positions = (column.stored_values for column in segment.index_columns)
    time_entries = np.array(segment.time_entries, np.int64).reshape(-1, 2)
    index_columns = {"relative_offset": offsets - segment.base_offset, "log_position": positions}
    time_columns = {
        "timestamp": time_entries[:, 0],
        "relative_offset": time_entries[:, 1] - segment.base_offset,
    }
    transaction_entries = map(ABORTED_TRANSACTION.encode_row, segment.aborted_transactions)
    base_name = f"{segment.base_offset:020}"
    content_by_name: dict[str, bytes | None] = {
        f"{base_name}.index": encode_fixed_size_rows(OFFSET_INDEX_ENTRY, index_columns),
        f"{base_name}.timeindex": encode_fixed_size_rows(TIME_INDEX_ENTRY, time_columns),
        f"{base_name}.txnindex": b"".join(transaction_entries) or None,
    }
    return RecoveredSegment(segment.base_offset, len(offsets), content_by_name)
