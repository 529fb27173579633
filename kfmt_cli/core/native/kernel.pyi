from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.wire import Buffer

COMPILED: bool
OPS: dict[str, int]
STATUSES: dict[str, int]
SPAN: tuple[str, ...]

def decode(
    data: Buffer,
    regions: IntArray,
    program: IntArray,
    rows: IntArray,
    children: IntArray,
    spanned: IntArray,
    spans: IntArray,
) -> int: ...
def expand(parents: IntArray, ends: IntArray, program: IntArray, rows: IntArray) -> None: ...
