"""The budget for decoding one key or value, which its bytes and its schema cannot raise."""

from __future__ import annotations

MAX_BYTES = 16 << 20
MAX_VALUES = 1 << 20  # a Python object each
FREE_VALUES = 1 << 16  # may take no bytes at all
VALUES_PER_BYTE = 8  # values, as records and unions are values, too
# Characters: a value of two bytes may repeat a long name of its schema.
MAX_NAME_CHARACTERS = 16 << 20
MAX_DEPTH = 100


class PayloadBudget:
    """What is left for a key or value; raises ValueError if it is too large to begin with."""

    def __init__(self, data: bytes) -> None:
        if len(data) > MAX_BYTES:
            raise ValueError(f"has {len(data)} bytes; at most {MAX_BYTES} are decoded")
        self._max_values = self._values_left = min(
            MAX_VALUES, FREE_VALUES + VALUES_PER_BYTE * len(data)
        )
        self._name_characters_left = MAX_NAME_CHARACTERS

    def check_values(self, n_values: int) -> None:
        """Raise ValueError if there are fewer values left."""
        if n_values > self._values_left:
            raise ValueError(f"has too many values; at most {self._max_values} are decoded")

    def spend_values(self, n_values: int = 1) -> None:
        """Count values; raises ValueError."""
        self.check_values(n_values)
        self._values_left -= n_values

    def spend_name(self, name: str, times: int = 1) -> None:
        """Count the characters of a name that stands in the schema; raises ValueError."""
        self._name_characters_left -= times * len(name)
        if self._name_characters_left < 0:
            raise ValueError(
                f"repeats names of more than {MAX_NAME_CHARACTERS} characters in total"
            )

    def check_depth(self, depth: int) -> None:
        """Raise ValueError for a value at a depth beyond the limit."""
        if depth > MAX_DEPTH:
            raise ValueError(f"is nested more than {MAX_DEPTH} levels deep")
