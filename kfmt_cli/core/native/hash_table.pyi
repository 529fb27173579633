from kfmt_cli.core.layout.layout import IntArray

COMPILED: bool

def put(
    keys: IntArray,
    offsets: IntArray,
    hashes: IntArray,
    new_offsets: IntArray,
    max_hashes: int,
    n_used: IntArray,
) -> int: ...
def get(keys: IntArray, offsets: IntArray, hashes: IntArray, offset_by_row: IntArray) -> None: ...
