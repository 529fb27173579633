"""The engine: what is done together, alone, in parts, and by the caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.execution import item_processor
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.item_processor import MIN_LARGE_BYTES, ItemProcessor, process_items

MIB = 1 << 20
UNREADABLE, ODD, PLAIN = "unreadable", "odd", "plain"


@dataclass(frozen=True)
class Told(ItemProcessor[str, str, str]):
    """Results that tell how they were made."""

    uses_all_cores: bool = False
    n_parts: int = 0
    lost: int = -1
    """The start of a part without a result."""

    def can_group(self, item: str) -> bool:
        return item in (ODD, PLAIN)

    def process_group(self, items: Sequence[str]) -> list[str | None]:
        return [f"one of {len(items)}" if item == PLAIN else None for item in items]

    def process_one(self, item: str) -> str | None:
        if item == UNREADABLE:
            raise InputError("gone")
        return f"{item} alone"

    def split(self, item: str, size: int, jobs: int) -> list[FileSplit]:
        del jobs
        step = size // self.n_parts if self.n_parts else size
        starts = range(0, size, step) if self.n_parts else ()
        return [FileSplit(item, LOG_KIND, 0, size, 0, at, at + step) for at in starts]

    def process_split(self, piece: FileSplit) -> str | None:
        if piece.path == UNREADABLE:
            raise InputError("gone")
        return None if piece.start == self.lost else f"{piece.start // MIB}"

    def merge_results(self, parts: list[str]) -> str:
        return " ".join(parts)


def found(
    work: Told, files: list[tuple[str, int]], jobs: int, done: list[int] | None = None
) -> list[object]:
    """The outcomes; done: gets the bytes of each step."""
    into = [] if done is None else done
    return [*process_items(work, files, jobs, into.append)]


FILES = [("a", 3), (PLAIN, 1), (ODD, 1), (PLAIN, 1), ("big", MIN_LARGE_BYTES), (UNREADABLE, 5)]


def test_in_this_process_the_caller_does_what_is_not_together() -> None:
    done: list[int] = []
    there = found(Told(), FILES, 1, done)
    assert there == [None, "one of 3", None, "one of 3", None, None]
    assert done == [1, 1]


def test_in_processes_everything_is_done() -> None:
    done: list[int] = []
    *there, error = found(Told(), FILES, 2, done)
    assert there == ["a alone", "one of 3", "odd alone", "one of 3", "big alone"]
    assert isinstance(error, InputError)
    assert sum(done) == sum(size for _, size in FILES)


@pytest.mark.parametrize(("n_large", "kept"), [(1, True), (2, False)])
def test_fewer_large_ones_than_processes_are_the_callers(n_large: int, kept: bool) -> None:
    files = [("a", 1)] + [("big", MIN_LARGE_BYTES)] * n_large
    there = found(Told(uses_all_cores=True), files, 2)
    assert there == ["a alone"] + [None if kept else "big alone"] * n_large


def test_parts_are_joined_in_order() -> None:
    done: list[int] = []
    files = [("a", 7), ("big", MIN_LARGE_BYTES), ("b", 9)]
    there = found(Told(n_parts=4), files, 2, done)
    assert there == ["a alone", "0 16 32 48", "b alone"]
    assert done == [7, *[16 * MIB] * 4, 9]
    assert found(Told(n_parts=4), files[1:2], 2) == ["0 16 32 48"]
    assert found(Told(n_parts=4), files[1:2], 1) == [None]


@pytest.mark.parametrize("name", ["big", UNREADABLE])
def test_a_missing_part_leaves_the_file_to_the_caller(name: str) -> None:
    files = [(name, MIN_LARGE_BYTES), ("big", MIN_LARGE_BYTES)]
    lost = 16 * MIB if name == "big" else -1
    there = found(Told(n_parts=4, lost=lost), files, 2)
    assert there == [None, None if name == "big" else "0 16 32 48"]


def test_one_share_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(item_processor, "map_processes")
    assert found(Told(), [("a", MIN_LARGE_BYTES)], 8) == [None]
