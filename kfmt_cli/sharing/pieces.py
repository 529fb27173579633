"""Many pieces as columns.

A plan has a piece for each of several hundred thousand files. As objects they would take a kilobyte
each; as columns they take about a hundred bytes per file and twenty per part.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import overload

from kfmt_cli.disk.kinds.kind import Kind
from kfmt_cli.sharing.piece import Piece

_WRAP = 1 << 63  # times after the year 2262 wrap; they are only compared


class _Strings:
    """Byte strings, concatenated."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ends = array("Q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, data: bytes) -> None:
        self._data += data
        self._ends.append(len(self._data))

    def size(self, i: int) -> int:
        return self._ends[i + 1] - self._ends[i]

    def __getitem__(self, i: int) -> bytes:
        return bytes(self._data[self._ends[i] : self._ends[i + 1]])


class _FileColumns:
    """Values shared by all pieces of a file; consecutive files share a folder."""

    def __init__(self) -> None:
        self._folders, self._names = _Strings(), _Strings()
        self._sorts: list[tuple[Kind, bool, bool]] = []
        """Kind, whether there is a base offset, whether it is tiered."""
        self._places: list[tuple[str, int, str] | None] = [None]
        self._troubles: dict[int, str] = {}
        self._folder, self._place = array("I"), array("I")
        self._sort = array("B")
        self._base, self._size, self._modified = array("q"), array("q"), array("q")
        self._stored_size = array("q")
        self._chunkings = _Strings()
        self._chunkings.add(b"")
        self._chunking = array("I")
        self._last_folder: str | None = None
        self._read_folder = -1, ""

    def __len__(self) -> int:
        return len(self._size)

    def add(self, piece: Piece) -> None:
        at = piece.path.rfind("/") + 1
        folder = piece.path[:at]
        if folder != self._last_folder:
            self._folders.add(os.fsencode(folder))
            self._last_folder = folder
        sort = piece.kind, piece.base_offset is not None, piece.tiered
        if sort not in self._sorts:
            self._sorts.append(sort)
        if piece.named != self._places[-1]:
            self._places.append(piece.named)
        if piece.trouble is not None:
            self._troubles[len(self)] = piece.trouble
        if piece.chunking:
            self._chunkings.add(piece.chunking)
        self._chunking.append(len(self._chunkings) - 1 if piece.chunking else 0)
        self._names.add(os.fsencode(piece.path[at:]))
        self._folder.append(len(self._folders) - 1)
        self._place.append(len(self._places) - 1)
        self._sort.append(self._sorts.index(sort))
        self._base.append(piece.base)
        self._modified.append((piece.modified + _WRAP) % (2 * _WRAP) - _WRAP)
        self._stored_size.append(piece.stored_size)
        self._size.append(piece.size)

    def path(self, i: int) -> str:
        folder, known = self._folder[i], self._read_folder
        if known[0] != folder:
            known = self._read_folder = folder, os.fsdecode(self._folders[folder])
        return known[1] + os.fsdecode(self._names[i])

    def base(self, i: int) -> int:
        return self._base[i]

    def group(self, i: int) -> tuple[int, ...]:
        """A key that implies the place; a place may have several keys. The length of the name tells
        broker files from tiered ones."""
        return self._folder[i], self._place[i], self._sort[i], self._names.size(i)

    def part(self, i: int, start: int, end: int, is_exact: bool) -> Piece:
        kind, has_base, is_tiered = self._sorts[self._sort[i]]
        return Piece(
            self.path(i),
            kind,
            self._base[i] if has_base else None,
            self._size[i],
            self._modified[i],
            start,
            end,
            self._troubles.get(i),
            is_exact,
            is_tiered,
            self._stored_size[i],
            self._places[self._place[i]],
            self._chunkings[self._chunking[i]],
        )


class Pieces(Sequence[Piece]):
    """Immutable pieces; sequences derived from others share their columns about files."""

    __slots__ = ("_end", "_exact", "_file", "_files", "_start")

    def __init__(self, pieces: Iterable[Piece] = ()) -> None:
        self._files = _FileColumns()
        self._file, self._exact = array("I"), array("B")
        self._start, self._end = array("q"), array("q")
        last: tuple[str, int, int] | None = None
        for piece in pieces:
            file = piece.path, piece.size, piece.modified
            if file != last:
                self._files.add(piece)
                last = file
            self._add(len(self._files) - 1, piece.start, piece.end, piece.is_exact)

    def _add(self, file: int, start: int, end: int, is_exact: bool) -> None:
        self._file.append(file)
        self._start.append(start)
        self._end.append(end)
        self._exact.append(is_exact)

    def __reduce__(self) -> tuple[Callable[..., Pieces], tuple[object, ...]]:
        """Pickle only the files of these pieces."""
        own = Pieces(self)
        columns = own._files, own._file, own._start, own._end, own._exact
        return _of_columns, columns

    def __len__(self) -> int:
        return len(self._file)

    @overload
    def __getitem__(self, at: int) -> Piece: ...
    @overload
    def __getitem__(self, at: slice) -> Pieces: ...
    def __getitem__(self, at: int | slice) -> Piece | Pieces:
        if isinstance(at, slice):
            columns = self._file[at], self._start[at], self._end[at], self._exact[at]
            return _of_columns(self._files, *columns)
        is_exact = bool(self._exact[at])
        return self._files.part(self._file[at], self._start[at], self._end[at], is_exact)

    def __iter__(self) -> Iterator[Piece]:
        columns = zip(self._file, self._start, self._end, self._exact, strict=True)
        part = self._files.part
        return (part(file, start, end, exact > 0) for file, start, end, exact in columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Pieces({list(self)!r})"

    @property
    def n_bytes(self) -> int:
        """Bytes of all pieces."""
        return sum(self._end) - sum(self._start)

    @property
    def folders(self) -> set[str]:
        """The directories of all pieces."""
        return {piece.folder for piece in self}

    def taken(self, numbers: Iterable[int]) -> Pieces:
        """The pieces with these numbers, in that order."""
        made = _of_columns(self._files, array("I"), array("q"), array("q"), array("B"))
        for i in numbers:
            made._add(self._file[i], self._start[i], self._end[i], bool(self._exact[i]))
        return made

    @property
    def readable(self) -> Pieces:
        """The pieces of files without a trouble."""
        troubles = self._files._troubles
        if not troubles:
            return self
        return self.taken(i for i, file in enumerate(self._file) if file not in troubles)

    @property
    def troubles(self) -> dict[str, str]:
        """Why files could not be read, by path."""
        found, known = self._files, self._files._troubles
        return {found.path(file): known[file] for file in self._file if file in known}

    def those(self, is_one: Callable[[Piece], bool]) -> Pieces:
        """The pieces for which `is_one` is true."""
        return self.taken(i for i, piece in enumerate(self) if is_one(piece))

    def in_order(self) -> Pieces:
        """The pieces sorted by topic, partition and base offset, each file once."""
        groups: dict[tuple[int, ...], array[int]] = {}
        for i, file in enumerate(self._file):
            groups.setdefault(self._files.group(file), array("I")).append(i)
        by_place: dict[tuple[str, int], array[int]] = {}
        for numbers in groups.values():
            piece = self[numbers[0]]
            topic, partition = piece.place
            place = topic or piece.folder, partition or 0
            by_place.setdefault(place, array("I")).extend(numbers)
        ordered = array("I")
        for place in sorted(by_place):
            files = {self._in_place(i): i for i in by_place[place]}
            ordered.extend(files[key] for key in sorted(files))
        return self.taken(ordered)

    def _in_place(self, i: int) -> tuple[int, str]:
        return self._files.base(self._file[i]), self._files.path(self._file[i])

    def parted(self, bounds: Callable[[Piece], Sequence[int]]) -> Pieces:
        """The parts of the pieces. bounds: where the parts of a piece begin, and its end."""
        made = self.taken(())
        for file, piece in zip(self._file, self, strict=True):
            for start, end in pairwise(bounds(piece)):
                made._add(file, start, end, False)
        return made

    def shared(self, shares: Iterable[Sequence[Piece]]) -> Iterator[Pieces]:
        """Shares of these pieces as columns. shares: the same pieces in the same order, divided."""
        at = 0
        for share in shares:
            yield self[at : at + len(share)]
            at += len(share)


def _of_columns(
    files: _FileColumns,
    file: array[int],
    start: array[int],
    end: array[int],
    exact: array[int],
) -> Pieces:
    made = Pieces()
    made._files, made._file, made._start, made._end, made._exact = files, file, start, end, exact
    return made
