"""The engine: many files at work on several cores, outcomes in order.

Small files are processed together, a large one in parts if its work allows that, and others by
themselves. A `Work` says how; `verify-crc`, `index-check`, `check` and `stat` each have one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from kfmt_cli.core.parallel import together
from kfmt_cli.errors import InputError
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.processes import at_once, map_processes

# A log of at least this size is worth several cores of its own.
LARGE = 64 << 20

T = TypeVar("T")
R = TypeVar("R")
P = TypeVar("P")


class Work(ABC, Generic[T, R, P]):
    """What is done with items of type T; R is the result for one, P for a part of one.

    Works are pickled, so that processes have them. `alone` and `part` may raise InputError.
    """

    is_threaded = False
    """Whether the caller processes a large item on all cores."""

    @abstractmethod
    def is_packed(self, item: T) -> bool:
        """Whether an item, if small, is processed together with others."""

    @abstractmethod
    def together(self, items: Sequence[T]) -> list[R | None]:
        """The results for small items; None for one that must be processed by itself."""

    @abstractmethod
    def alone(self, item: T) -> R | None:
        """The result for an item, in a worker; None if it is too large to return."""

    def parts(self, item: T, size: int, jobs: int) -> list[Piece]:
        """The parts of a large item; empty if it is not divided."""
        del item, size, jobs
        return []

    def part(self, piece: Piece) -> P | None:
        """The result for a part; None if the item must be processed as a whole."""
        raise NotImplementedError

    def joined(self, parts: list[P]) -> R | None:
        """The result for an item from its parts; None if it must be processed as a whole."""
        raise NotImplementedError


Outcome: TypeAlias = R | InputError | None
"""The result for an item, the error that prevents it, or None if the caller must process the item
itself, so that findings appear as they are made."""

Sized: TypeAlias = tuple[T, int]
"""An item with its size in bytes."""


def outcomes(
    work: Work[T, R, P],
    sized: Iterable[Sized[T]],
    jobs: int = 1,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[Outcome[R]]:
    """The outcome for each item, in order, from `jobs` processes.

    advance: called with the bytes of parts, and of items whose outcome is not None.
    """
    units = together(sized, lambda pair: pair[1] if work.is_packed(pair[0]) else None)
    if jobs > 1:
        every = list(units)
        shares = [share for unit in every for share in _shares(work, unit, jobs)]
        if len(shares) > 1:
            yield from _in_processes(work, shares, jobs, advance)
            return
        units = iter(every)
    for unit in units:
        yield from _advanced(unit, [*_small(work, unit)], advance)


def _advanced(
    unit: list[Sized[T]], found: Sequence[Outcome[R]], advance: Callable[[int], None]
) -> Iterator[Outcome[R]]:
    for (_, size), outcome in zip(unit, found, strict=True):
        if outcome is not None:
            advance(size)
        yield outcome


def _small(work: Work[T, R, P], unit: list[Sized[T]]) -> list[R | None]:
    """The results for the items of a unit that are found together; None for the others."""
    return [None] if len(unit) == 1 else work.together([item for item, _ in unit])


Share: TypeAlias = Piece | list[Sized[T]]


def _shares(work: Work[T, R, P], unit: list[Sized[T]], jobs: int) -> list[Share[T]]:
    """The shares of processes that a unit makes: itself, or the parts of its only item."""
    item, size = unit[0]
    parts = work.parts(item, size, jobs) if size >= LARGE else []
    return [*parts] or [unit]


def _in_processes(
    work: Work[T, R, P], shares: list[Share[T]], jobs: int, advance: Callable[[int], None]
) -> Iterator[Outcome[R]]:
    run = partial(_done, work=work, kept=_kept(work, shares, jobs))
    parts: list[P | None] = []
    results = map_processes(run, shares, jobs, at_once(len(shares), jobs))
    for share, (part, found) in zip(shares, results, strict=True):
        if isinstance(share, Piece):
            advance(share.end - share.start)
            parts.append(part)
            if share.is_last:
                known = [each for each in parts if each is not None]
                yield work.joined(known) if len(known) == len(parts) else None
                parts = []
        else:
            yield from _advanced(share, found, advance)


def _kept(work: Work[T, R, P], shares: list[Share[T]], jobs: int) -> int | None:
    """The size from which the caller processes items itself: if fewer of them are large than there
    are processes, it processes each on all cores. None if it processes none."""
    items = (sized for share in shares if not isinstance(share, Piece) for sized in share)
    is_kept = work.is_threaded and sum(size >= LARGE for _, size in items) < jobs
    return LARGE if is_kept else None


def _done(
    share: Share[T], work: Work[T, R, P], kept: int | None
) -> tuple[P | None, list[Outcome[R]]]:
    """The result for a part, or the outcomes for items, in a worker."""
    if isinstance(share, Piece):
        try:
            return work.part(share), []
        except InputError:  # the caller, who reads it as a whole, will say so
            return None, []
    found: list[Outcome[R]] = [*_small(work, share)]
    for i, (item, size) in enumerate(share):
        if found[i] is None and (kept is None or size < kept):
            try:
                found[i] = work.alone(item)
            except InputError as error:
                found[i] = error
    return None, found
