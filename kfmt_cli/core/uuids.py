"""UUIDs as Kafka prints them: URL-safe base64 without padding."""

from __future__ import annotations

import base64


def format_uuid(uuid_bytes: bytes) -> str:
    """16 bytes as Kafka prints a UUID."""
    return base64.urlsafe_b64encode(uuid_bytes).decode().rstrip("=")


def parse_uuid(text: str) -> bytes:
    """The 16 bytes of a UUID; also accepts the form with hyphens. Raises ValueError."""
    if len(text) == 36:
        import uuid

        return uuid.UUID(text).bytes
    uuid_bytes = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(uuid_bytes) != 16:
        raise ValueError(f"{text!r} is not a uuid")
    return uuid_bytes
