"""Check the logs of a partition in order, against each other and the files next to them.

Source: `org.apache.kafka.storage.internals.log.ProducerStateManager`, `ProducerAppendInfo`,
`org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict, replace

from kfmt_cli.broker.defaults import TRANSACTION_MAX_TIMEOUT_MS
from kfmt_cli.broker.transactions.producers import NONE, Event, Producer, Producers
from kfmt_cli.checks.history.facts import History, compare
from kfmt_cli.checks.history.scopes import HistoryCheck, HistoryFiles
from kfmt_cli.errors import InputError
from kfmt_cli.findings import history as codes
from kfmt_cli.findings.finding import Finding

# Fields of a producer in a snapshot that follow from the log alone.
_COMPARED = ("producer_epoch", "last_sequence", "last_offset", "current_txn_first_offset")


class PartitionHistory(HistoryCheck):
    """The logs agree on producers, transactions and leaders, with each other and with the files
    next to them."""

    codes = (
        *(codes.SEQUENCE_GAP, codes.SEQUENCE_REPEATED, codes.PRODUCER_EPOCH_BACK),
        *(codes.MARKER_ALONE, codes.TRANSACTION_OPEN, codes.TRANSACTION_HANGING),
        *(codes.TRANSACTION_MIXED, codes.LEADER_EPOCH_BACK, codes.LEADER_EPOCH_CONTRADICTED),
        *(codes.SNAPSHOT_CONTRADICTED, codes.DELETED_RECORDS_BACK),
    )

    def __init__(self, files: HistoryFiles) -> None:
        super().__init__(files)
        self._starts = [start for _, start in files.epochs or ()]
        self._snapshots = dict(files.snapshots)
        self._producers = Producers()
        self._begun: dict[int, tuple[str, Event]] = {}
        self._lasts: History | None = None
        self._has_holes = False
        self._start: int | None = None
        self._newest = -1
        self._has_deleted = False

    def take(self, history: History) -> Iterator[Finding]:
        """Add the next log; yields its findings."""
        yield from history.findings
        yield from self._snapshot(history.base)
        yield from self._sequences(history)
        yield from self._leaders(history)
        for event in history.events:
            yield from self._event(history.file, event)
        if self._start is None:
            self._start = history.start
        self._newest = max(self._newest, history.newest)
        if history.end is not None:
            self._has_holes |= history.holes > 0
            self._producers.end = history.end
            before, self._lasts = self._lasts, history
            if before is not None:
                lasts = {**before.lasts, **history.lasts}
                self._lasts = replace(history, lasts=lasts, epochs=history.epochs or before.epochs)

    def finish(self) -> Iterator[Finding]:
        """Findings after the last log."""
        yield from self._snapshot(self._producers.end)
        for file, event in self._begun.values():
            age = self._newest - event.timestamp
            late = event.timestamp >= 0 and age > TRANSACTION_MAX_TIMEOUT_MS
            words = (
                f"producer {event.producer_id}, epoch {event.producer_epoch}: the transaction "
                f"starting at offset {event.base_offset} is still open at the end of the log, "
                f"{max(age, 0) // 1000} s later"
            )
            code = codes.TRANSACTION_HANGING if late else codes.TRANSACTION_OPEN
            yield Finding(file, code, event.position, words, offset=event.base_offset)

    def _sequences(self, history: History) -> Iterator[Finding]:
        """Compare each producer's last batch in the earlier logs with its first in this one."""
        if self._lasts is None:
            return
        seam = (history.start or 0) - (self._lasts.end or 0)
        for producer, first in history.firsts.items():
            before = self._lasts.lasts.get(producer)
            if before is not None:
                holes = self._lasts.holes - before.holes + first.holes + max(seam, 0)
                yield from compare(history.file, before, first, holes)

    def _leaders(self, history: History) -> Iterator[Finding]:
        """Compare leader epochs with each other and with the checkpoint."""
        before = -1
        if self._lasts is not None and self._lasts.epochs:
            # An overlap has its own finding: the later segment is an older copy.
            overlaps = (history.start or 0) < (self._lasts.end or 0)
            before = -1 if overlaps else self._lasts.epochs[-1][0]
        for epoch, offset in history.epochs:
            if epoch < before:
                words = f"leader epoch {epoch} follows epoch {before}"
                yield Finding(history.file, codes.LEADER_EPOCH_BACK, None, words, offset=offset)
            before = epoch
            if self.files.epochs is None or offset < self.files.log_start:
                continue  # a broker drops the epochs of deleted records
            if self._starts and offset < self._starts[0]:
                yield from self._deleted(history.file, offset)
                continue
            row = bisect_right(self._starts, offset) - 1
            known = self.files.epochs[row][0] if row >= 0 else None
            if known != epoch:
                has = "no epoch" if known is None else f"epoch {known}"
                yield Finding(
                    history.file,
                    codes.LEADER_EPOCH_CONTRADICTED,
                    None,
                    f"the batch has leader epoch {epoch}; leader-epoch-checkpoint has {has}",
                    offset=offset,
                    expected=known,
                    found=epoch,
                )

    def _deleted(self, file: str, offset: int) -> Iterator[Finding]:
        """Report, once, records that are there although their epochs were dropped."""
        if self._has_deleted:
            return
        self._has_deleted = True
        words = f"the first leader epoch starts at offset {self._starts[0]}"
        yield Finding(
            *(file, codes.DELETED_RECORDS_BACK, None, words),
            offset=offset,
            expected=self._starts[0],
            found=self.files.log_start,
        )

    def _event(self, file: str, event: Event) -> Iterator[Finding]:
        producer = self._producers.of.get(event.producer_id, Producer())
        is_open = producer.current_txn_first_offset != NONE
        if event.control_type is not None:
            self._begun.pop(event.producer_id, None)
            if not is_open:
                words = (
                    f"marker of producer {event.producer_id} for a transaction with no records here"
                )
                found = event.base_offset
                yield Finding(file, codes.MARKER_ALONE, event.position, words, offset=found)
        elif event.transactional and not is_open:
            self._begun[event.producer_id] = file, event
        elif is_open and not event.transactional:
            words = (
                f"producer {event.producer_id}: non-transactional batch while its transaction "
                f"from offset {producer.current_txn_first_offset} is open"
            )
            yield Finding(
                file, codes.TRANSACTION_MIXED, event.position, words, offset=event.base_offset
            )
        self._producers.apply(event)

    def _snapshot(self, offset: int) -> Iterator[Finding]:
        """Compare the snapshot at an offset, if any, with the logs so far."""
        file = self._snapshots.pop(offset, None)
        if file is None or self._has_holes or self._producers.end != offset:
            return
        told = Producers()
        try:
            contents = file.contents()
        except InputError as error:
            self.files.unread(error)
            return
        if contents.findings:
            return
        told.load(contents.table, offset)
        for producer_id, state in told.of.items():
            known = self._producers.of.get(producer_id)
            if known is None or state.last_offset < (self._start or 0):
                continue
            here, there = asdict(known), asdict(state)
            for name in _COMPARED:
                if here[name] != there[name]:
                    yield Finding(
                        file.name,
                        codes.SNAPSHOT_CONTRADICTED,
                        None,
                        f"producer {producer_id}: {name} is {there[name]} in the snapshot, "
                        f"{here[name]} in the log",
                        expected=here[name],
                        found=there[name],
                    )
                    break
