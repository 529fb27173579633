"""The engine processes items in groups, separately, in splits, or leaves them to the caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.execution import item_processor
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.item_processor import MIN_LARGE_ITEM_BYTES, ItemProcessor, process_items

MIB = 1 << 20
UNREADABLE, REJECTED, GROUPED = "unreadable", "odd", "plain"


@dataclass(frozen=True)
class RecordingProcessor(ItemProcessor[str, str, str]):
    """Its results tell how it processed the items."""

    uses_all_cores: bool = False
    n_parts: int = 0
    missing_start: int = -1
    """The start of a split without a result."""

    def can_group(self, item: str) -> bool:
        return item in (REJECTED, GROUPED)

    def process_group(self, items: Sequence[str]) -> list[str | None]:
        return [f"one of {len(items)}" if item == GROUPED else None for item in items]

    def process_item(self, item: str) -> str | None:
        if item == UNREADABLE:
            raise InputError("gone")
        return f"{item} alone"

    def divide_item(self, item: str, size: int, jobs: int) -> list[FileSplit]:
        del jobs
        step = size // self.n_parts if self.n_parts else size
        starts = range(0, size, step) if self.n_parts else ()
        return [FileSplit(item, LOG_KIND, 0, size, 0, start, start + step) for start in starts]

    def process_split(self, split: FileSplit) -> str | None:
        if split.path == UNREADABLE:
            raise InputError("gone")
        return None if split.start == self.missing_start else f"{split.start // MIB}"

    def merge_results(self, parts: list[str]) -> str:
        return " ".join(parts)


def process(
    processor: RecordingProcessor,
    files: list[tuple[str, int]],
    jobs: int,
    steps: list[int] | None = None,
) -> list[object]:
    """The outcomes; steps: gets the bytes of each step."""
    progress = [] if steps is None else steps
    return [*process_items(processor, files, jobs, progress.append)]


FILES = [
    ("a", 3),
    (GROUPED, 1),
    (REJECTED, 1),
    (GROUPED, 1),
    ("big", MIN_LARGE_ITEM_BYTES),
    (UNREADABLE, 5),
]


def test_in_one_process_the_caller_processes_what_is_not_grouped() -> None:
    steps: list[int] = []
    results = process(RecordingProcessor(), FILES, 1, steps)
    assert results == [None, "one of 3", None, "one of 3", None, None]
    assert steps == [1, 1]


def test_in_processes_everything_is_done() -> None:
    steps: list[int] = []
    *results, error = process(RecordingProcessor(), FILES, 2, steps)
    assert results == ["a alone", "one of 3", "odd alone", "one of 3", "big alone"]
    assert isinstance(error, InputError)
    assert sum(steps) == sum(size for _, size in FILES)


@pytest.mark.parametrize(("n_large", "is_returned"), [(1, True), (2, False)])
def test_fewer_large_items_than_processes_are_left_to_the_caller(
    n_large: int, is_returned: bool
) -> None:
    files = [("a", 1)] + [("big", MIN_LARGE_ITEM_BYTES)] * n_large
    results = process(RecordingProcessor(uses_all_cores=True), files, 2)
    assert results == ["a alone"] + [None if is_returned else "big alone"] * n_large


def test_parts_are_joined_in_order() -> None:
    steps: list[int] = []
    files = [("a", 7), ("big", MIN_LARGE_ITEM_BYTES), ("b", 9)]
    results = process(RecordingProcessor(n_parts=4), files, 2, steps)
    assert results == ["a alone", "0 16 32 48", "b alone"]
    assert steps == [7, *[16 * MIB] * 4, 9]
    assert process(RecordingProcessor(n_parts=4), files[1:2], 2) == ["0 16 32 48"]
    assert process(RecordingProcessor(n_parts=4), files[1:2], 1) == [None]


@pytest.mark.parametrize("name", ["big", UNREADABLE])
def test_a_missing_part_leaves_the_file_to_the_caller(name: str) -> None:
    files = [(name, MIN_LARGE_ITEM_BYTES), ("big", MIN_LARGE_ITEM_BYTES)]
    missing_start = 16 * MIB if name == "big" else -1
    results = process(RecordingProcessor(n_parts=4, missing_start=missing_start), files, 2)
    assert results == [None, None if name == "big" else "0 16 32 48"]


def test_one_share_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(item_processor, "map_in_processes")
    assert process(RecordingProcessor(), [("a", MIN_LARGE_ITEM_BYTES)], 8) == [None]
