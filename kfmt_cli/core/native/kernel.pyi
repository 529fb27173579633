from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.wire_types import Buffer

COMPILED: bool
OPS: dict[str, int]
STATUSES: dict[str, int]
STATISTICS: tuple[str, ...]

def decode(
    data: Buffer,
    regions: IntArray,
    program: IntArray,
    rows: IntArray,
    children: IntArray,
    statistic_columns: IntArray,
    statistics: IntArray,
) -> int: ...
def expand(parents: IntArray, ends: IntArray, program: IntArray, rows: IntArray) -> None: ...
