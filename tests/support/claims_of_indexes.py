"""What is claimed of brokers on damaged offset and time indexes."""

from __future__ import annotations

from tests.support.broken_directories import (
    bytes_of,
    entry,
    index,
    missing,
    offset_not_in_log,
    swapped,
    time_offset_not_in_log,
    whole,
    whole_v0,
    with_file,
)
from tests.support.broken_partitions import CLOSED, LAST, name
from tests.support.claim_facts import (
    ALL,
    LOOKUPS_HERE_RIGHT,
    LOOKUPS_LAST,
    LOOKUPS_LATER,
    LOOKUPS_RIGHT,
    LOOKUPS_SKIP,
    NO_ERROR,
    RETENTION,
    SEEKS_MISS,
    SEEKS_RIGHT,
    Claim,
    anew,
    empty,
    gone,
    rebuilt,
    taken,
    trimmed,
)

OFFSETS, TIMES = ".index", ".timeindex"
HOUR = {"retention.ms": "3600000"}
_offsets, _times = (rebuilt(OFFSETS),), (rebuilt(TIMES),)
_misses = (taken(OFFSETS), SEEKS_MISS)
_no_reads = (taken(OFFSETS), NO_ERROR)
_no_lookups = (taken(TIMES), LOOKUPS_RIGHT)

INDEX_CLAIMS = [
    Claim(
        "index-entries-not-increasing",
        "",
        lambda: index(OFFSETS, lambda row: [*row[:5], (100, row[5][1]), *row[6:]]),
        _offsets,
        _misses,
    ),
    Claim(
        "index-position-out-of-log",
        "",
        lambda: index(OFFSETS, lambda row: [*row[:4], (row[4][0], 10**6), *row[5:]]),
        _offsets,
        (taken(OFFSETS), SEEKS_MISS),
    ),
    Claim(
        "index-entry-not-at-batch",
        "",
        lambda: index(OFFSETS, entry(4, 0, 7)),
        _offsets,
        (taken(OFFSETS), SEEKS_MISS),
    ),
    Claim("index-offset-not-in-log", "", offset_not_in_log, (anew(OFFSETS),), _no_reads),
    Claim(
        "index-offset-before-batch",
        "",
        lambda: index(OFFSETS, lambda row: [*row[:3], (95, row[4][1]), *row[5:]]),
        _offsets,
        _misses,
    ),
    Claim(
        "index-offset-out-of-segment",
        "",
        lambda: index(OFFSETS, lambda row: [*row[:5], (-5, row[5][1]), *row[6:]]),
        _offsets,
        _misses,
    ),
    Claim(
        "index-trailing-bytes",
        "",
        lambda: bytes_of(name(CLOSED, OFFSETS), lambda data: data + b"abc"),
        (trimmed(OFFSETS),),
        (trimmed(OFFSETS), SEEKS_RIGHT),
    ),
    Claim(
        "index-zero-tail",
        "",
        lambda: bytes_of(name(CLOSED, OFFSETS), lambda data: data + bytes(1200)),
        _offsets,
        (taken(OFFSETS), SEEKS_RIGHT),
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
        lambda: with_file(whole(), name(777, OFFSETS), bytes(8)),
        (gone(name(777, OFFSETS)), ALL),
        (gone(name(777, OFFSETS)), ALL),
    ),
    Claim(
        "index-without-log",
        "a time index",
        lambda: with_file(whole(), name(777, TIMES), bytes(12)),
        (gone(name(777, TIMES)), ALL),
        (gone(name(777, TIMES)), ALL),
    ),
    Claim(
        "index-preallocated",
        "an offset index",
        lambda: bytes_of(name(LAST, OFFSETS), lambda data: data + bytes(120_000)),
        (trimmed(OFFSETS),),
        (taken(OFFSETS), SEEKS_RIGHT),
    ),
    Claim(
        "index-preallocated",
        "a time index",
        lambda: bytes_of(name(LAST, TIMES), lambda data: data + bytes(120_000)),
        (trimmed(TIMES),),
        (taken(TIMES), LOOKUPS_LAST),
    ),
    Claim(
        "index-entry-further-on",
        "",
        lambda: index(OFFSETS, lambda row: [(a + 5, at) for a, at in row[:-1]] + row[-1:]),
        _offsets,
        (taken(OFFSETS), SEEKS_RIGHT),
    ),
    Claim(
        "index-sparse",
        "",
        lambda: index(OFFSETS, lambda row: row[-1:]),
        _offsets,
        (taken(OFFSETS), SEEKS_RIGHT),
    ),
    Claim(
        "time-index-entries-not-increasing", "", lambda: index(TIMES, swapped), _times, _no_lookups
    ),
    Claim(
        "time-index-offset-out-of-segment",
        "",
        lambda: index(TIMES, entry(-1, 0, 1000)),
        _times,
        _no_lookups,
    ),
    Claim("time-index-offset-not-in-log", "", time_offset_not_in_log, (anew(TIMES),), _no_lookups),
    Claim(
        "time-index-timestamp-not-in-log",
        "the last entry too high",
        lambda: index(TIMES, entry(-1, 10**9)),
        _times,
        (taken(TIMES), LOOKUPS_LATER),
    ),
    Claim(
        "time-index-timestamp-not-in-log",
        "another entry too high",
        lambda: index(TIMES, entry(4, 3000)),
        _times,
        _no_lookups,
    ),
    Claim(
        "time-index-trailing-bytes",
        "",
        lambda: bytes_of(name(CLOSED, TIMES), lambda data: data + b"abc"),
        (trimmed(TIMES),),
        (trimmed(TIMES), LOOKUPS_RIGHT),
    ),
    Claim(
        "time-index-zero-tail",
        "",
        lambda: bytes_of(name(CLOSED, TIMES), lambda data: data + bytes(1200)),
        _times,
        (taken(TIMES), LOOKUPS_SKIP),
    ),
    Claim(
        "time-index-zero-tail",
        "with time-based retention",
        lambda: bytes_of(name(0, TIMES), lambda data: data + bytes(1200)),
        _times,
        (RETENTION,),
        settings=HOUR,
    ),
    Claim(
        "time-index-missing",
        "",
        lambda: missing(name(CLOSED, TIMES)),
        _times,
        (empty(TIMES), LOOKUPS_LATER, LOOKUPS_HERE_RIGHT),
    ),
    Claim(
        "time-index-ends-early",
        "",
        lambda: index(TIMES, lambda row: row[:-3]),
        _times,
        (taken(TIMES), LOOKUPS_SKIP),
    ),
    Claim("time-index-absent", "", whole_v0, (ALL,), (ALL, empty(TIMES))),
    Claim(
        "time-index-empty",
        "",
        lambda: bytes_of(name(CLOSED, TIMES), lambda item: b""),
        _times,
        (empty(TIMES), LOOKUPS_LATER, LOOKUPS_HERE_RIGHT),
        checked=False,
    ),
]
