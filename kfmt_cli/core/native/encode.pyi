from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.wire import Buffer

COMPILED: bool

def gather(data: Buffer, starts: IntArray, ends: IntArray, out: bytearray) -> None: ...
def measure(
    program: IntArray, rows: IntArray, children: IntArray, bodies: IntArray, sizes: IntArray
) -> None: ...
def encode(
    data: Buffer,
    program: IntArray,
    rows: IntArray,
    children: IntArray,
    bodies: IntArray,
    starts: IntArray,
    out: bytearray,
) -> None: ...
