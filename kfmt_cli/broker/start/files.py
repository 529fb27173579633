"""The files of a partition during a start: which are deleted, and which replace others.

Source: `LogLoader.removeTempFilesAndCollectSwapFiles`, `LogLoader.load`.
"""

from __future__ import annotations

from kfmt_cli.broker.start.segment import OpenSegment
from kfmt_cli.broker.start.stored import StartFailed
from kfmt_cli.broker.version import KafkaVersion
from kfmt_cli.disk.kinds.kind import CLEANED, DELETED, SWAP
from kfmt_cli.disk.names import MOST_OFFSET, offset_of_name
from kfmt_cli.disk.tree import Folder, size_of

_KRAFT_SNAPSHOT = f".checkpoint{DELETED}"


class StartFiles:
    """The files by name; nothing is changed on the disk.

    of: the file to read for each name; a swapped file keeps its old path. deleted: names on the
    disk, in order. swapped: names that swapped files took. replaced: the sizes in bytes of the
    files that they replaced. made: indexes that the broker creates empty.
    """

    def __init__(self, folder: Folder, version: KafkaVersion) -> None:
        self._folder = folder
        self._version = version
        self.of = {file: folder.input(file) for file in folder.files if file not in folder.special}
        self.deleted: list[str] = []
        self.swapped: set[str] = set()
        self.replaced: dict[str, int] = {}
        self.made: set[str] = set()

    def offset(self, name: str) -> int:
        """The offset at the start of a name; raises StartFailed."""
        number = offset_of_name(name)
        if number is None:
            shown = self._folder.input(name).name
            raise StartFailed(f"{shown}: the name does not start with an offset")
        return number

    def delete(self, name: str, *, is_replaced: bool = False, quietly: bool = False) -> None:
        """Delete a file if it exists. is_replaced: another file takes its name. quietly: it is
        deleted along with another file, so do not list it."""
        file = self.of.pop(name, None)
        if file is not None and is_replaced:
            self.replaced[name] = size_of(file)
        elif file is not None and not quietly:
            is_there = name in self._folder.files or name not in self.swapped
            self.deleted.append(name if is_there else f"{name}{SWAP}")

    def swap(self) -> None:
        """Delete unfinished files and complete interrupted segment replacements."""
        cleaned: dict[str, int] = {}
        swaps: dict[str, int] = {}
        for name in list(self.of):
            if name.endswith(DELETED) and not name.endswith(_KRAFT_SNAPSHOT):
                self.delete(name)
            elif name.endswith(CLEANED):
                cleaned[name] = self.offset(name)
            elif name.endswith(SWAP):
                swaps[name] = self.offset(name)
        least = min(cleaned.values(), default=MOST_OFFSET + 1)
        unfinished = [name for name, offset in swaps.items() if offset >= least]
        for name in (*unfinished, *cleaned):
            self.delete(name)
        logs = [name for name in swaps if name in self.of and name.endswith(f".log{SWAP}")]
        bounds = [self._bounds(name) for name in logs]
        if bounds:
            first, end = min(first for first, _ in bounds), max(first for _, first in bounds)
            for name in list(self.of):
                number = None if name.endswith(SWAP) else offset_of_name(name)
                if number is not None and first <= number < end:
                    # If a replaced log's other files are needed, they are rebuilt.
                    is_replaced = name + SWAP in self.of
                    quietly = not name.endswith(".log")
                    self.delete(name, is_replaced=is_replaced, quietly=quietly)
        for name in [name for name in self.of if name.endswith(SWAP)]:
            of = name.removesuffix(SWAP)
            self.delete(of, is_replaced=True)
            self.of[of] = self.of.pop(name)
            self.swapped.add(of)

    def _bounds(self, name: str) -> tuple[int, int]:
        """The base offset of a swapped log, and the end offset that a broker finds."""
        file = self.of[name]
        base = self.offset(name)
        segment = OpenSegment(base, file.name, file.path, size_of(file), None, self._version)
        index = name.removesuffix(f".log{SWAP}") + ".index"
        segment.index = self.of.get(index + SWAP)
        if segment.index is None:
            # The search for the log end offset creates an empty one, which replaces the other.
            self.made.add(index)
            self.delete(index, is_replaced=True)
        try:
            return base, segment.next_offset
        finally:
            segment.close()
