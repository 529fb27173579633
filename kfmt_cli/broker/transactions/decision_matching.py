"""Which of a coordinator's decisions ended a transaction whose marker is lost.

The markers of a producer in a partition follow one another as the coordinator decided. Both
sequences are aligned in every way that the types, epochs and times of the readable markers allow. A
transaction has an outcome if it is the same in all alignments. The clocks of two brokers may
differ, but by the same time for all markers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kfmt_cli.broker.transactions.coordinator_log import (
    Decision,
    ProducerHistory,
    read_producer_histories,
)
from kfmt_cli.disk.input_paths import InputPath
from kfmt_cli.errors import InputError

_MAX_CLOCK_SKEW_MS = 60_000
_MAX_NEIGHBOURS = 64  # markers on each side
_MAX_DECISIONS = 1000  # of a producer, while these were written
_MAX_STATES = 5000
_CLOCK_DRIFT_MS = 5
_BEFORE = -1  # the decision is older than the history


class Ending(NamedTuple):
    """The end of a producer's transaction in a log, in log order."""

    records_epoch: int | None
    """The epoch of its records; None if the log has none of them."""
    control_type: int | None = None
    """The type of its marker; None if that is lost, or if the transaction is open."""
    marker_epoch: int = -1
    marker_ms: int = -1
    """The marker's timestamp, by the clock of the partition's leader."""
    n_lost_before: int = 0
    """How many transactions may have been lost before it, at most."""


class _State(NamedTuple):
    """How the endings so far are matched."""

    decision: int
    """The index of the last one's decision; `_BEFORE`, or their number if it is newer than all."""
    min_skew_ms: int = -_MAX_CLOCK_SKEW_MS
    max_skew_ms: int = _MAX_CLOCK_SKEW_MS
    """By how much the clock of the partition's leader is ahead of the coordinator's."""
    continues: bool = False
    """Whether the transaction continues after the gap: the next ending is its own."""
    answer: int = _BEFORE
    """The index of the decision about the transaction in question."""

    def narrow(self, min_skew_ms: int, max_skew_ms: int) -> _State:
        """The same, also with other limits of the skew."""
        return self._replace(
            min_skew_ms=max(self.min_skew_ms, min_skew_ms),
            max_skew_ms=min(self.max_skew_ms, max_skew_ms),
        )


ReadEndings = Callable[[set[int]], dict[int, dict[int, Ending]]]


def find_decisions(
    log_path: str,
    user_paths: Sequence[InputPath | str],
    transactions: Sequence[tuple[int, int]],
    read_endings: ReadEndings,
) -> list[Decision | None]:
    """The decisions about transactions whose markers are lost; None if no coordinator's log shows
    it, or if two contradict each other.

    transactions: producer id and first offset of each. read_endings: returns the ends of some
    producers' transactions in the partition, in order, by producer id and first offset.
    """
    producer_ids = {producer_id for producer_id, _ in transactions}
    histories = [
        history_by_producer
        for history_by_producer in read_producer_histories(log_path, user_paths, producer_ids)
        if history_by_producer
    ]
    try:
        endings_by_producer = read_endings(producer_ids) if histories else {}
    except InputError:
        endings_by_producer = {}
    decisions: list[Decision | None] = []
    for producer_id, first_offset in transactions:
        endings = endings_by_producer.get(producer_id, {})
        possible: dict[int, Decision] = {}
        for history_by_producer in histories if first_offset in endings else ():
            if producer_id in history_by_producer:
                decision = find_decision(
                    list(endings.values()),
                    list(endings).index(first_offset),
                    history_by_producer[producer_id],
                )
                if decision is not None:
                    possible[decision.control_type] = decision
        decisions.append(next(iter(possible.values())) if len(possible) == 1 else None)
    return decisions


def find_decision(
    endings: Sequence[Ending], index: int, history: ProducerHistory
) -> Decision | None:
    """The decision that ended a transaction; None if decisions with different outcomes are
    possible.

    endings: the producer's endings in a partition, in order. index: the index of the transaction's
    ending.
    """
    first = max(index - _MAX_NEIGHBOURS, 0)
    neighbours = endings[first : index + _MAX_NEIGHBOURS + 1]
    marker_times = [ending.marker_ms for ending in neighbours if ending.control_type is not None]
    decisions = history.decisions
    if marker_times:
        first_ms, last_ms = min(marker_times), max(marker_times)
        is_near = [
            first_ms - _MAX_CLOCK_SKEW_MS <= decision.start_ms <= last_ms + _MAX_CLOCK_SKEW_MS
            for decision in decisions
        ]
        if True in is_near:
            near_slice = slice(is_near.index(True), len(is_near) - is_near[::-1].index(True))
            decisions = decisions[near_slice]
    if len(decisions) > _MAX_DECISIONS:
        return None
    is_complete = history.is_complete and decisions[:1] == history.decisions[:1]
    matching = _Matching(neighbours, index - first, decisions, is_complete, first == 0)
    possible_decisions = matching.find_decisions()
    outcomes = {decision and decision.control_type for decision in possible_decisions}
    return possible_decisions[0] if len(outcomes) == 1 else None


@dataclass(slots=True)
class _Matching:
    """The ways to match some endings with decisions."""

    endings: Sequence[Ending]
    index: int
    decisions: Sequence[Decision]
    is_complete: bool
    """Whether the first of the decisions is the first about the producer."""
    is_start: bool
    """Whether the first of the endings is the producer's first."""

    def find_decisions(self) -> list[Decision | None]:
        """The possible decisions about the ending at `index`, None for one that is unknown; empty
        if there are too many ways."""
        states: set[_State] = set()
        for i, ending in enumerate(self.endings):
            next_states: set[_State] = set()
            for state in self._iter_next(states, ending) if i else self._iter_first(ending):
                if i == self.index:
                    state = state._replace(answer=state.decision)  # noqa: PLW2901
                next_states.add(state)
                if ending.control_type is None and self._may_continue(i):
                    next_states.add(state._replace(continues=True))
                if len(next_states) > _MAX_STATES:
                    return []
            states = next_states
        n_decisions = len(self.decisions)
        answers = sorted({state.answer for state in states})
        return [self.decisions[i] if 0 <= i < n_decisions else None for i in answers]

    def _iter_first(self, ending: Ending) -> Iterator[_State]:
        """How the first of the endings can be matched."""
        n_decisions = len(self.decisions)
        if not self.is_start:
            first_decisions = range(_BEFORE, n_decisions + 1)
        else:
            first = 0 if self.is_complete else _BEFORE
            first_decisions = range(first, min(ending.n_lost_before, n_decisions) + 1)
        for decision in first_decisions:
            yield from self._match(_State(decision), ending)

    def _iter_next(self, states: Iterable[_State], ending: Ending) -> Iterator[_State]:
        """How the next ending can be matched, after the previous ones."""
        n_decisions = len(self.decisions)
        for state in states:
            decision = state.decision
            if state.continues or decision == n_decisions:
                next_decisions = range(decision, decision + 1)
            else:
                may_repeat = decision == _BEFORE or ending.records_epoch is None
                next_decisions = range(
                    decision + (not may_repeat),  # a coordinator sometimes rewrites a marker
                    min(decision + 1 + ending.n_lost_before, n_decisions) + 1,
                )
            for next_decision in next_decisions:
                next_state = state._replace(decision=next_decision, continues=False)
                yield from self._match(next_state, ending)

    def _match(self, state: _State, ending: Ending) -> Iterator[_State]:
        """The state, with narrower limits of the skew, if an ending fits its decision."""
        decisions = self.decisions
        is_known = 0 <= state.decision < len(decisions)
        if ending.control_type is None:
            if not is_known or (
                ending.records_epoch is not None
                and decisions[state.decision].can_end(ending.records_epoch)
            ):
                yield state
            return
        if is_known:
            decision = decisions[state.decision]
            if (decision.control_type, decision.producer_epoch) != ending[1:3]:
                return
            state = state.narrow(
                -_MAX_CLOCK_SKEW_MS
                if decision.end_ms is None
                else ending.marker_ms - decision.end_ms - _CLOCK_DRIFT_MS,
                ending.marker_ms - decision.start_ms + _CLOCK_DRIFT_MS,
            )
        elif decisions and state.decision == _BEFORE:
            state = state.narrow(ending.marker_ms - decisions[0].start_ms, _MAX_CLOCK_SKEW_MS)
        elif decisions:
            state = state.narrow(-_MAX_CLOCK_SKEW_MS, ending.marker_ms - decisions[-1].start_ms)
        if state.min_skew_ms <= state.max_skew_ms:
            yield state

    def _may_continue(self, i: int) -> bool:
        """Whether the transaction of an ending may continue until the next one."""
        if i + 1 == len(self.endings):
            return True
        next_epoch = self.endings[i + 1].records_epoch
        return next_epoch is None or next_epoch == self.endings[i].records_epoch
