"""The metadata that Kafka Streams commits with an offset."""

from __future__ import annotations

import base64

import pytest

from kfmt_cli.topics.streams_commit import parse_stream_time


def metadata(version: int, time_ms: int, trailing: bytes = b"") -> str:
    return base64.b64encode(
        bytes([version]) + time_ms.to_bytes(8, "big", signed=True) + trailing
    ).decode()


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        (metadata(1, 1_700_000_000_000), 1_700_000_000_000),
        (metadata(2, 1_700_000_000_000), 1_700_000_000_000),
        (metadata(2, 7, b"processors"), 7),  # trailing bytes are ignored
        (metadata(1, -1), -1),
        (metadata(1, 7, b"x"), None),
        *((metadata(0, 7), None), (metadata(3, 7), None)),
        *((None, None), ("", None), ("plain text", None), ("AQAAAAAAAAAA*", None)),
        (base64.b64encode(b"\x01" + bytes(7)).decode(), None),
    ],
)
def test_the_stream_time_is_read_if_it_is_one(text: str | None, time_ms: int | None) -> None:
    assert parse_stream_time(text) == time_ms
