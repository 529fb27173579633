"""A transaction in a partition, and how it ended."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter

from kfmt_cli.broker.transactions.batch_gaps import BatchGap
from kfmt_cli.broker.transactions.damaged_markers import DamagedMarker
from kfmt_cli.broker.transactions.decision_matching import Ending
from kfmt_cli.formats.control import ABORT, COMMIT

COMMITTED, ABORTED, OPEN_TRANSACTION, UNKNOWN = "committed", "aborted", "open", "unknown"
OUTCOME_BY_CONTROL_TYPE = {COMMIT: COMMITTED, ABORT: ABORTED}
_ANY_NUMBER = 1 << 62
_CONTROL_TYPE_BY_OUTCOME = {COMMITTED: COMMIT, ABORTED: ABORT}
MARKER, DAMAGED_MARKER, TRANSACTION_INDEX = "marker", "damaged marker", "transaction index"
COORDINATOR_LOG = "coordinator log"


@dataclass(slots=True)
class Transaction:
    """A transaction of one producer in one partition."""

    producer_id: int
    producer_epoch: int
    first_offset: int | None = None
    """The first offset of its records, None if the log has none of them."""
    last_offset: int | None = None
    """The last offset of its records, None if the log has none of them."""
    records: int = 0
    """Records that remain in the log."""
    batches: int = 0
    """Batches that remain in the log."""
    start_timestamp: int | None = None
    """The timestamp of its first batch."""
    end_timestamp: int | None = None
    """The timestamp of its marker, or of its last batch if it is open."""
    last_known_open_ms: int | None = None
    """A time, by the broker's clock, at which it was open; None if unknown."""
    outcome: str = OPEN_TRANSACTION
    """`UNKNOWN` if damage hides whether and how it ended, and no other file shows it."""
    evidence: str | None = None
    """What shows the outcome; None if it is open or unknown."""
    marker_offset: int | None = None
    """The offset of its marker; None if unknown."""
    marker_epoch: int | None = None
    """The producer epoch of its marker; None if unknown."""
    damaged_marker: DamagedMarker | None = None
    """The marker, if it can be read from a damaged batch."""
    last_gap: BatchGap | None = None
    """The damaged gaps after its last batch, as one."""

    @property
    def aborted_range(self) -> tuple[int, int] | None:
        """The offsets of its first batch and its ABORT marker, if the log has both."""
        if self.outcome != ABORTED or self.first_offset is None or self.marker_offset is None:
            return None
        return self.first_offset, self.marker_offset


def create_endings(
    transactions: Iterable[Transaction],
    producer_ids: Collection[int],
    damaged_gaps: Sequence[tuple[int, int]],
    *,
    starts_whole: bool,
    is_compacted: bool,
) -> dict[int, dict[int, Ending]]:
    """The ends of some producers' transactions, by producer id, then by the offset of their first
    record or, without one, of their marker.

    transactions: in order. damaged_gaps: the first and last offsets of damage, in order.
    starts_whole: whether the log still has its first offset. is_compacted: whether the log cleaner
    has removed offsets.
    """
    endings_by_producer: dict[int, dict[int, Ending]] = {id_: {} for id_ in producer_ids}
    previous_end_by_producer: dict[int, int] = {}
    for transaction in transactions:
        producer_id = transaction.producer_id
        endings = endings_by_producer.get(producer_id)
        if endings is None:
            continue
        marker_offset, start = transaction.marker_offset, transaction.first_offset
        start = marker_offset or 0 if start is None else start
        previous_end = previous_end_by_producer.get(producer_id, -1)
        n_lost = _ANY_NUMBER if is_compacted or not (endings or starts_whole) else 0
        first_gap = bisect_right(damaged_gaps, previous_end, key=itemgetter(1))
        for first_offset, last_offset in islice(damaged_gaps, first_gap, None):
            if first_offset >= start:
                break
            n_lost += last_offset - first_offset + 1
        control_type = _CONTROL_TYPE_BY_OUTCOME.get(transaction.outcome)
        marker_epoch = transaction.marker_epoch
        endings[start] = Ending(
            None if transaction.first_offset is None else transaction.producer_epoch,
            None if marker_epoch is None else control_type,
            -1 if marker_epoch is None else marker_epoch,
            transaction.end_timestamp or -1,
            n_lost,
        )
        previous_end_by_producer[producer_id] = marker_offset or transaction.last_offset or 0
    return endings_by_producer
