"""The budget for decoding one key or value: limits that its bytes and schema cannot raise."""

from __future__ import annotations

MAX_PAYLOAD_BYTES = 16 << 20
MAX_VALUE_BUDGET = 1 << 20  # each is a Python object
MIN_VALUE_BUDGET = 1 << 16  # allowed whatever the number of bytes
VALUES_PER_BYTE = 8  # more than 1, because records and unions count as values
# A value of two bytes may repeat a long name of its schema.
MAX_NAME_CHARACTERS = 16 << 20
MAX_DEPTH = 100


class PayloadBudget:
    """The remaining budget for a key or value; raises ValueError if it has too many bytes."""

    def __init__(self, data: bytes) -> None:
        if len(data) > MAX_PAYLOAD_BYTES:
            raise ValueError(f"has {len(data)} bytes; at most {MAX_PAYLOAD_BYTES} are decoded")
        self._max_values = self._remaining_values = min(
            MAX_VALUE_BUDGET, MIN_VALUE_BUDGET + VALUES_PER_BYTE * len(data)
        )
        self._remaining_name_characters = MAX_NAME_CHARACTERS

    def check_values(self, n_values: int) -> None:
        """Raise ValueError if the budget has fewer values left."""
        if n_values > self._remaining_values:
            raise ValueError(f"has too many values; at most {self._max_values} are decoded")

    def spend_values(self, n_values: int = 1) -> None:
        """Deduct values from the budget; raises ValueError."""
        self.check_values(n_values)
        self._remaining_values -= n_values

    def spend_name(self, name: str, times: int = 1) -> None:
        """Deduct the characters of a name in the schema; raises ValueError."""
        self._remaining_name_characters -= times * len(name)
        if self._remaining_name_characters < 0:
            raise ValueError(
                f"repeats names of more than {MAX_NAME_CHARACTERS} characters in total"
            )

    def check_depth(self, depth: int) -> None:
        """Raise ValueError for a value nested deeper than the limit."""
        if depth > MAX_DEPTH:
            raise ValueError(f"is nested more than {MAX_DEPTH} levels deep")
