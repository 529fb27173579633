"""Processes many files in several processes, with results in input order.

Small files are processed in groups, a large one in splits if its processor allows that, and others
one by one. An `ItemProcessor` defines how; `verify-crc`, `index-check`, `check` and `stat` each
have one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from kfmt_cli.core.parallel import group_small_items
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.processes import choose_chunk_size, map_in_processes

# A log of at least this size is worth several cores of its own.
MIN_LARGE_ITEM_BYTES = 64 << 20

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
PartT = TypeVar("PartT")


class ItemProcessor(ABC, Generic[ItemT, ResultT, PartT]):
    """Processes items of type ItemT; ResultT is the result for an item, PartT for a split of one.

    Processors are pickled, to be sent to processes. `process_item` and `process_split` may raise
    InputError.
    """

    uses_all_cores = False
    """Whether the caller processes a large item on all cores."""

    @abstractmethod
    def can_group(self, item: ItemT) -> bool:
        """Whether an item, if small, can be processed in a group with others."""

    @abstractmethod
    def process_group(self, items: Sequence[ItemT]) -> list[ResultT | None]:
        """The results for small items; None for one that must be processed by itself."""

    @abstractmethod
    def process_item(self, item: ItemT) -> ResultT | None:
        """The result for an item, in a worker; None if it is too large to return."""

    def divide_item(self, item: ItemT, size: int, jobs: int) -> list[FileSplit]:
        """The splits of a large item; empty if it is not divided."""
        del item, size, jobs
        return []

    def process_split(self, split: FileSplit) -> PartT | None:
        """The result for a split; None if the item must be processed as a whole."""
        raise NotImplementedError

    def merge_results(self, split_results: list[PartT]) -> ResultT | None:
        """The result for an item from its splits; None if it must be processed as a whole."""
        raise NotImplementedError


WorkOutcome: TypeAlias = ResultT | InputError | None
"""The result for an item, the error that prevents it, or None if the caller must process the item
itself, so that findings appear as they are made."""

SizedItem: TypeAlias = tuple[ItemT, int]
"""An item with its size in bytes."""


def process_items(
    processor: ItemProcessor[ItemT, ResultT, PartT],
    sized_items: Iterable[SizedItem[ItemT]],
    jobs: int = 1,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Iterator[WorkOutcome[ResultT]]:
    """The outcome for each item, in order, from `jobs` processes.

    on_progress: called with the bytes of splits, and of items whose outcome is not None.
    """
    item_groups = group_small_items(
        sized_items, lambda pair: pair[1] if processor.can_group(pair[0]) else None
    )
    if jobs > 1:
        all_item_groups = list(item_groups)
        task_inputs = [
            task_input
            for group in all_item_groups
            for task_input in _create_task_inputs(processor, group, jobs)
        ]
        if len(task_inputs) > 1:
            yield from _process_in_parallel(processor, task_inputs, jobs, on_progress)
            return
        item_groups = iter(all_item_groups)
    for group in item_groups:
        yield from _iter_reported_outcomes(
            group, [*_process_small_group(processor, group)], on_progress
        )


def _iter_reported_outcomes(
    group: list[SizedItem[ItemT]],
    outcomes: Sequence[WorkOutcome[ResultT]],
    on_progress: Callable[[int], None],
) -> Iterator[WorkOutcome[ResultT]]:
    for (_, size), outcome in zip(group, outcomes, strict=True):
        if outcome is not None:
            on_progress(size)
        yield outcome


def _process_small_group(
    processor: ItemProcessor[ItemT, ResultT, PartT], group: list[SizedItem[ItemT]]
) -> list[ResultT | None]:
    """The results for the items of a group; None for each that must be processed by itself."""
    return [None] if len(group) == 1 else processor.process_group([item for item, _ in group])


TaskInput: TypeAlias = FileSplit | list[SizedItem[ItemT]]


def _create_task_inputs(
    processor: ItemProcessor[ItemT, ResultT, PartT], group: list[SizedItem[ItemT]], jobs: int
) -> list[TaskInput[ItemT]]:
    """The task inputs for a group: the group itself, or the splits of its only item."""
    item, size = group[0]
    item_splits = processor.divide_item(item, size, jobs) if size >= MIN_LARGE_ITEM_BYTES else []
    return [*item_splits] or [group]


def _process_in_parallel(
    processor: ItemProcessor[ItemT, ResultT, PartT],
    task_inputs: list[TaskInput[ItemT]],
    jobs: int,
    on_progress: Callable[[int], None],
) -> Iterator[WorkOutcome[ResultT]]:
    process_task_input = partial(
        _process_task_input,
        processor=processor,
        caller_min_bytes=_find_caller_min_bytes(processor, task_inputs, jobs),
    )
    split_results: list[PartT | None] = []
    task_results = map_in_processes(
        process_task_input, task_inputs, jobs, choose_chunk_size(len(task_inputs), jobs)
    )
    for task_input, (split_result, outcomes) in zip(task_inputs, task_results, strict=True):
        if isinstance(task_input, FileSplit):
            on_progress(task_input.end - task_input.start)
            split_results.append(split_result)
            if task_input.is_last_in_file:
                complete_results = [result for result in split_results if result is not None]
                yield (
                    processor.merge_results(complete_results)
                    if len(complete_results) == len(split_results)
                    else None
                )
                split_results = []
        else:
            yield from _iter_reported_outcomes(task_input, outcomes, on_progress)


def _find_caller_min_bytes(
    processor: ItemProcessor[ItemT, ResultT, PartT], task_inputs: list[TaskInput[ItemT]], jobs: int
) -> int | None:
    """The size from which the caller processes items itself: if fewer of them are large than there
    are processes, it processes each on all cores. None if it processes none."""
    items = (
        item
        for task_input in task_inputs
        if not isinstance(task_input, FileSplit)
        for item in task_input
    )
    has_caller_items = (
        processor.uses_all_cores and sum(size >= MIN_LARGE_ITEM_BYTES for _, size in items) < jobs
    )
    return MIN_LARGE_ITEM_BYTES if has_caller_items else None


def _process_task_input(
    task_input: TaskInput[ItemT],
    processor: ItemProcessor[ItemT, ResultT, PartT],
    caller_min_bytes: int | None,
) -> tuple[PartT | None, list[WorkOutcome[ResultT]]]:
    """The result for a split, or the outcomes for the items of a group, in a worker."""
    if isinstance(task_input, FileSplit):
        try:
            return processor.process_split(task_input), []
        except InputError:  # the caller reads the file as a whole, and reports it
            return None, []
    outcomes: list[WorkOutcome[ResultT]] = [*_process_small_group(processor, task_input)]
    for i, (item, size) in enumerate(task_input):
        if outcomes[i] is None and (caller_min_bytes is None or size < caller_min_bytes):
            try:
                outcomes[i] = processor.process_item(item)
            except InputError as error:
                outcomes[i] = error
    return None, outcomes
