"""Segment files that are compressed as a whole, as a broker would have them."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath
from typing import IO, cast

from kfmt_cli.core.compressed_files import SUFFIXES, packed_suffix, reader
from kfmt_cli.core.source import Source
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.archive import SequentialFile, reading, unpacking_words, write_file
from kfmt_cli.disk.names import is_packed
from kfmt_cli.disk.trees import DirectoryEntries, Overlay, StoredEntry, opened_on_disk, path_in
from kfmt_cli.errors import InputError


@dataclass(slots=True)
class PackedFiles(Overlay):
    """A directory some of whose segment files are compressed as a whole; each is unpacked when it
    is asked for."""

    folder: str
    """Where to unpack them."""
    _left_out: dict[str, None] = field(default_factory=dict)

    def entries(self, below: str) -> DirectoryEntries:
        found = Overlay.entries(self, below)
        names = {entry.name for entry in found.files}
        files = []
        for entry in found.files:
            plain = entry.name.removesuffix(packed_suffix(entry.name))
            if not is_packed(entry.name):
                files.append(entry)
            elif plain not in names:
                files.append(
                    StoredEntry(plain, partial(self.status, path_in(below, plain)), entry.name)
                )
            else:
                shown = name_text(path_in(self.path, path_in(below, entry.name)))
                words = f"not read: {plain} is next to it, which brokers read"
                self._left_out[f"{shown}: {words}"] = None
        return replace(found, files=files)

    def status(self, below: str) -> os.stat_result:
        there = self._unpacked_at(below)
        return Overlay.status(self, below) if there is None else os.stat(there)  # noqa: PTH116

    def opened(self, below: str) -> Source:
        there = self._unpacked_at(below)
        if there is None:
            return Overlay.opened(self, below)
        return opened_on_disk(there, f"{self.path}/{below}")

    def real(self, below: str) -> str | None:
        there = self._unpacked_at(below)
        if there is None and not stat.S_ISDIR(Overlay.status(self, below).st_mode):
            there = Overlay.real(self, below)
        return there

    def troubles(self, below: str) -> list[str]:
        return [*Overlay.troubles(self, below), *(() if below else self._left_out)]

    def _unpacked_at(self, below: str) -> str | None:
        """The path of an unpacked file; None for one that is stored as it is."""
        if not is_packed(f"{PurePath(below).name}.gz"):
            return None
        to = Path(self.folder, below)
        if not to.exists():
            if self.has_stored(below):
                return None
            suffix = next((suffix for suffix in SUFFIXES if self.has_stored(below + suffix)), None)
            if suffix is None:
                return None
            self._unpack(below + suffix, suffix, to)
        return str(to)

    def _unpack(self, below: str, suffix: str, to: Path) -> None:
        """Unpack a file, which appears whole, as several processes may do it; raises InputError."""
        name = name_text(path_in(self.path, below))
        modified = Overlay.status(self, below).st_mtime
        part = to.with_suffix(f".{os.getpid()}")
        try:
            with reading(Overlay.opened(self, below)) as packed:
                stream = SequentialFile(reader(packed, suffix, name))
                write_file(part, modified, cast(IO[bytes], stream))
            part.replace(to)
        except OSError as error:
            why = error.strerror or str(error)
            raise InputError(f"{name}: {unpacking_words()}: {why}") from error
