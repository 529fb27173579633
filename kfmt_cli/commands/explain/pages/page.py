"""The type of a page, and the facts it is built from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kfmt_cli.core.lazy import load
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds.kind import Input, Kind
from kfmt_cli.disk.targets import target_of
from kfmt_cli.disk.tree import Folder, no_log
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.log.block import Block
from kfmt_cli.log.open_log import open_log
from kfmt_cli.rows.log_tables import BatchTable, EntryTable

SAMPLE = Path(__file__).parent / "txn-0"

Drawing = list[str]
Part = str | Drawing


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page in the list."""

    name: str
    title: str
    """Its subject."""
    target: str
    """Module and function."""

    def parts(self, facts: PageFacts) -> Iterator[Part]:
        """Its paragraphs and drawings; raises InputError."""
        make: Callable[[PageFacts], Iterator[Part]] = load(self.target)
        return make(facts)


@dataclass(frozen=True)
class PageFacts:
    """The partition that supplies a page's numbers."""

    folder: Folder
    is_sample: bool = False
    """Whether it is the sample that comes with kfmt."""
    wheel: tuple[int, int, tuple[int, ...], int | None] = (1, 20, (5, 130, 450), None)
    """Tick, buckets, timers and time of the timing wheel."""
    still: bool = False
    """Omit values that change from run to run."""

    @property
    def words(self) -> str:
        """Label for the source of the numbers."""
        if self.is_sample:
            return "a partition written by a 3.9.1 broker"
        return self.folder.name

    @cached_property
    def logs(self) -> list[Input]:
        """Its logs."""
        return self.folder.logs

    def blocks(self) -> Iterator[Block]:
        """The blocks of its logs."""
        for file in self.logs:
            with open_log(file, read_ahead=False) as log:
                yield from log.blocks

    @cached_property
    def batches(self) -> BatchTable:
        """The first batches of the first log that has any; raises InputError."""
        return self.first_block.batches

    @cached_property
    def first_block(self) -> Block:
        """The first block of the first log that has one; raises InputError."""
        for block in self.blocks():
            if len(block.batches):
                return block
        raise InputError(f"{self.folder.path}: no batch in its logs")

    def index(self, kind: Kind) -> tuple[Input, EntryTable] | None:
        """The first index of this kind that has entries."""
        for segment in self.folder.segments:
            file = segment.indexes.get(kind)
            if file is not None and len(table := file.contents().table):
                return file, table
        return None


def facts_of(path: str | None) -> PageFacts:
    """Facts about a partition directory, by default the one that comes with kfmt; raises
    InputError, UsageError if there are several."""
    target = target_of(str(path or SAMPLE))
    folders = [folder for folder in target.folders if folder.logs]
    if not folders:
        raise InputError(next(iter(target.unlisted), no_log(target.path)))
    if len(folders) > 1:
        words = "a topic is explained with a single partition"
        raise UsageError(f"{name_text(target.path)}: {len(folders)} partitions; {words}")
    return PageFacts(folders[0], is_sample=path is None)
