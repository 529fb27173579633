"""A log's history of producers and leaders, in a few rows: one log at a time, in any process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kfmt_cli.broker.transactions.producers import Event, events_of
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.findings import history as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import MAX_SEQUENCE
from kfmt_cli.log.block import Block
from kfmt_cli.log.pack import Pack
from kfmt_cli.rows.log_tables import BatchTable

_SEQUENCE = (
    *("producer_id", "producer_epoch", "base_sequence", "last_sequence", "base_offset"),
    "position",
)

# Large odd numbers; sums of 2^24 batches of 40 bits fit.
_FACTORS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD)))
_KEPT_BITS = np.uint64((1 << 40) - 1)
UintArray = NDArray[np.uint64]


class LogPrint(NamedTuple):
    """What identifies the batches of a log among those of other replicas."""

    base: int
    """The base offset in its name."""
    fingerprint: int
    epochs: tuple[tuple[int, int], ...]
    """Leader epochs, each with its first offset."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A producer's batch with sequence numbers."""

    producer_id: int
    epoch: int
    first: int
    last: int
    offset: int
    position: int
    holes: int
    """Offsets without a record in the log, up to the end of this batch."""


@dataclass(slots=True)
class History:
    """The history of a log."""

    file: str
    base: int
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """Each leader epoch with its first offset, in log order."""
    firsts: dict[int, Numbered] = field(default_factory=dict)
    """The first numbered batch of each producer."""
    lasts: dict[int, Numbered] = field(default_factory=dict)
    """The last numbered batch of each producer."""
    events: list[Event] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    holes: int = 0
    """Offsets without a record, in total."""
    start: int | None = None
    end: int | None = None
    """The offset after its last batch."""
    newest: int = -1
    fingerprint: int | None = None
    """Of the undamaged batches: logs with the same batches have the same one. None if it is not
    wanted, as only a comparison of replicas needs it."""

    @property
    def print(self) -> LogPrint | None:
        """What identifies its batches, if it has a fingerprint."""
        if self.fingerprint is None:
            return None
        return LogPrint(self.base, self.fingerprint, tuple(self.epochs))

    @property
    def has_transactions(self) -> bool:
        """Whether any batch belongs to a transaction or ends one."""
        return any(event.control_type is not None or event.transactional for event in self.events)

    def take(self, block: Block) -> None:
        """Add the next block of the log."""
        batches = block.batches
        if self.fingerprint is not None:
            self.fingerprint += int(np.add.reduce(_prints(batches)))
        sane = (batches.crc_valid == 1) & (batches.is_v2 == 1)
        sane &= batches.last_offset >= batches.base_offset
        if not sane.all():
            block = Block(block.name, block.data, block.position, batches.select(sane))
            batches = block.batches
        if not len(batches):
            return
        self._epochs(batches)
        holes = self._holes(batches)
        self.newest = int(batches.max_timestamp.max(initial=self.newest))
        chosen = np.flatnonzero(batches.producer_id >= 0)
        if len(chosen):
            data = chosen[batches.control[chosen] == 0]
            numbered = data[batches.base_sequence[data] >= 0]
            if len(numbered):
                self._sequences(batches, numbered, holes)
            self._events(block, chosen, data)

    def _epochs(self, batches: BatchTable) -> None:
        epochs = batches.partition_leader_epoch
        known = np.flatnonzero(epochs >= 0)
        if not len(known):
            return
        before = self.epochs[-1][0] if self.epochs else -1
        values = epochs[known]
        for i in np.flatnonzero(np.diff(values, prepend=before)).tolist():
            self.epochs.append((int(values[i]), int(batches.base_offset[known[i]])))

    def _holes(self, batches: BatchTable) -> IntArray:
        """The offsets without a record up to each batch's end, itself included."""
        base, last = batches.base_offset, batches.last_offset
        first = base[:1] - 1 if self.end is None else [self.end - 1]
        before = np.concatenate([first, last[:-1]])
        missing = (base - before - 1).clip(0) + (last - base + 1 - batches.records_count).clip(0)
        holes: IntArray = np.cumsum(missing) + self.holes
        self.holes = int(holes[-1])
        if self.start is None:
            self.start = int(base[0])
        self.end = int(last[-1]) + 1
        return holes

    def _sequences(self, batches: BatchTable, rows: IntArray, holes: IntArray) -> None:
        order = rows[np.argsort(batches.producer_id[rows], kind="stable")]
        columns = {name: batches[name][order] for name in _SEQUENCE}
        gaps = columns["holes"] = holes[order]
        ids = columns["producer_id"]
        same = ids[1:] == ids[:-1]
        edges = np.concatenate([[0], np.flatnonzero(~same) + 1, [len(ids)]])
        # Only pairs with an unexpected epoch or sequence are compared one by one.
        wanted = (columns["last_sequence"][:-1] + 1) & MAX_SEQUENCE
        epochs = np.diff(columns["producer_epoch"])
        odd = same & ((epochs < 0) | ((epochs == 0) & (columns["base_sequence"][1:] != wanted)))

        def at(i: int) -> Numbered:
            return Numbered(*(int(column[i]) for column in columns.values()))

        for i in np.flatnonzero(odd).tolist():
            self.findings += compare(self.file, at(i), at(i + 1), int(gaps[i + 1]) - int(gaps[i]))
        for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            one = at(first)
            known = self.lasts.get(one.producer_id)
            if known is not None:
                self.findings += compare(self.file, known, one, one.holes - known.holes)
            self.firsts.setdefault(one.producer_id, one)
            self.lasts[one.producer_id] = at(end - 1)

    def _events(self, block: Block, chosen: IntArray, data: IntArray) -> None:
        """Add what changes producer state; of plain batches, only each producer's last."""
        batches = block.batches
        keep = np.zeros(len(batches), np.bool_)
        told = batches.transactional[chosen] == 1
        keep[chosen[told | (batches.control[chosen] == 1)]] = True
        plain = data[batches.transactional[data] == 0]
        # A producer that does both is followed batch by batch.
        both = np.isin(batches.producer_id[plain], batches.producer_id[chosen[told]])
        keep[plain[both]] = True
        _, from_end = np.unique(batches.producer_id[plain][::-1], return_index=True)
        keep[plain[::-1][from_end]] = True
        self.events += events_of(block, np.flatnonzero(keep))


def compare(file: str, one: Numbered, other: Numbered, holes: int) -> Iterator[Finding]:
    """Findings about a producer's batch and its next one."""
    named = f"producer {other.producer_id}"
    code, words = None, ""
    if other.epoch < one.epoch:
        code = codes.PRODUCER_EPOCH_BACK
        words = f"{named}: epoch {other.epoch} follows epoch {one.epoch} at offset {one.offset}"
    elif other.epoch == one.epoch and other.first != (one.last + 1) & MAX_SEQUENCE:
        repeated = other.first <= one.last and one.last - other.first < MAX_SEQUENCE // 2
        code = codes.SEQUENCE_REPEATED if repeated else codes.SEQUENCE_GAP
        words = (
            f"{named}: sequence {other.first} follows {one.first}–{one.last} at offset {one.offset}"
        )
        if holes and not repeated:
            return  # compaction removed the records between them
    if code is not None:
        yield Finding(file, code, other.position, words, offset=other.offset)


def histories(pack: Pack, *, prints: bool) -> list[History | None]:
    """The history of each good log of a pack; None for any other. prints: with fingerprints."""
    plain = _plain(pack.batches, pack.owner, len(pack.files))
    sums = np.cumsum(_prints(pack.batches)) if prints else None
    found: list[History | None] = []
    for i, (first, end) in enumerate(pack.bounds()):
        if not pack.good[i]:
            found.append(None)
            continue
        history = History(pack.files[i].name, pack.files[i].base)
        history.fingerprint = 0 if prints else None
        if plain[i]:
            _fill_plain(history, pack.batches, first, end)
            if sums is not None and first < end:
                before = int(sums[first - 1]) if first else 0
                history.fingerprint = int(sums[end - 1]) - before
        else:
            history.take(pack.block(i))
        found.append(history)
    return found


def _prints(batches: BatchTable) -> UintArray:
    """A number for each batch, by its last offset, leader epoch and checksum; 0 if damaged."""
    mixed = batches.last_offset.astype(np.uint64) * _FACTORS[0]
    mixed += batches.partition_leader_epoch.astype(np.uint64) * _FACTORS[1]
    mixed += batches.crc.astype(np.uint64)
    mixed *= _FACTORS[2]
    mixed ^= mixed >> np.uint64(29)
    mixed *= (batches.crc_valid == 1).astype(np.uint64)
    kept: UintArray = mixed & _KEPT_BITS
    return kept


def _plain(batches: BatchTable, owner: IntArray, n: int) -> BoolArray:
    """Which logs have no producer ids and only one leader epoch."""
    plain = np.ones(n, np.bool_)
    plain[owner[batches.producer_id >= 0]] = False
    epochs = batches.partition_leader_epoch
    changes = (np.diff(epochs) != 0) & (np.diff(owner) == 0)
    plain[owner[1:][changes]] = False
    return plain


def _fill_plain(history: History, batches: BatchTable, first: int, end: int) -> None:
    if first == end:
        return
    history.start = int(batches.base_offset[first])
    history.end = int(batches.last_offset[end - 1]) + 1
    epoch = int(batches.partition_leader_epoch[first])
    if epoch >= 0:
        history.epochs.append((epoch, history.start))
