"""UUIDs as Kafka prints them: URL-safe base64 without padding."""

from __future__ import annotations

import base64


def format_uuid(data: bytes) -> str:
    """16 bytes as Kafka prints a UUID."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def parse_uuid(text: str) -> bytes:
    """The 16 bytes of a UUID; also accepts the form with hyphens. Raises ValueError."""
    if len(text) == 36:
        import uuid

        return uuid.UUID(text).bytes
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(data) != 16:
        raise ValueError(f"{text!r} is not a uuid")
    return data
