"""Bytes of a file in a store, in blocks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from kfmt_cli.core.file_systems import file_system_at
from kfmt_cli.core.small_objects import SMALL, fetched, is_fetched
from kfmt_cli.core.source import Source
from kfmt_cli.core.stores import insist
from kfmt_cli.core.throttle import PACE

if TYPE_CHECKING:
    from pyarrow import NativeFile

LEAST = 256 << 10  # bytes per request: many small requests cost more than their bytes
WINDOW = 4 << 20  # bytes per request when a file is read from front to end


class StoredSource(Source):
    """A file in an object store or a distributed file system.

    A small file is fetched whole. Small requests to larger files are enlarged. A file read from
    front to end is read in windows, the next one ahead.

    listed: its size in a listing, in bytes; None if unknown. fetch: returns the bytes of a small
    file, or None.
    """

    def __init__(
        self,
        path: str,
        listed: int | None = None,
        fetch: Callable[[str, int], bytes | None] = fetched,
    ) -> None:
        self.name = path
        self.size: int
        self._file: NativeFile | None = None
        self._start = 0
        is_small = listed is not None and is_fetched(path, listed)
        whole = fetch(path, SMALL) if is_small else None
        if whole is not None:
            self._held, self.size = whole, len(whole)
            PACE.spent(len(whole))
        else:
            system, below = file_system_at(path)
            self._file = insist(lambda: system.open_input_file(below), path)
            self._held, self.size = b"", insist(self._file.size, path)
        self._reader: ThreadPoolExecutor | None = None
        self._ahead: tuple[int, Future[bytes]] | None = None

    def block(self, position: int, length: int, least: int) -> bytes:
        del least  # a read returns all available bytes
        end = min(position + length, self.size)
        held_to = self._start + len(self._held)
        if end <= position:
            return b""
        if self._start <= position <= held_to < end and held_to:
            self._go_on(position, held_to, end)
        elif not self._start <= position <= end <= held_to:
            data = self._read(position, max(end, min(position + LEAST, self.size)))
            self._start, self._held = position, data
        at = position - self._start
        return self._held[at : at + end - position]

    def _go_on(self, position: int, held_to: int, end: int) -> None:
        """Also buffer the bytes up to `end`."""
        parts = [self._held[position - self._start :]]
        while held_to < end:
            ahead, self._ahead = self._ahead, None
            if ahead is not None and ahead[0] == held_to:
                more = ahead[1].result()
            else:
                more = self._read(held_to, min(max(held_to + WINDOW, end), self.size))
            if not more:  # the file has shrunk
                break
            parts.append(more)
            held_to += len(more)
        self._start, self._held = position, b"".join(parts)
        if held_to < self.size:
            self._reader = self._reader or ThreadPoolExecutor(1)
            until = min(held_to + WINDOW, self.size)
            self._ahead = held_to, self._reader.submit(self._read, held_to, until)

    def _read(self, position: int, end: int) -> bytes:
        assert self._file is not None
        read = partial(self._file.read_at, end - position, position)
        data: bytes = insist(read, self.name, f" byte {position}: cannot be read")
        PACE.spent(len(data))
        return data

    def close(self) -> None:
        if self._reader is not None:
            self._reader.shutdown()
        if self._file is not None:
            self._file.close()
