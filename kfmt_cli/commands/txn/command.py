"""txn: the transactions of partitions, open ones first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from pathlib import Path

from kfmt_cli.broker.defaults import TRANSACTION_MAX_TIMEOUT_MS
from kfmt_cli.broker.state import replay_of
from kfmt_cli.broker.transactions.transactions import OPEN, Transaction, Transactions
from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.commands.each_partition import each_partition
from kfmt_cli.commands.run import Cells, Run, in_pieces
from kfmt_cli.commands.state.internal_topics import taken
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.times import time_text
from kfmt_cli.disk.names import place_of
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.tree import Folder, listing
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Findings, is_error
from kfmt_cli.render.style import grouped, safe
from kfmt_cli.rows.documents import TRANSACTIONS, row_of
from kfmt_cli.rows.types.transaction import TRANSACTION

COORDINATOR = "__transaction_state"
# States in which the coordinator will still end a transaction.
GOING_ON = ("Ongoing", "PrepareCommit", "PrepareAbort")


@dataclass(slots=True)
class Coordinators:
    """What __transaction_state says in a log directory."""

    states: dict[int, Fields] = field(default_factory=dict)
    """By producer id."""
    is_damaged: bool = False
    """Whether a state may be older than the last one written."""


@dataclass(slots=True)
class ShowTransactions:
    """One call of `txn`."""

    run: Run
    only_open: bool = False
    """Show only open transactions, and for people only partitions that have some."""
    counts_first: bool = False
    """Show the summary before the transactions."""
    _known: dict[Path, Coordinators] = field(default_factory=dict)
    _told: set[Path] = field(default_factory=set)
    """The logs whose findings have been reported."""
    _n_shown: int = 0
    _n_passed_over: int = 0
    """Number of partitions without such transactions."""

    def paths(self, paths: tuple[str, ...]) -> None:
        """Show the transactions of every partition under some paths."""
        each_partition(self.run, paths, self.partition, reads_all=True)
        if self._n_passed_over and not self._n_shown:
            self.run.sink.remark(f"no {'open ' if self.only_open else ''}transactions")

    def partition(self, partition: Partition) -> None:
        """Show the transactions of a partition, reading it once for open ones, then for others."""
        sink = self.run.sink
        following = Transactions()
        counts = {"committed": 0, "aborted": 0, OPEN: 0}
        for transaction in self._follow(partition, following, tell=True):
            counts[transaction.outcome] += 1
        counts[OPEN] = len(following.open)
        n_wanted = counts[OPEN] if self.only_open else sum(counts.values())
        if not n_wanted and sink.for_people and not partition.given:
            self._n_passed_over += 1
            return
        self._n_shown += 1
        known = self._coordinators(partition.log_directory)
        begun = sorted(
            following.open.values(), key=lambda transaction: transaction.first_offset or 0
        )
        opened = (self._row(partition, transaction, following, known) for transaction in begun)
        ended: Iterator[Cells] = iter(())
        if not self.only_open:
            again = self._follow(partition, Transactions(), tell=False)
            ended = (self._row(partition, transaction, following, known) for transaction in again)
        if self.counts_first:
            self.run.sink.put(f"{safe(partition.name)}: ")
            self._summary(partition, counts, following)
        pieces = in_pieces(chain(opened, ended))
        self.run.rows(partition.name, TRANSACTION, pieces, ("transaction", "transactions"))
        if not self.counts_first:
            self._summary(partition, counts, following)

    def _follow(
        self, partition: Partition, following: Transactions, tell: bool
    ) -> Iterator[Transaction]:
        """The transactions that end in the logs of a partition. tell: also report findings."""
        findings = Findings(self.run.most_findings)
        for file in partition.logs:
            is_new = tell and self._is_new(partition.folder / Path(file.path).name)
            with open_checked(file, read_ahead=False) as log:
                for block in log.blocks:
                    yield from following.take(block)
                    if is_new:
                        self.run.tell(block.findings, findings)
        if tell:
            self.run.left_out(partition.name, findings)

    def _is_new(self, log: Path) -> bool:
        """Whether the findings of a log have not been reported yet."""
        is_new = log not in self._told
        self._told.add(log)
        return is_new

    def _row(
        self,
        partition: Partition,
        transaction: Transaction,
        following: Transactions,
        known: Coordinators,
    ) -> Cells:
        about = known.states.get(transaction.producer_id)
        is_open = transaction.outcome == OPEN
        end = None if is_open else transaction.end
        since = max(following.newest, transaction.start or 0) if is_open else None
        values: dict[str, object] = {
            "hanging": _is_hanging(partition, transaction, following, known) if is_open else None,
            "transactional_id": None if about is None else about.transactional_id,
            "marker_offset": transaction.marker,
            "duration_ms": _between(transaction.start, end),
            "start_timestamp": transaction.start,
            "end_timestamp": end,
            "open_for_ms": _between(transaction.start, since),
            "holds_last_stable_offset": int(transaction is following.holder),
        }
        return tuple(map(_cell, row_of(TRANSACTION, transaction, values).values()))

    def _summary(
        self, partition: Partition, counts: dict[str, int], following: Transactions
    ) -> None:
        stable = following.last_stable_offset
        row: dict[str, object] = {"file": partition.name, **counts}
        row |= {"last_stable_offset": stable, "log_end_offset": following.log_end}
        words = ", ".join(f"{grouped(n)} {name}" for name, n in counts.items())
        line = f"{words}; last stable offset {stable}, log end offset {following.log_end}"
        if following.holder is not None:
            line += f"; held back by producer {following.holder.producer_id}"
        if following.open:
            newest = time_text(following.newest)
            line += f"; open times are measured up to the partition's newest record, {newest}"
        self.run.sink.document(TRANSACTIONS, row, [f"{line}\n"])

    def _coordinators(self, log_directory: Path) -> Coordinators:
        """The state of __transaction_state in a log directory; reports damage in it."""
        if log_directory in self._known:
            return self._known[log_directory]
        known = self._known[log_directory] = Coordinators()
        with self.run.complaining():
            for name in listing(str(log_directory)).partitions:
                if place_of(name)[0] == COORDINATOR:
                    with self.run.complaining():
                        self._learn(known, listing(str(log_directory / name)))
        return known

    def _learn(self, known: Coordinators, folder: Folder) -> None:
        """Add the states in a partition of __transaction_state."""
        replay, findings = replay_of(COORDINATOR), Findings(self.run.most_findings)
        for log in folder.logs:
            is_new = self._is_new(Path(log.path))
            try:
                for finding in taken(replay, log):
                    known.is_damaged |= is_error(finding)
                    if is_new:
                        self.run.tell([finding], findings)
            except InputError as error:
                known.is_damaged = True
                self.run.complain(str(error))
        self.run.left_out(folder.name, findings)
        ids = [Fields(row) for _, row in replay.rows()]
        ids.sort(key=attrgetter("transactional_id"))
        known.states |= {of.producer_id: of for of in ids}


def _cell(value: object) -> str | int | None:
    return value if value is None or isinstance(value, str) else int(value)  # type: ignore[call-overload]


def _between(start: int | None, end: int | None) -> int | None:
    """Milliseconds from start to end; None if one is unknown, or if they overflow."""
    passed = None if start is None or end is None else end - start
    return None if passed is None or passed.bit_length() > 63 else passed


def _goes_on(partition: Partition) -> bool:
    """Whether the directory has logs after the last one given."""
    last = max(log.base for log in partition.logs)
    return any(log.base > last for log in listing(str(partition.folder)).logs)


def _is_hanging(
    partition: Partition,
    transaction: Transaction,
    following: Transactions,
    known: Coordinators,
) -> bool | None:
    """Whether an open transaction will never end; None if unknown.

    A coordinator ends it while it has the transaction as open with this partition. Without
    coordinator state, one is hanging if it has been open for longer than the longest timeout at the
    log's end, by the broker's clock: producers' clocks prove nothing.
    """
    if partition.given and _goes_on(partition):
        return None  # its end may be in a log that was not given
    about = known.states.get(transaction.producer_id)
    if about is None:
        seen = transaction.seen
        late = seen is not None and following.stamped - seen > TRANSACTION_MAX_TIMEOUT_MS
        return True if late else None
    if known.is_damaged:
        return None  # a later state may be lost
    here = any((of["topic"], of["partition"]) == partition.place for of in about.partitions)
    return about.state not in GOING_ON or not here
