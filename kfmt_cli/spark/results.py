"""The files of results that tasks have written."""

from __future__ import annotations

import json
import tempfile
import weakref
from collections.abc import Iterable
from contextlib import suppress

from kfmt_cli.arrow.export.output import read_whole
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.parallel import CONNECTIONS, map_ordered
from kfmt_cli.core.urls import is_local
from kfmt_cli.spark.job import Stored

IN_MEMORY = 32 << 20  # bytes


class ResultFiles:
    """Files of results in a directory. Those in a store are read once, several at a time; they are
    kept in memory, or in a temporary file if they are large."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._is_near = is_local(folder)
        self._kept = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 (as long as this)
        weakref.finalize(self, self._kept.close)
        self._places: dict[str, tuple[int, int]] = {}
        self._last: tuple[str, dict[str, Stored]] = ("", {})

    def fetch(self, names: Iterable[str]) -> None:
        """Read the files that are not yet here; raises InputError. They are complete."""
        if self._is_near:
            return
        new = [name for name in names if name not in self._places]
        for name, data in zip(new, map_ordered(self._read, new, CONNECTIONS), strict=True):
            self._places[name] = self._kept.seek(0, 2), len(data)
            self._kept.write(data)

    def results(self, name: str) -> dict[str, Stored]:
        """The results in a file, by piece; none if it is missing or incomplete. Raises
        InputError."""
        if self._last[0] != name:
            found: dict[str, Stored] = {}
            with suppress(ValueError):
                found = json.loads(self._data(name), object_hook=Fields)
            self._last = name, found
        return self._last[1]

    def forget(self, name: str) -> None:
        """A file is no longer there."""
        self._places.pop(name, None)
        self._last = "", {}

    def _data(self, name: str) -> bytes:
        if self._is_near:
            return self._read(name)
        self.fetch((name,))
        start, length = self._places[name]
        self._kept.seek(start)
        return self._kept.read(length)

    def _read(self, name: str) -> bytes:
        return read_whole(f"{self._folder}/{name}") or b"{}"
