"""The type of a page, and the facts it is built from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from kfmt_cli.core.lazy import import_object
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import DirectoryListing, format_no_logs_message
from kfmt_cli.disk.input_paths import resolve_path
from kfmt_cli.disk.kinds.kind import FileKind, InputFile
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.log.block import Block
from kfmt_cli.log.log_opening import open_log
from kfmt_cli.rows.log_tables import BatchTable, EntryTable

SAMPLE_PARTITION_PATH = Path(__file__).parent / "txn-0"

Drawing = list[str]
PageSection = str | Drawing


@dataclass(frozen=True, slots=True)
class PageSpec:
    """A page in the list."""

    name: str
    title: str
    function_path: str
    """Module and function."""

    def iter_sections(self, facts: PageFacts) -> Iterator[PageSection]:
        """The paragraphs and drawings of the page; raises InputError."""
        create_sections: Callable[[PageFacts], Iterator[PageSection]] = import_object(
            self.function_path
        )
        return create_sections(facts)


@dataclass(frozen=True)
class PageFacts:
    """The partition that supplies a page's numbers."""

    partition_listing: DirectoryListing
    is_sample: bool = False
    """Whether it is the sample that comes with kfmt."""
    wheel_settings: tuple[int, int, tuple[int, ...], int | None] = (1, 20, (5, 130, 450), None)
    """Tick, buckets, timers and time of the timing wheel."""
    is_reproducible: bool = False
    """Whether to omit values that change from run to run."""

    @property
    def source_label(self) -> str:
        """Label for the source of the numbers."""
        if self.is_sample:
            return "a partition written by a 3.9.1 broker"
        return self.partition_listing.name

    @cached_property
    def logs(self) -> list[InputFile]:
        """The logs of the partition."""
        return self.partition_listing.logs

    def iter_blocks(self) -> Iterator[Block]:
        """The blocks of the logs, in order; raises InputError."""
        for file in self.logs:
            with open_log(file, read_ahead=False) as log:
                yield from log.blocks

    @cached_property
    def batches(self) -> BatchTable:
        """The first batches of the first log that has any; raises InputError."""
        return self.first_block.batches

    @cached_property
    def first_v2_run(self) -> Block | None:
        """The batches of magic 2 in the first block that has some; None if all have an older
        format. Raises InputError if no log has a batch."""
        block: Block | None = self.first_block
        if block is not None and not block.batches.is_v2.any():
            block = next(
                (
                    candidate_block
                    for candidate_block in self.iter_blocks()
                    if candidate_block.batches.is_v2.any()
                ),
                None,
            )
        if block is None:
            return None
        return replace(block, batches=block.batches.select_rows(block.batches.is_v2 == 1))

    @cached_property
    def first_block(self) -> Block:
        """The first block of the first log that has one; raises InputError."""
        for block in self.iter_blocks():
            if len(block.batches):
                return block
        raise InputError(f"{self.partition_listing.path}: no batch in its logs")

    def find_index(self, kind: FileKind) -> tuple[InputFile, EntryTable] | None:
        """The first index of this kind that has entries."""
        for segment in self.partition_listing.segments:
            index_file = segment.index_by_kind.get(kind)
            if index_file is not None and len(entries := index_file.read_contents().table):
                return index_file, entries
        return None


def load_page_facts(path: str | None) -> PageFacts:
    """Facts about the partition at a path, by default the sample that comes with kfmt. Raises
    InputError, and UsageError if there are several partitions."""
    input_path = resolve_path(str(path or SAMPLE_PARTITION_PATH))
    partition_listings = [listing for listing in input_path.directories if listing.logs]
    if not partition_listings:
        raise InputError(
            next(iter(input_path.listing_errors), format_no_logs_message(input_path.path))
        )
    if len(partition_listings) > 1:
        reason = "a topic is explained with a single partition"
        raise UsageError(
            f"{format_display_name(input_path.path)}: {len(partition_listings)} partitions; "
            f"{reason}"
        )
    return PageFacts(partition_listings[0], is_sample=path is None)
