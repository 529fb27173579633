"""The budget for decoding one key or value: limits that do not depend on its bytes or schema."""

from __future__ import annotations

MAX_PAYLOAD_BYTES = 16 << 20
MAX_VALUE_BUDGET = 1 << 20  # each is a Python object
MIN_VALUE_BUDGET = 1 << 16  # allowed whatever the number of bytes
MAX_VALUES_PER_BYTE = 8  # more than 1, because records and unions count as values
# A value of two bytes may repeat a long name of its schema.
MAX_NAME_CHARACTERS = 16 << 20
MAX_DEPTH = 100


class PayloadBudget:
    """The remaining budget for a key or value; raises ValueError if it has too many bytes."""

    def __init__(self, payload_bytes: bytes) -> None:
        if len(payload_bytes) > MAX_PAYLOAD_BYTES:
            raise ValueError(
                f"has {len(payload_bytes)} bytes; at most {MAX_PAYLOAD_BYTES} are decoded"
            )
        self._max_values = self._remaining_values = min(
            MAX_VALUE_BUDGET, MIN_VALUE_BUDGET + MAX_VALUES_PER_BYTE * len(payload_bytes)
        )
        self._remaining_name_characters = MAX_NAME_CHARACTERS

    def require_value_budget(self, n_values: int) -> None:
        """Raise ValueError if the budget has fewer values left."""
        if n_values > self._remaining_values:
            raise ValueError(f"has too many values; at most {self._max_values} are decoded")

    def spend_values(self, n_values: int = 1) -> None:
        """Deduct values from the budget; raises ValueError."""
        self.require_value_budget(n_values)
        self._remaining_values -= n_values

    def spend_name(self, schema_name: str, n_times: int = 1) -> None:
        """Deduct the characters of a name in the schema; raises ValueError."""
        self._remaining_name_characters -= n_times * len(schema_name)
        if self._remaining_name_characters < 0:
            raise ValueError(
                f"repeats names of more than {MAX_NAME_CHARACTERS} characters in total"
            )

    def require_valid_depth(self, depth: int) -> None:
        """Raise ValueError for a value nested deeper than the limit."""
        if depth > MAX_DEPTH:
            raise ValueError(f"is nested more than {MAX_DEPTH} levels deep")
