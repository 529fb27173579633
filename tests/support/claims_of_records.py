"""What is claimed of brokers on logs whose batches are damaged inside."""

from __future__ import annotations

import struct

from tests.support.broken_partitions import (
    batch,
    control,
    inner_flipped,
    message,
    offset_delta,
    put_valid,
    record_malformed,
    with_crc32,
    wrapper,
)
from tests.support.claim_facts import (
    ALL,
    COMMITTED_RIGHT,
    COMMITTED_STOPS,
    DOWN,
    FETCH,
    KEPT,
    LOOKUPS_LATER,
    PASSED,
    SEEK_BATCH,
    STOP,
    STOP_INSIDE,
    Claim,
    lost,
)
from tests.support.segments import int32, positions, with_bytes

_stop = (KEPT, STOP)

TRUNCATED = (
    lost("silently dropped", 40, 40),
    lost("the other messages get offsets that are too high", 40, 40),
)
RECORD_CLAIMS = [
    Claim(
        "decompression-failed",
        "",
        lambda: batch(put_valid(22, b"\1")),
        _stop,
        _stop,
        advice=(SEEK_BATCH,),
    ),
    Claim(
        "record-malformed",
        "",
        lambda: batch(record_malformed),
        (KEPT, STOP_INSIDE),
        (KEPT, STOP_INSIDE),
        advice=(SEEK_BATCH,),
    ),
    Claim(
        "records-count-mismatch",
        "the count is too low",
        lambda: batch(put_valid(57, int32(19))),
        (KEPT, STOP_INSIDE),
        (KEPT, STOP_INSIDE),
        advice=(SEEK_BATCH,),
    ),
    Claim(
        "records-count-mismatch",
        "the count is too high",
        lambda: batch(put_valid(57, int32(21))),
        (KEPT, STOP_INSIDE),
        (KEPT, STOP_INSIDE),
    ),
    Claim(
        "records-count-mismatch",
        "the count is 0",
        lambda: batch(put_valid(57, int32(0))),
        (KEPT, lost("skip the batch without an error", 340, 359)),
        (KEPT, lost("skip the batch without an error", 340, 359)),
    ),
    Claim(
        "records-count-mismatch",
        "the count is 0, and the records are garbage",
        lambda: batch(lambda data: put_valid(57, int32(0))(put_valid(70, b"\xff" * 40)(data))),
        (KEPT, lost("skip the batch without an error", 340, 359)),
        (KEPT, lost("skip the batch without an error", 340, 359)),
    ),
    Claim(
        "record-offsets-backwards",
        "",
        lambda: batch(offset_delta(3, 1)),
        (KEPT, lost(PASSED, 343, 343)),
        (KEPT, lost(PASSED, 343, 343)),
    ),
    Claim(
        "record-offset-out-of-batch",
        "the header's last offset is too low",
        lambda: batch(put_valid(23, int32(14))),
        (KEPT, ALL),
        (KEPT, ALL),
    ),
    Claim(
        "record-offset-out-of-batch",
        "a record's offset is too high",
        lambda: batch(offset_delta(3, 50)),
        (KEPT, lost(PASSED, 343, 389)),
        (KEPT, lost(PASSED, 343, 389)),
    ),
    Claim(
        "max-timestamp-mismatch",
        "too low",
        lambda: batch(put_valid(35, bytes(8))),
        (KEPT, ALL),
        (KEPT, ALL),
    ),
    Claim(
        "max-timestamp-mismatch",
        "too high",
        lambda: batch(put_valid(35, struct.pack(">q", 1_900_000_000_000))),
        (KEPT, ALL, LOOKUPS_LATER),
        (KEPT, ALL),
    ),
    Claim(
        "control-malformed",
        "a key of 2 bytes",
        lambda: control(0, b"\0\0", bytes(6)),
        (DOWN,),
        (KEPT, COMMITTED_STOPS),
    ),
    Claim(
        "control-malformed",
        "a value of 1 byte",
        lambda: control(0, b"\0\0\0\1", b"\0"),
        (DOWN,),
        (KEPT, COMMITTED_RIGHT),
    ),
    Claim(
        "message-malformed",
        "",
        lambda: message(lambda data: with_crc32(with_bytes(data, 26, int32(5000)))),
        (KEPT, FETCH),
        (KEPT, FETCH),
    ),
    Claim(
        "inner-crc-mismatch",
        "",
        lambda: wrapper(inner_flipped),
        (KEPT, STOP_INSIDE),
        (KEPT, STOP_INSIDE),
    ),
    Claim(
        "inner-set-malformed",
        "",
        lambda: wrapper(lambda data: with_bytes(data, positions(data)[2] + 8, int32(3))),
        _stop,
        _stop,
    ),
    Claim(
        "inner-set-truncated",
        "",
        lambda: wrapper(lambda data: data[:-5]),
        (KEPT, *TRUNCATED),
        (KEPT, *TRUNCATED),
    ),
    Claim(
        "wrapper-offset-invalid", "", lambda: wrapper(lambda data: data, shift=-45), _stop, _stop
    ),
]
