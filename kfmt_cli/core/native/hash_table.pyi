from kfmt_cli.core.layout.layout import IntArray

COMPILED: bool

def put(
    keys: IntArray,
    offsets: IntArray,
    hashes: IntArray,
    values: IntArray,
    room: int,
    counts: IntArray,
) -> int: ...
def get(keys: IntArray, offsets: IntArray, hashes: IntArray, found: IntArray) -> None: ...
