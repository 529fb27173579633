from array import array

from kfmt_cli.core.layout import IntArray
from kfmt_cli.core.wire import Buffer

COMPILED: bool
WALKS: dict[str, int]

def walk(data: Buffer, regions: IntArray, minimums: IntArray, found: IntArray) -> int: ...
def find_header(
    data: Buffer, start: int, end: int, minimums: IntArray, zeros: IntArray, available: int
) -> int: ...
def find_nonzero(data: Buffer, start: int, end: int) -> int: ...
def crc(data: Buffer, regions: IntArray, table: array[int], out: IntArray) -> None: ...
