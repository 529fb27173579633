"""Reads the bytes of a file in a store in blocks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from kfmt_cli.core.file_systems import file_system_and_path
from kfmt_cli.core.small_objects import SMALL_OBJECT_BYTES, fetch_object, is_fetched_whole
from kfmt_cli.core.source import Source
from kfmt_cli.core.stores import request_with_retries
from kfmt_cli.core.throttle import READ_THROTTLE

if TYPE_CHECKING:
    from pyarrow import NativeFile

MIN_REQUEST_BYTES = 256 << 10  # many small requests take longer than one that reads more
READ_WINDOW_BYTES = 4 << 20  # per request when a file is read sequentially


class StoredSource(Source):
    """A file in an object store or a distributed file system.

    A small file is fetched in one request. Small requests to larger files are enlarged. A file that
    is read sequentially is read in windows, the next one ahead.

    listed_size: its size in a listing, in bytes; None if unknown. fetch_content: returns the bytes
    of a small file, or None if it has more than a number of bytes or the request fails.
    """

    def __init__(
        self,
        path: str,
        listed_size: int | None = None,
        fetch_content: Callable[[str, int], bytes | None] = fetch_object,
    ) -> None:
        self.name = path
        self.size: int
        self._file: NativeFile | None = None
        self._buffer_start = 0
        is_small = listed_size is not None and is_fetched_whole(path, listed_size)
        content = fetch_content(path, SMALL_OBJECT_BYTES) if is_small else None
        if content is not None:
            self._buffer, self.size = content, len(content)
            READ_THROTTLE.report_read(len(content))
        else:
            file_system, store_path = file_system_and_path(path)
            self._file = request_with_retries(lambda: file_system.open_input_file(store_path), path)
            self._buffer, self.size = b"", request_with_retries(self._file.size, path)
        self._prefetch_pool: ThreadPoolExecutor | None = None
        self._prefetched_window: tuple[int, Future[bytes]] | None = None

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        del min_length  # a read returns all available bytes
        block_end = min(position + length, self.size)
        buffer_end = self._buffer_start + len(self._buffer)
        if block_end <= position:
            return b""
        if self._buffer_start <= position <= buffer_end < block_end and buffer_end:
            self._extend_buffer(position, buffer_end, block_end)
        elif not self._buffer_start <= position <= block_end <= buffer_end:
            data = self._request_range(
                position, max(block_end, min(position + MIN_REQUEST_BYTES, self.size))
            )
            self._buffer_start, self._buffer = position, data
        buffer_index = position - self._buffer_start
        return self._buffer[buffer_index : buffer_index + block_end - position]

    def _extend_buffer(self, position: int, buffer_end: int, new_buffer_end: int) -> None:
        """Also buffer the bytes up to `new_buffer_end`."""
        chunks = [self._buffer[position - self._buffer_start :]]
        while buffer_end < new_buffer_end:
            prefetched_window, self._prefetched_window = self._prefetched_window, None
            if prefetched_window is not None and prefetched_window[0] == buffer_end:
                chunk = prefetched_window[1].result()
            else:
                chunk = self._request_range(
                    buffer_end, min(max(buffer_end + READ_WINDOW_BYTES, new_buffer_end), self.size)
                )
            if not chunk:  # the file has shrunk
                break
            chunks.append(chunk)
            buffer_end += len(chunk)
        self._buffer_start, self._buffer = position, b"".join(chunks)
        if buffer_end < self.size:
            self._prefetch_pool = self._prefetch_pool or ThreadPoolExecutor(1)
            window_end = min(buffer_end + READ_WINDOW_BYTES, self.size)
            self._prefetched_window = (
                buffer_end,
                self._prefetch_pool.submit(self._request_range, buffer_end, window_end),
            )

    def _request_range(self, position: int, end: int) -> bytes:
        assert self._file is not None
        send_request = partial(self._file.read_at, end - position, position)
        data: bytes = request_with_retries(
            send_request, self.name, f" byte {position}: cannot be read"
        )
        READ_THROTTLE.report_read(len(data))
        return data

    def close(self) -> None:
        if self._prefetch_pool is not None:
            self._prefetch_pool.shutdown()
        if self._file is not None:
            self._file.close()
