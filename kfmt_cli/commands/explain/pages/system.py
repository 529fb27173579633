"""Pages about the operating system: the page cache and zero-copy transfer."""

from __future__ import annotations

import ctypes
import ctypes.util
import mmap
import os
import sys
from collections.abc import Iterator

import numpy as np

from kfmt_cli.commands.explain.pages.page import PageFacts, Part
from kfmt_cli.disk.opening import descriptor
from kfmt_cli.disk.tree import size_of

_ROWS = 8
_MOST = 1 << 30  # bytes of a file that are queried


def page_cache(facts: PageFacts) -> Iterator[Part]:
    """How much of each file is in memory now."""
    yield (
        "A broker does not cache records itself. It reads and writes files, and the operating "
        "system keeps recently used data in free memory. Consumers that keep up read freshly "
        "written data from memory; a consumer that reads old records fetches them from disk and "
        "evicts newer ones."
    )
    lines = []
    for name in () if facts.still else facts.folder.files[:_ROWS]:
        file = facts.folder.input(name)
        held = cached(file.path)
        if held is not None:
            pages, total = held
            share = f"{pages / total:>4.0%}" if total else "   –"
            lines.append(f"{name:<32} {pages:>6} of {total:>6} pages  {share}")
    if lines:
        yield f"In the page cache now, of {facts.words}, in pages of {mmap.PAGESIZE} bytes:"
        yield lines
    elif not facts.still:
        yield "This system does not report what is in its page cache."
    yield (
        "Copying or checking a partition fills the cache with data nobody needs; kfmt check "
        "--throttle drops what it has read. Explicit flushes are rare: durability comes from "
        "replication, and the recovery point marks what is known to be on disk."
    )
    yield "Kafka: org.apache.kafka.common.record.FileRecords, LogManager.flushDirtyLogs."


def zero_copy(facts: PageFacts) -> Iterator[Part]:
    """How a broker answers a fetch, with and without copies."""
    size = sum(map(size_of, facts.logs))
    yield (
        "A batch is stored in exactly the form in which it is sent. To answer a fetch, a broker "
        "therefore does not read the bytes at all: it asks the operating system to send a range "
        "of a file to a socket."
    )
    yield [
        "read, write   disk → page cache → broker's memory → socket's buffer → network",
        "sendfile      disk → page cache ────────────────────────────────────→ network",
    ]
    yield (
        f"For the {size} bytes of logs of {facts.words} that saves two copies, {2 * size} bytes "
        "through memory, for each consumer that reads them."
    )
    yield (
        "Zero-copy ends where bytes must change: with TLS, for consumers that need an older "
        "format, and when the broker has to recompress. With compression.type=producer, the broker "
        "keeps the producer's compression."
    )
    yield "Kafka: FileRecords.writeTo, TransferableChannel.transferFrom."


def cached(path: str) -> tuple[int, int] | None:
    """Number of a file's pages in memory and its total pages; None if that cannot be determined.

    The file is mapped but its pages are not touched, so a concurrent truncation does no harm.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
    try:
        handle = descriptor(path)
    except OSError:
        return None
    try:
        size = min(os.fstat(handle).st_size, _MOST)
        if not size:
            return 0, 0
        mapped = np.frombuffer(mmap.mmap(handle, size, prot=mmap.PROT_READ), np.uint8)
        pages = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
        libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        failed = libc.mincore(mapped.ctypes.data, size, pages.ctypes.data)
        return None if failed else (int((pages & 1).sum()), len(pages))
    except (OSError, ValueError):
        return None
    finally:
        os.close(handle)
