"""Segment files that are compressed as a whole, as a broker would have them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import IO, cast

from kfmt_cli.core.compressed_files import packed_suffix, reader
from kfmt_cli.core.source import Source, as_file
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.archive import unpacking_words, write_file
from kfmt_cli.disk.names import is_packed
from kfmt_cli.disk.trees import (
    DirectoryEntries,
    Overlay,
    StoredEntry,
    Trouble,
    opened_on_disk,
    path_in,
    told_of,
)
from kfmt_cli.errors import InputError, LostBytesError


@dataclass(slots=True)
class PackedFiles(Overlay):
    """A directory some of whose segment files are compressed as a whole; they are unpacked when
    their directory is listed. folder: where to."""

    folder: str
    _left_out: dict[Trouble, None] = field(default_factory=dict)
    _cut: dict[str, InputError] = field(default_factory=dict)
    """Why the rest of a file cannot be unpacked."""

    def entries(self, below: str) -> DirectoryEntries:
        found = Overlay.entries(self, below)
        names = {entry.name for entry in found.files}
        files = []
        for entry in found.files:
            plain = entry.name.removesuffix(packed_suffix(entry.name))
            path = path_in(below, entry.name)
            if not is_packed(entry.name):
                files.append(entry)
            elif plain not in names:
                to = Path(self.folder, below, plain)
                if not to.exists():
                    self._unpack(path, to)
                files.append(StoredEntry(plain, to.stat(), entry.name))
            else:
                words = f"not read: {plain} is next to it, which brokers read"
                words = f"{name_text(path_in(self.path, path))}: {words}"
                self._left_out[path, words] = None
        return replace(found, files=files)

    def _unpacked(self, below: str) -> str | None:
        """The path of an unpacked file; None for one that is stored as it is."""
        to = Path(self.folder, below)
        return str(to) if to.is_file() else None

    def status(self, below: str) -> os.stat_result:
        there = self._unpacked(below)
        return Overlay.status(self, below) if there is None else os.stat(there)  # noqa: PTH116

    def opened(self, below: str) -> Source:
        there = self._unpacked(below)
        if there is None:
            return Overlay.opened(self, below)
        source = opened_on_disk(there, path_in(self.path, below))
        return CutSource(source, self._cut[below]) if below in self._cut else source

    def real(self, below: str) -> str | None:
        if below in self._cut:
            return None
        there = self._unpacked(below) or Overlay.real(self, below)
        return None if there is None or Path(there).is_dir() else there

    def is_in_other_form(self, below: str) -> bool:
        del below
        return True

    def troubles(self, below: str) -> list[str]:
        return [*Overlay.troubles(self, below), *told_of(self._left_out, below)]

    def _unpack(self, below: str, to: Path) -> None:
        """Unpack a file, or what can be unpacked of it."""
        name = name_text(path_in(self.path, below))
        modified = Overlay.status(self, below).st_mtime
        try:
            with as_file(Overlay.opened(self, below)) as packed:
                stream = SimpleNamespace(read=reader(packed, packed_suffix(below), name))
                write_file(to, modified, cast(IO[bytes], stream))
        except InputError as error:
            to.touch()  # not yet there if the file cannot be opened
            plain = below.removesuffix(packed_suffix(below))
            self._cut[plain] = error
            self._left_out[plain, str(error)] = None
            os.truncate(to, to.stat().st_size + 1)
            os.utime(to, (modified, modified))
        except OSError as error:
            why = error.strerror or str(error)
            raise InputError(f"{name}: {unpacking_words()}: {why}") from error


class CutSource(Source):
    """A file whose last byte stands for a rest that cannot be read.

    Without it, the file would seem to end where its readable start ends.
    """

    def __init__(self, source: Source, error: InputError) -> None:
        self.name = source.name
        self.size = source.size
        self._source, self._error = source, error

    def block(self, position: int, length: int, least: int) -> bytes:
        room = (self.size or 1) - 1 - position
        if room < max(least, 1):
            if self.size == 1:  # nothing can be read
                raise self._error
            raise LostBytesError(str(self._error), position + max(room, 0))
        return self._source.block(position, min(length, room), least)

    def close(self) -> None:
        self._source.close()
