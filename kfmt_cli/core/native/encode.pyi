from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.wire_types import Buffer

COMPILED: bool

def gather_bytes(
    data: Buffer, source_starts: IntArray, output_ends: IntArray, output: bytearray
) -> None: ...
def measure_rows(
    program: IntArray, rows: IntArray, children: IntArray, body_sizes: IntArray, row_sizes: IntArray
) -> None: ...
def encode(
    data: Buffer,
    program: IntArray,
    rows: IntArray,
    children: IntArray,
    body_sizes: IntArray,
    row_starts: IntArray,
    output: bytearray,
) -> None: ...
