"""The files of results that tasks have written."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterable
from contextlib import suppress

from kfmt_cli.arrow.export.atomic_files import read_file_bytes
from kfmt_cli.core.json_text import parse_json
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.parallel import MAX_CONNECTIONS, map_ordered
from kfmt_cli.core.urls import is_local
from kfmt_cli.spark.job import StoredResult

MAX_CACHE_MEMORY_BYTES = 32 << 20


class ResultFiles:
    """The result files in a directory. Files in an object store are read once, several at a time,
    and cached in memory, or in a temporary file if they are large."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._is_local = is_local(directory)
        self._cache_file = tempfile.SpooledTemporaryFile(MAX_CACHE_MEMORY_BYTES)  # noqa: SIM115 (closed with this object)
        weakref.finalize(self, self._cache_file.close)
        self._cached_range_by_name: dict[str, tuple[int, int]] = {}
        self._last_results: tuple[str, dict[str, StoredResult]] = ("", {})

    def cache_files(self, file_names: Iterable[str]) -> None:
        """Read the files that are not cached yet, which must be complete; raises InputError."""
        if self._is_local:
            return
        uncached_names = [name for name in file_names if name not in self._cached_range_by_name]
        for file_name, file_bytes in zip(
            uncached_names,
            map_ordered(self._read_file, uncached_names, MAX_CONNECTIONS),
            strict=True,
        ):
            self._cached_range_by_name[file_name] = self._cache_file.seek(0, 2), len(file_bytes)
            self._cache_file.write(file_bytes)

    def read_results(self, file_name: str) -> dict[str, StoredResult]:
        """The results in a file, by split name; none if it is missing or incomplete. Raises
        InputError."""
        if self._last_results[0] != file_name:
            results: dict[str, StoredResult] = {}
            with suppress(ValueError):
                results = parse_json(self._read_cached(file_name), FieldDict)
            self._last_results = file_name, results
        return self._last_results[1]

    def drop_cached_file(self, file_name: str) -> None:
        """Drop a deleted file from the cache."""
        self._cached_range_by_name.pop(file_name, None)
        self._last_results = "", {}

    def _read_cached(self, file_name: str) -> bytes:
        if self._is_local:
            return self._read_file(file_name)
        self.cache_files((file_name,))
        start_position, length = self._cached_range_by_name[file_name]
        self._cache_file.seek(start_position)
        return self._cache_file.read(length)

    def _read_file(self, file_name: str) -> bytes:
        return read_file_bytes(f"{self._directory}/{file_name}") or b"{}"
