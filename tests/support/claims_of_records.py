"""Claims about brokers on logs with damage inside batches."""

from __future__ import annotations

import struct

from tests.support.broken_partitions import (
    batch,
    control,
    inner_flipped,
    message,
    offset_delta,
    overwrite_with_crc,
    record_malformed,
    with_crc32,
    wrapper,
)
from tests.support.claim_facts import (
    ALL_DELIVERED,
    COMMITTED_RIGHT,
    COMMITTED_STOPS,
    DOWN,
    FETCH_FAILS,
    LOOKUPS_LATER,
    READ_STOPS,
    READ_STOPS_INSIDE,
    SEEK_BATCH,
    SKIPPED,
    UNCHANGED,
    Claim,
    offsets_lost,
)
from tests.support.segments import int32, positions, with_bytes


def all_deltas_zero(data: bytes) -> bytes:
    """A batch whose records all have its base offset, and which ends there."""
    for record_index in range(1, 20):
        data = offset_delta(record_index, 0)(data)
    return overwrite_with_crc(23, int32(0))(data)


_read_stops = (UNCHANGED, READ_STOPS)

MESSAGE_LOST = (
    offsets_lost("silently dropped", 40, 40),
    offsets_lost("the other messages get offsets that are too high", 40, 40),
)
RECORD_CLAIMS = [
    Claim(
        "decompression-failed",
        "",
        lambda: batch(overwrite_with_crc(22, b"\1")),
        _read_stops,
        _read_stops,
        advice=(SEEK_BATCH,),
    ),
    Claim(
        "record-malformed",
        "",
        lambda: batch(record_malformed),
        (UNCHANGED, READ_STOPS_INSIDE),
        (UNCHANGED, READ_STOPS_INSIDE),
        advice=(SEEK_BATCH,),
    ),
    Claim(
        "records-count-mismatch",
        "the count is too low",
        lambda: batch(overwrite_with_crc(57, int32(19))),
        (UNCHANGED, READ_STOPS_INSIDE),
        (UNCHANGED, READ_STOPS_INSIDE),
        advice=(SEEK_BATCH,),
    ),
    Claim(
        "records-count-mismatch",
        "the count is too high",
        lambda: batch(overwrite_with_crc(57, int32(21))),
        (UNCHANGED, READ_STOPS_INSIDE),
        (UNCHANGED, READ_STOPS_INSIDE),
    ),
    Claim(
        "records-count-mismatch",
        "the count is 0",
        lambda: batch(overwrite_with_crc(57, int32(0))),
        (UNCHANGED, offsets_lost("skip the batch without an error", 340, 359)),
        (UNCHANGED, offsets_lost("skip the batch without an error", 340, 359)),
    ),
    Claim(
        "records-count-mismatch",
        "the count is 0, and the records are garbage",
        lambda: batch(
            lambda data: overwrite_with_crc(57, int32(0))(
                overwrite_with_crc(70, b"\xff" * 40)(data)
            )
        ),
        (UNCHANGED, offsets_lost("skip the batch without an error", 340, 359)),
        (UNCHANGED, offsets_lost("skip the batch without an error", 340, 359)),
    ),
    Claim(
        "record-offsets-backwards",
        "",
        lambda: batch(offset_delta(3, 1)),
        (UNCHANGED, offsets_lost(SKIPPED, 343, 343)),
        (UNCHANGED, offsets_lost(SKIPPED, 343, 343)),
    ),
    Claim(
        "record-offsets-backwards",
        "all offset deltas are 0, as Sarama wrote them",
        lambda: batch(all_deltas_zero),
        (UNCHANGED, offsets_lost(SKIPPED, 341, 359)),
        (UNCHANGED, offsets_lost(SKIPPED, 341, 359)),
    ),
    Claim(
        "record-offset-out-of-batch",
        "the header's last offset is too low",
        lambda: batch(overwrite_with_crc(23, int32(14))),
        (UNCHANGED, ALL_DELIVERED),
        (UNCHANGED, ALL_DELIVERED),
    ),
    Claim(
        "record-offset-out-of-batch",
        "a record's offset is too high",
        lambda: batch(offset_delta(3, 50)),
        (UNCHANGED, offsets_lost(SKIPPED, 343, 389)),
        (UNCHANGED, offsets_lost(SKIPPED, 343, 389)),
    ),
    Claim(
        "max-timestamp-mismatch",
        "too low",
        lambda: batch(overwrite_with_crc(35, bytes(8))),
        (UNCHANGED, ALL_DELIVERED),
        (UNCHANGED, ALL_DELIVERED),
    ),
    Claim(
        "max-timestamp-mismatch",
        "too high",
        lambda: batch(overwrite_with_crc(35, struct.pack(">q", 1_900_000_000_000))),
        (UNCHANGED, ALL_DELIVERED, LOOKUPS_LATER),
        (UNCHANGED, ALL_DELIVERED),
    ),
    Claim(
        "control-malformed",
        "a key of 2 bytes",
        lambda: control(0, b"\0\0", bytes(6)),
        (DOWN,),
        (UNCHANGED, COMMITTED_STOPS),
    ),
    Claim(
        "control-malformed",
        "a value of 1 byte",
        lambda: control(0, b"\0\0\0\1", b"\0"),
        (DOWN,),
        (UNCHANGED, COMMITTED_RIGHT),
    ),
    Claim(
        "message-malformed",
        "",
        lambda: message(lambda data: with_crc32(with_bytes(data, 26, int32(5000)))),
        (UNCHANGED, FETCH_FAILS),
        (UNCHANGED, FETCH_FAILS),
    ),
    Claim(
        "inner-crc-mismatch",
        "",
        lambda: wrapper(inner_flipped),
        (UNCHANGED, READ_STOPS_INSIDE),
        (UNCHANGED, READ_STOPS_INSIDE),
    ),
    Claim(
        "inner-set-malformed",
        "",
        lambda: wrapper(lambda data: with_bytes(data, positions(data)[2] + 8, int32(3))),
        _read_stops,
        _read_stops,
    ),
    Claim(
        "inner-set-truncated",
        "",
        lambda: wrapper(lambda data: data[:-5]),
        (UNCHANGED, *MESSAGE_LOST),
        (UNCHANGED, *MESSAGE_LOST),
    ),
    Claim(
        "wrapper-offset-invalid",
        "",
        lambda: wrapper(lambda data: data, shift=-45),
        _read_stops,
        _read_stops,
    ),
]
