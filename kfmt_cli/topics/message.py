"""The kinds of records that a topic holds."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.core.layout.layout import Layout


@dataclass(frozen=True, slots=True)
class Message:
    """A kind of record: the number that its topic has for it, and its messages."""

    id: int
    value: Layout
    key: Layout | None = None
    """None in a topic whose records have no keys."""
