"""What is claimed of brokers on damaged logs."""

from __future__ import annotations

import struct

from tests.support.broken_partitions import (
    CLOSED,
    LAST,
    ORDERS,
    appended,
    batch,
    changed,
    cut_short,
    flipped,
    longer,
    message,
    put,
    put_valid,
    rearranged,
    renamed,
    with_crc32,
    zero_hole,
)
from tests.support.claim_facts import (
    ALL,
    CUT,
    DOWN,
    ENDS_AT_BASE,
    ENDS_EARLY,
    FETCH,
    KEPT,
    LATER,
    ONLY_BATCH,
    ONLY_ZEROS,
    PASSED,
    SEEK_BATCH,
    SEEK_SEGMENT,
    SPLIT,
    STOP,
    STOP_AT_ZEROS,
    Claim,
    lost,
)
from tests.support.segments import int32, with_bytes

GARBAGE = bytes(range(200, 256)) * 9
FAR = struct.pack(">q", 1 << 33)
_cut, _stop = (CUT, LATER), (KEPT, STOP)

LOG_CLAIMS = [
    Claim(
        "crc-mismatch",
        "in a closed segment",
        lambda: batch(flipped),
        _cut,
        _stop,
        advice=(SEEK_BATCH,),
    ),
    Claim(
        "crc-mismatch", "first batch of a segment", lambda: batch(flipped, number=0), _cut, _stop
    ),
    Claim("crc-mismatch", "in the last segment", lambda: batch(flipped, LAST, 1), (CUT,), _stop),
    Claim(
        "batch-length-negative",
        "in a closed segment",
        lambda: batch(put(8, int32(-5))),
        _cut,
        _stop,
        advice=(SEEK_SEGMENT,),
    ),
    Claim(
        "batch-length-negative",
        "last batch of the last segment",
        lambda: batch(put(8, int32(-5)), LAST, 2),
        (CUT,),
        (DOWN,),
    ),
    Claim(
        "batch-length-too-small",
        "length 3",
        lambda: batch(put(8, int32(3))),
        _cut,
        _stop,
        advice=(SEEK_SEGMENT,),
    ),
    Claim("batch-length-too-small", "length 20", lambda: batch(put(8, int32(20))), _cut, _stop),
    Claim(
        "batch-length-too-small",
        "last batch of the last segment",
        lambda: batch(put(8, int32(3)), LAST, 2),
        (CUT,),
        (DOWN,),
    ),
    Claim(
        "batch-length-too-big",
        "extends into the next batch",
        lambda: batch(longer(2000)),
        _cut,
        _stop,
        advice=(SEEK_SEGMENT,),
    ),
    Claim(
        "batch-length-too-big",
        "length 2^31 - 1",
        lambda: batch(put(8, int32(2**31 - 1))),
        _cut,
        (KEPT, FETCH),
        advice=(SEEK_SEGMENT,),
    ),
    Claim(
        "batch-length-too-big",
        "last batch of the last segment",
        lambda: batch(longer(100), LAST, 2),
        (CUT,),
        (ENDS_AT_BASE,),
    ),
    Claim(
        "batch-truncated",
        "in a closed segment",
        lambda: cut_short(CLOSED),
        _cut,
        (KEPT, lost(PASSED, 460, 479)),
    ),
    Claim(
        "batch-truncated",
        "in the last segment",
        lambda: cut_short(LAST),
        (CUT,),
        (ENDS_AT_BASE,),
        at_end=(ONLY_BATCH,),
    ),
    Claim(
        "batch-truncated",
        "17 bytes in the last segment",
        lambda: appended(LAST, struct.pack(">qiib", 1500, 2000, 0, 2)),
        (CUT,),
        (KEPT, ALL),
    ),
    Claim("magic-unknown", "magic 3 in a magic 2 log", lambda: batch(put(16, b"\3")), _stop, _stop),
    Claim(
        "magic-unknown", "magic -1 in a magic 2 log", lambda: batch(put(16, b"\xff")), _cut, _stop
    ),
    Claim(
        "magic-unknown",
        "magic 5 in a magic 1 log",
        lambda: message(lambda data: with_crc32(with_bytes(data, 16, b"\5"))),
        _cut,
        _stop,
    ),
    Claim(
        "codec-unknown",
        "",
        lambda: batch(put_valid(22, b"\5")),
        (KEPT, FETCH),
        (KEPT, FETCH),
        advice=(SEEK_BATCH,),
    ),
    Claim(
        "zero-tail",
        "in the last segment",
        lambda: appended(LAST, bytes(4096)),
        (CUT,),
        (DOWN,),
        at_end=(ONLY_ZEROS,),
    ),
    Claim(
        "zero-tail",
        "in a closed segment",
        lambda: appended(CLOSED, bytes(4096)),
        _cut,
        (KEPT, STOP_AT_ZEROS),
    ),
    Claim("zero-hole", "", zero_hole, _cut, _stop, advice=(SEEK_SEGMENT,)),
    Claim(
        "garbage",
        "in place of a batch",
        lambda: batch(lambda item: GARBAGE * 6),
        _cut,
        _stop,
        advice=(SEEK_SEGMENT,),
    ),
    Claim(
        "garbage",
        "a negative length after the last batch",
        lambda: appended(LAST, GARBAGE),
        (CUT,),
        (DOWN,),
    ),
    Claim(
        "garbage",
        "a large length after the last batch",
        lambda: appended(LAST, b"no batch\n" * 50),
        (CUT,),
        (KEPT, ALL),
    ),
    Claim(
        "offsets-backwards",
        "two batches swapped",
        lambda: changed(
            ORDERS, CLOSED, 0, 340, rearranged(CLOSED, [0, 1, 2, 3, 4, 6, 5, 7, 8, 9, 10, 11])
        ),
        (KEPT, lost(PASSED, 340, 359)),
        (KEPT, lost(PASSED, 340, 359)),
    ),
    Claim(
        "offsets-backwards",
        "a batch twice",
        lambda: changed(
            ORDERS,
            CLOSED,
            15_900,
            340,
            rearranged(CLOSED, [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 11]),
        ),
        (KEPT,),
        (KEPT,),
    ),
    Claim(
        "offset-out-of-segment",
        "the last segment renamed",
        lambda: renamed(LAST, 1470),
        (DOWN,),
        (ENDS_EARLY,),
    ),
    Claim(
        "offset-out-of-segment",
        "the first batch starts below the base offset",
        lambda: batch(put(0, struct.pack(">q", 230)), number=0),
        (KEPT, lost(PASSED, 250, 259)),
        (KEPT, lost(PASSED, 250, 259)),
    ),
    Claim(
        "offset-out-of-segment",
        "2^31 above the base offset, in a closed segment",
        lambda: batch(put(0, FAR)),
        (DOWN,),
        (KEPT,),
    ),
    Claim(
        "offset-out-of-segment",
        "2^31 above the base offset, in the last segment",
        lambda: batch(put(0, FAR), LAST, 2),
        (SPLIT,),
        (),
    ),
]
