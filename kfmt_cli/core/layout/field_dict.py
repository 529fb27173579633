"""Values by field name."""

from __future__ import annotations

from typing import Any


class FieldDict(dict[str, Any]):
    """A dictionary whose items are also attributes; raises AttributeError for an unknown one.

    The names come from Layouts and row types, which are data: no class declares them.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value
