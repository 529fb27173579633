"""UUIDs as Kafka prints them: URL-safe base64 without padding."""

from __future__ import annotations

import base64
import re

_UUID_TEXT = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?")


def format_uuid(uuid_bytes: bytes) -> str:
    """The text of a UUID of 16 bytes, as Kafka prints it."""
    return base64.urlsafe_b64encode(uuid_bytes).decode().rstrip("=")


def parse_uuid(text: str) -> bytes:
    """The 16 bytes of a UUID; raises ValueError for text that Kafka rejects. Source:
    `org.apache.kafka.common.Uuid.fromString`."""
    if _UUID_TEXT.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a uuid")
    return base64.urlsafe_b64decode(text[:22] + "==")
