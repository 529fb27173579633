from array import array

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.wire_types import Buffer

COMPILED: bool
WALK_STOP_REASONS: dict[str, int]

def walk_batches(
    data: Buffer, regions: IntArray, min_lengths: IntArray, batches: IntArray
) -> int: ...
def find_batch_header(
    data: Buffer,
    start: int,
    end: int,
    min_lengths: IntArray,
    zero_bits: IntArray,
    available_end: int,
) -> int: ...
def find_nonzero(data: Buffer, start: int, end: int) -> int: ...
def compute_crcs(
    data: Buffer, regions: IntArray, slicing_table: array[int], crcs: IntArray
) -> None: ...
def hash_json_lines(data: Buffer, end: int, lines: IntArray) -> int: ...
