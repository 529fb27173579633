from kfmt_cli.core.layout.layout import IntArray

COMPILED: bool
FIXED_LITERALS: tuple[bytes, ...]
LITERAL_PADDING: int

class Writer:
    at: int
    def __init__(
        self, out: bytearray, literals: bytes, places: IntArray, wide: IntArray
    ) -> None: ...
