"""CRC-32 and CRC-32C of many regions of a block.

A compiled loop handles small regions, for which a library call would take longer than the CRC.
zlib and the crc32c package, which use CPU instructions, handle large ones.
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
from kfmt_cli.core.layout.wire_types import Buffer
from kfmt_cli.core.native import scan

CRC32_POLYNOMIAL = 0xEDB88320  # reflected polynomials
CRC32C_POLYNOMIAL = 0x82F63B78

MIN_LIBRARY_REGION_BYTES = 512  # average size from which a library call per region is faster


@cache
def _slicing_table(polynomial: int) -> array.array[int]:
    """The tables for slicing by eight: table k (256 words) advances a byte by k more zero bytes."""
    first_table = []
    for crc in range(256):
        for _ in range(8):
            crc = (crc >> 1) ^ (polynomial if crc & 1 else 0)  # noqa: PLW2901
        first_table.append(crc)
    slicing_words = array.array("I", first_table)
    for i in range(256, 2048):
        previous_word = slicing_words[i - 256]
        slicing_words.append((previous_word >> 8) ^ first_table[previous_word & 0xFF])
    return slicing_words


def compute_region_crcs(
    polynomial: int, data: Buffer, starts: IntArray, ends: IntArray
) -> IntArray:
    """The CRC of each region of `data`."""
    crcs = np.empty(len(starts), np.int64)
    if not scan.COMPILED or int((ends - starts).sum()) >= MIN_LIBRARY_REGION_BYTES * len(starts):
        crc_function = _library_crc_function(polynomial)
        data_view = memoryview(data)
        region_bounds = zip(starts.tolist(), ends.tolist(), strict=True)
        crcs[:] = [crc_function(data_view[start:end], 0) for start, end in region_bounds]
    else:
        scan.compute_crcs(
            data, np.array([starts, ends], np.int64), _slicing_table(polynomial), crcs
        )
    return crcs


def compute_crc(polynomial: int, data: bytes, previous_crc: int = 0) -> int:
    """The CRC of some bytes. previous_crc: the CRC of the bytes before them."""
    return _library_crc_function(polynomial)(data, previous_crc)


@cache
def _library_crc_function(polynomial: int) -> Callable[[Buffer, int], int]:
    """A library's CRC function.

    Of crc32c, only the module with the function is imported: the package also imports its command
    line and `importlib.metadata`, which takes fifty times longer.
    """
    if polynomial == CRC32_POLYNOMIAL:
        return zlib.crc32
    package_spec = PathFinder.find_spec("crc32c")
    module_search_path = package_spec and package_spec.submodule_search_locations
    module_spec = (
        PathFinder.find_spec("crc32c._crc32c", module_search_path) if module_search_path else None
    )
    if module_spec is None or module_spec.loader is None:
        from crc32c import crc32c

        return crc32c
    crc32c_module = module_from_spec(module_spec)
    module_spec.loader.exec_module(crc32c_module)
    crc_function: Callable[[Buffer, int], int] = crc32c_module.crc32c
    return crc_function
