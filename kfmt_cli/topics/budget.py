"""The budget for decoding one key or value, which its bytes and its schema cannot raise."""

from __future__ import annotations

MOST_BYTES = 16 << 20
MOST_VALUES = 1 << 20  # a Python object each
FREE_VALUES = 1 << 16  # may take no bytes at all
PER_BYTE = 8  # values, as records and unions are values, too
MOST_NAMES = 16 << 20  # characters: a value of two bytes may repeat a long name of its schema
MOST_DEPTH = 100


class PayloadBudget:
    """What is left for a key or value; raises ValueError if it is too large to begin with."""

    def __init__(self, data: bytes) -> None:
        if len(data) > MOST_BYTES:
            raise ValueError(f"has {len(data)} bytes; at most {MOST_BYTES} are decoded")
        self._most = self._values = min(MOST_VALUES, FREE_VALUES + PER_BYTE * len(data))
        self._names = MOST_NAMES

    def check(self, values: int) -> None:
        """Raise ValueError if there are fewer values left."""
        if values > self._values:
            raise ValueError(f"has too many values; at most {self._most} are decoded")

    def spend(self, values: int = 1) -> None:
        """Count values; raises ValueError."""
        self.check(values)
        self._values -= values

    def repeat(self, name: str, times: int = 1) -> None:
        """Count the characters of a name that stands in the schema; raises ValueError."""
        self._names -= times * len(name)
        if self._names < 0:
            raise ValueError(f"repeats names of more than {MOST_NAMES} characters in total")

    def check_depth(self, depth: int) -> None:
        """Raise ValueError for a value at a depth beyond the limit."""
        if depth > MOST_DEPTH:
            raise ValueError(f"is nested more than {MOST_DEPTH} levels deep")
