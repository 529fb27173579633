from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.text import Writer

COMPILED: bool
OPS: dict[str, int]

def emit(
    writer: Writer,
    data: bytes,
    program: IntArray,
    shape: IntArray,
    columns: IntArray,
    children: IntArray,
    row: int,
    end_row: int,
) -> int: ...
def emit_nested(
    writer: Writer,
    data: bytes,
    outer_program: IntArray,
    outer_shape: IntArray,
    outer_columns: IntArray,
    inner_program: IntArray,
    inner_shape: IntArray,
    inner_columns: IntArray,
    children: IntArray,
    inner_ends: IntArray,
    resume_state: IntArray,
    outer_end: int,
) -> None: ...
