"""Pages about the operating system: the page cache and zero-copy transfer."""

from __future__ import annotations

import ctypes
import ctypes.util
import mmap
import os
import sys
from collections.abc import Iterator

import numpy as np

from kfmt_cli.commands.explain.pages.page import PageFacts, PageSection
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.file_access import open_file_descriptor

_MAX_SHOWN_FILES = 8
_MAX_QUERIED_BYTES = 1 << 30  # bytes of a file that are queried


def page_cache_page(facts: PageFacts) -> Iterator[PageSection]:
    """How much of each file is in memory now."""
    yield (
        "A broker does not cache records itself. It reads and writes files, and the operating "
        "system keeps recently used data in free memory. Consumers that keep up read freshly "
        "written data from memory; a consumer that reads old records fetches them from disk and "
        "evicts newer ones."
    )
    file_lines = []
    for file_name in (
        () if facts.is_reproducible else facts.partition_listing.files[:_MAX_SHOWN_FILES]
    ):
        file = facts.partition_listing.input_file(file_name)
        page_counts = count_cached_pages(file.path)
        if page_counts is not None:
            n_cached_pages, n_pages = page_counts
            percentage_text = f"{n_cached_pages / n_pages:>4.0%}" if n_pages else "   –"
            file_lines.append(
                f"{file_name:<32} {n_cached_pages:>6} of {n_pages:>6} pages  {percentage_text}"
            )
    if file_lines:
        yield f"In the page cache now, of {facts.source_label}, in pages of {mmap.PAGESIZE} bytes:"
        yield file_lines
    elif not facts.is_reproducible:
        yield "This system does not report what is in its page cache."
    yield (
        "Copying or checking a partition fills the cache with data nobody needs; kfmt check "
        "--throttle drops what it has read. Explicit flushes are rare: durability comes from "
        "replication, and the recovery point marks what is known to be on disk."
    )
    yield "Kafka: org.apache.kafka.common.record.FileRecords, LogManager.flushDirtyLogs."


def zero_copy_page(facts: PageFacts) -> Iterator[PageSection]:
    """How a broker answers a fetch, with and without copies."""
    n_bytes = sum(map(file_size, facts.logs))
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
        f"For the {n_bytes} bytes of logs of {facts.source_label} that saves two copies, "
        f"{2 * n_bytes} "
        "bytes through memory, for each consumer that reads them."
    )
    yield (
        "Zero-copy ends where bytes must change: with TLS, for consumers that need an older "
        "format, and when the broker has to recompress. With compression.type=producer, the broker "
        "keeps the producer's compression."
    )
    yield "Kafka: FileRecords.writeTo, TransferableChannel.transferFrom."


def count_cached_pages(path: str) -> tuple[int, int] | None:
    """Number of a file's pages in memory and its total pages; None if that cannot be determined.

    The file is mapped but its pages are not touched, so a concurrent truncation does no harm.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
    try:
        file_descriptor = open_file_descriptor(path)
    except OSError:
        return None
    try:
        mapped_bytes = min(os.fstat(file_descriptor).st_size, _MAX_QUERIED_BYTES)
        if not mapped_bytes:
            return 0, 0
        mapped_file = np.frombuffer(
            mmap.mmap(file_descriptor, mapped_bytes, prot=mmap.PROT_READ), np.uint8
        )
        resident_flags = np.zeros(-(-mapped_bytes // mmap.PAGESIZE), np.uint8)
        libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        error_code = libc.mincore(mapped_file.ctypes.data, mapped_bytes, resident_flags.ctypes.data)
        return None if error_code else (int((resident_flags & 1).sum()), len(resident_flags))
    except (OSError, ValueError):
        return None
    finally:
        os.close(file_descriptor)
