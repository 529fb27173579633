from kfmt_cli.core.layout.layout import IntArray

COMPILED: bool

def room(data: bytes, shape: IntArray, columns: IntArray, row: int, children: IntArray) -> int: ...
