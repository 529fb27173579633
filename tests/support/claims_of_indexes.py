"""Claims about brokers on damaged offset and time indexes."""

from __future__ import annotations

from tests.support.broken_directories import (
    add_to_entry,
    changed_file,
    index,
    missing,
    offset_not_in_log,
    swapped,
    time_offset_not_in_log,
    undamaged,
    undamaged_v0,
    with_file,
)
from tests.support.broken_partitions import CLOSED, LAST, name
from tests.support.claim_facts import (
    ALL_DELIVERED,
    LOOKUPS_IN_SEGMENT_RIGHT,
    LOOKUPS_LAST,
    LOOKUPS_LATER,
    LOOKUPS_RIGHT,
    LOOKUPS_SKIP,
    NO_ERROR,
    RETENTION,
    SEEKS_MISS,
    SEEKS_RIGHT,
    Claim,
    deleted,
    empty,
    rebuilt,
    rewritten,
    trimmed,
    used_as_is,
)

OFFSETS, TIMES = ".index", ".timeindex"
RETENTION_OF_AN_HOUR = {"retention.ms": "3600000"}
_offsets_rebuilt, _times_rebuilt = (rebuilt(OFFSETS),), (rebuilt(TIMES),)
_seeks_miss = (used_as_is(OFFSETS), SEEKS_MISS)
_no_read_fails = (used_as_is(OFFSETS), NO_ERROR)
_no_lookup_fails = (used_as_is(TIMES), LOOKUPS_RIGHT)

INDEX_CLAIMS = [
    Claim(
        "index-entries-not-increasing",
        "",
        lambda: index(OFFSETS, lambda entries: [*entries[:5], (100, entries[5][1]), *entries[6:]]),
        _offsets_rebuilt,
        _seeks_miss,
    ),
    Claim(
        "index-position-out-of-log",
        "",
        lambda: index(
            OFFSETS, lambda entries: [*entries[:4], (entries[4][0], 10**6), *entries[5:]]
        ),
        _offsets_rebuilt,
        (used_as_is(OFFSETS), SEEKS_MISS),
    ),
    Claim(
        "index-entry-not-at-batch",
        "",
        lambda: index(OFFSETS, add_to_entry(4, 0, 7)),
        _offsets_rebuilt,
        (used_as_is(OFFSETS), SEEKS_MISS),
    ),
    Claim("index-offset-not-in-log", "", offset_not_in_log, (rewritten(OFFSETS),), _no_read_fails),
    Claim(
        "index-offset-before-batch",
        "",
        lambda: index(OFFSETS, lambda entries: [*entries[:3], (95, entries[4][1]), *entries[5:]]),
        _offsets_rebuilt,
        _seeks_miss,
    ),
    Claim(
        "index-offset-out-of-segment",
        "",
        lambda: index(OFFSETS, lambda entries: [*entries[:5], (-5, entries[5][1]), *entries[6:]]),
        _offsets_rebuilt,
        _seeks_miss,
    ),
    Claim(
        "index-trailing-bytes",
        "",
        lambda: changed_file(name(CLOSED, OFFSETS), lambda data: data + b"abc"),
        (trimmed(OFFSETS),),
        (trimmed(OFFSETS), SEEKS_RIGHT),
    ),
    Claim(
        "index-zero-tail",
        "",
        lambda: changed_file(name(CLOSED, OFFSETS), lambda data: data + bytes(1200)),
        _offsets_rebuilt,
        (used_as_is(OFFSETS), SEEKS_RIGHT),
    ),
    Claim(
        "index-missing",
        "",
        lambda: missing(name(CLOSED, OFFSETS)),
        (rebuilt(OFFSETS), rebuilt(TIMES)),
        (rebuilt(OFFSETS), rebuilt(TIMES)),
    ),
    Claim(
        "index-missing",
        "the offset index and the time index",
        lambda: missing(name(CLOSED, OFFSETS), name(CLOSED, TIMES)),
        (rebuilt(OFFSETS), rebuilt(TIMES)),
        (rebuilt(OFFSETS), rebuilt(TIMES)),
    ),
    Claim(
        "index-without-log",
        "an offset index",
        lambda: with_file(undamaged(), name(777, OFFSETS), bytes(8)),
        (deleted(name(777, OFFSETS)), ALL_DELIVERED),
        (deleted(name(777, OFFSETS)), ALL_DELIVERED),
    ),
    Claim(
        "index-without-log",
        "a time index",
        lambda: with_file(undamaged(), name(777, TIMES), bytes(12)),
        (deleted(name(777, TIMES)), ALL_DELIVERED),
        (deleted(name(777, TIMES)), ALL_DELIVERED),
    ),
    Claim(
        "index-preallocated",
        "an offset index",
        lambda: changed_file(name(LAST, OFFSETS), lambda data: data + bytes(120_000)),
        (trimmed(OFFSETS),),
        (used_as_is(OFFSETS), SEEKS_RIGHT),
    ),
    Claim(
        "index-preallocated",
        "a time index",
        lambda: changed_file(name(LAST, TIMES), lambda data: data + bytes(120_000)),
        (trimmed(TIMES),),
        (used_as_is(TIMES), LOOKUPS_LAST),
    ),
    Claim(
        "index-entry-further-on",
        "",
        lambda: index(
            OFFSETS,
            lambda entries: (
                [(offset + 5, position) for offset, position in entries[:-1]] + entries[-1:]
            ),
        ),
        _offsets_rebuilt,
        (used_as_is(OFFSETS), SEEKS_RIGHT),
    ),
    Claim(
        "index-sparse",
        "",
        lambda: index(OFFSETS, lambda entries: entries[-1:]),
        _offsets_rebuilt,
        (used_as_is(OFFSETS), SEEKS_RIGHT),
    ),
    Claim(
        "time-index-entries-not-increasing",
        "",
        lambda: index(TIMES, swapped),
        _times_rebuilt,
        _no_lookup_fails,
    ),
    Claim(
        "time-index-offset-out-of-segment",
        "",
        lambda: index(TIMES, add_to_entry(-1, 0, 1000)),
        _times_rebuilt,
        _no_lookup_fails,
    ),
    Claim(
        "time-index-offset-not-in-log",
        "",
        time_offset_not_in_log,
        (rewritten(TIMES),),
        _no_lookup_fails,
    ),
    Claim(
        "time-index-timestamp-not-in-log",
        "the last entry too high",
        lambda: index(TIMES, add_to_entry(-1, 10**9)),
        _times_rebuilt,
        (used_as_is(TIMES), LOOKUPS_LATER),
    ),
    Claim(
        "time-index-timestamp-not-in-log",
        "another entry too high",
        lambda: index(TIMES, add_to_entry(4, 3000)),
        _times_rebuilt,
        _no_lookup_fails,
    ),
    Claim(
        "time-index-trailing-bytes",
        "",
        lambda: changed_file(name(CLOSED, TIMES), lambda data: data + b"abc"),
        (trimmed(TIMES),),
        (trimmed(TIMES), LOOKUPS_RIGHT),
    ),
    Claim(
        "time-index-zero-tail",
        "",
        lambda: changed_file(name(CLOSED, TIMES), lambda data: data + bytes(1200)),
        _times_rebuilt,
        (used_as_is(TIMES), LOOKUPS_SKIP),
    ),
    Claim(
        "time-index-zero-tail",
        "with time-based retention",
        lambda: changed_file(name(0, TIMES), lambda data: data + bytes(1200)),
        _times_rebuilt,
        (RETENTION,),
        settings=RETENTION_OF_AN_HOUR,
    ),
    Claim(
        "time-index-missing",
        "",
        lambda: missing(name(CLOSED, TIMES)),
        _times_rebuilt,
        (empty(TIMES), LOOKUPS_LATER, LOOKUPS_IN_SEGMENT_RIGHT),
    ),
    Claim(
        "time-index-ends-early",
        "",
        lambda: index(TIMES, lambda entries: entries[:-3]),
        _times_rebuilt,
        (used_as_is(TIMES), LOOKUPS_SKIP),
    ),
    Claim("time-index-absent", "", undamaged_v0, (ALL_DELIVERED,), (ALL_DELIVERED, empty(TIMES))),
    Claim(
        "time-index-empty",
        "",
        lambda: changed_file(name(CLOSED, TIMES), lambda _: b""),
        _times_rebuilt,
        (empty(TIMES), LOOKUPS_LATER, LOOKUPS_IN_SEGMENT_RIGHT),
        checked=False,
    ),
]
