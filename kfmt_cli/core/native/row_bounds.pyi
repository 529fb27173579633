from kfmt_cli.core.layout.layout import IntArray

COMPILED: bool

def row_bytes_bound(
    data: bytes, shape: IntArray, columns: IntArray, row: int, children: IntArray
) -> int: ...
