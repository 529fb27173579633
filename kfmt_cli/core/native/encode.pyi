from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.wire_types import Buffer

COMPILED: bool

def gather_bytes(data: Buffer, starts: IntArray, ends: IntArray, out: bytearray) -> None: ...
def measure_rows(
    program: IntArray, rows: IntArray, children: IntArray, body_sizes: IntArray, sizes: IntArray
) -> None: ...
def encode(
    data: Buffer,
    program: IntArray,
    rows: IntArray,
    children: IntArray,
    body_sizes: IntArray,
    starts: IntArray,
    out: bytearray,
) -> None: ...
