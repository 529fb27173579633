COMPILED: bool
MODES: dict[str, int]
