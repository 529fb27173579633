"""CRC-32 and CRC-32C of many regions of a block.

A compiled loop handles small regions, for which a library call would cost more than the work.
zlib and the crc32c package, which use CPU instructions, handle long ones.
"""

from __future__ import annotations

import array
import zlib
from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.wire import Buffer
from kfmt_cli.core.native import scan

CRC32 = 0xEDB88320  # reflected polynomials
CRC32C = 0x82F63B78

LONG_REGION = 512  # bytes on average from which a call for each is faster


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


def crc_of_regions(polynomial: int, data: Buffer, starts: IntArray, ends: IntArray) -> IntArray:
    """The CRC of each region of `data`."""
    out = np.empty(len(starts), np.int64)
    if not scan.COMPILED or int((ends - starts).sum()) >= LONG_REGION * len(starts):
        crc = _library(polynomial)
        view = memoryview(data)
        bounds = zip(starts.tolist(), ends.tolist(), strict=True)
        out[:] = [crc(view[start:end], 0) for start, end in bounds]
    else:
        scan.crc(data, np.array([starts, ends], np.int64), _table(polynomial), out)
    return out


def crc_of(polynomial: int, data: bytes, before: int = 0) -> int:
    """The CRC of some bytes. before: the CRC of the bytes that precede them."""
    return _library(polynomial)(data, before)


@cache
def _library(polynomial: int) -> Callable[[Buffer, int], int]:
    """A library's function. Of crc32c only the module with the function is imported: the package
    brings its command line and `importlib.metadata`, which take fifty times longer."""
    if polynomial == CRC32:
        return zlib.crc32
    package = PathFinder.find_spec("crc32c")
    within = package and package.submodule_search_locations
    spec = PathFinder.find_spec("crc32c._crc32c", within) if within else None
    if spec is None or spec.loader is None:
        from crc32c import crc32c

        return crc32c
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    crc: Callable[[Buffer, int], int] = module.crc32c
    return crc
