"""CRC-32 and CRC-32C of many regions of a block.

The compiled loop handles small regions, for which a library call would cost more than the work.
zlib and the crc32c package, which use CPU instructions, handle long ones. Importing crc32c takes
longer than the loop needs for tens of megabytes, so only long reads use it.
"""

from __future__ import annotations

import array
import zlib
from collections.abc import Callable
from functools import cache

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.wire import Buffer
from kfmt_cli.core.native import scan

CRC32 = 0xEDB88320  # reflected polynomials
CRC32C = 0x82F63B78

LONG_REGION = 1024
WORTH_IMPORT = 64 << 10  # bytes


@cache
def _table(polynomial: int) -> array.array[int]:
    """Eight tables of 256 words: table k advances a byte by k further zero bytes."""
    first = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)  # noqa: PLW2901
        first.append(value)
    words = array.array("I", first)
    for i in range(256, 2048):
        before = words[i - 256]
        words.append((before >> 8) ^ first[before & 0xFF])
    return words


def crc_of_regions(
    polynomial: int, data: Buffer, starts: IntArray, ends: IntArray, long_read: bool
) -> IntArray:
    """The CRC of each region of `data`; `long_read` if much more data will follow."""
    regions = np.array([starts, ends], np.int64)
    out = np.empty(len(starts), np.int64)
    n_long = (ends - starts).sum() // LONG_REGION
    if n_long >= len(starts) and (long_read or polynomial == CRC32):
        crc = _library(polynomial)
        view = memoryview(data)
        bounds = zip(starts.tolist(), ends.tolist(), strict=True)
        out[:] = [crc(view[start:end], 0) for start, end in bounds]
    else:
        scan.crc(data, regions, _table(polynomial), out)
    return out


def crc_of(polynomial: int, data: bytes) -> int:
    """The CRC of some bytes."""
    regions = np.array([0]), np.array([len(data)])
    return int(crc_of_regions(polynomial, data, *regions, len(data) >= WORTH_IMPORT)[0])


class RunningCrc:
    """A CRC over data in pieces."""

    def __init__(self, polynomial: int) -> None:
        self._crc = _library(polynomial)
        self.value = 0

    def update(self, data: Buffer) -> None:
        self.value = self._crc(data, self.value)


def _library(polynomial: int) -> Callable[[Buffer, int], int]:
    if polynomial == CRC32:
        return zlib.crc32
    from crc32c import crc32c

    return crc32c
