"""What a decoder of a topic is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar


class Decoder(ABC):
    """Reads the keys and values of one topic.

    An answer is an object such as `{"name": …, "version": …, "data": {…}}`; None where the bytes
    are not understood, which are then shown as they are.
    """

    topic: ClassVar[str]

    @abstractmethod
    def key(self, key: bytes) -> dict[str, Any] | None:
        """What a key says."""

    @abstractmethod
    def value(self, key: bytes | None, value: bytes) -> dict[str, Any] | None:
        """What the value of a record with that key says."""
