"""What is claimed of brokers on damaged indexes, snapshots, checkpoints and directories."""

from __future__ import annotations

from tests.broken_directories import (
    aborts,
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
from tests.broken_partitions import CLOSED, LAST, ORDERS, TXN, changed, name, rearranged, sample
from tests.claim_facts import (
    ABORTED_GIVEN,
    ALL,
    COMMITTED_RIGHT,
    DOWN,
    ENDS_AT_BASE,
    KEPT,
    LOOKUPS_HERE_RIGHT,
    LOOKUPS_LAST,
    LOOKUPS_LATER,
    LOOKUPS_RIGHT,
    LOOKUPS_SKIP,
    NO_ERROR,
    OLD_SNAPSHOT_KEPT,
    RETENTION,
    SEEKS_MISS,
    SEEKS_RIGHT,
    SNAPSHOT_ANEW,
    STARTS,
    Claim,
    empty,
    gone,
    lost,
    rebuilt,
    replaced,
    taken,
    trimmed,
)
from tests.claims_of_logs import PASSED

OFFSETS, TIMES, ABORTS = ".index", ".timeindex", ".txnindex"
WRONG, WRONG_TIME = "behind it", "time"
HOUR = {"retention.ms": "3600000"}
_offsets, _times = (rebuilt(OFFSETS),), (rebuilt(TIMES),)
_aborts = (rebuilt(ABORTS), COMMITTED_RIGHT)
_aborts_taken = (taken(ABORTS), COMMITTED_RIGHT)
_no_reads = (taken(OFFSETS), NO_ERROR)
_no_lookups = (taken(TIMES), LOOKUPS_RIGHT)
GARBAGE = b"\0no checkpoint\n"

INDEX_CLAIMS = [
    Claim("index-entries-not-increasing", "", lambda: index(OFFSETS, swapped), _offsets, _no_reads),
    Claim(
        "index-position-out-of-log",
        "",
        lambda: index(OFFSETS, lambda it: [*it[:4], (it[4][0], 10**6), *it[5:]]),
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
    Claim("index-offset-not-in-log", "", offset_not_in_log, (), _no_reads),
    Claim(
        "index-offset-before-batch", "", lambda: index(OFFSETS, entry(4, -15)), _offsets, _no_reads
    ),
    Claim(
        "index-offset-out-of-segment",
        "",
        lambda: index(OFFSETS, entry(-1, 1000)),
        _offsets,
        _no_reads,
    ),
    Claim(
        "index-trailing-bytes",
        "",
        lambda: bytes_of(name(CLOSED, OFFSETS), lambda it: it + b"abc"),
        (trimmed(OFFSETS),),
        (trimmed(OFFSETS), SEEKS_RIGHT),
    ),
    Claim(
        "index-zero-tail",
        "",
        lambda: bytes_of(name(CLOSED, OFFSETS), lambda it: it + bytes(1200)),
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
        "index-without-log",
        "offsets",
        lambda: with_file(whole(), name(777, OFFSETS), bytes(8)),
        (gone(name(777, OFFSETS)), ALL),
        (gone(name(777, OFFSETS)), ALL),
    ),
    Claim(
        "index-without-log",
        "times",
        lambda: with_file(whole(), name(777, TIMES), bytes(12)),
        (gone(name(777, TIMES)), ALL),
        (gone(name(777, TIMES)), ALL),
    ),
    Claim(
        "index-preallocated",
        "offsets",
        lambda: bytes_of(name(LAST, OFFSETS), lambda it: it + bytes(120_000)),
        (trimmed(OFFSETS),),
        (taken(OFFSETS), SEEKS_RIGHT),
    ),
    Claim(
        "index-preallocated",
        "times",
        lambda: bytes_of(name(LAST, TIMES), lambda it: it + bytes(120_000)),
        (trimmed(TIMES),),
        (taken(TIMES), LOOKUPS_LAST),
    ),
    Claim(
        "index-entry-further-on",
        "",
        lambda: index(OFFSETS, lambda it: [(a + 5, at) for a, at in it[:-1]] + it[-1:]),
        _offsets,
        (taken(OFFSETS), SEEKS_RIGHT),
    ),
    Claim(
        "index-sparse",
        "",
        lambda: index(OFFSETS, lambda it: it[-1:]),
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
    Claim("time-index-offset-not-in-log", "", time_offset_not_in_log, (), _no_lookups),
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
        lambda: bytes_of(name(CLOSED, TIMES), lambda it: it + b"abc"),
        (trimmed(TIMES),),
        (trimmed(TIMES), LOOKUPS_RIGHT),
    ),
    Claim(
        "time-index-zero-tail",
        "",
        lambda: bytes_of(name(CLOSED, TIMES), lambda it: it + bytes(1200)),
        _times,
        (taken(TIMES), LOOKUPS_SKIP),
    ),
    Claim(
        "time-index-zero-tail",
        "with retention by time",
        lambda: bytes_of(name(0, TIMES), lambda it: it + bytes(1200)),
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
        lambda: index(TIMES, lambda it: it[:-3]),
        _times,
        (taken(TIMES), LOOKUPS_SKIP),
    ),
    Claim("time-index-absent", "", whole_v0, (ALL,), (ALL, empty(TIMES))),
    Claim(
        "time-index-empty",
        "",
        lambda: bytes_of(name(CLOSED, TIMES), lambda it: b""),
        _times,
        (empty(TIMES), LOOKUPS_LATER, LOOKUPS_HERE_RIGHT),
        checked=False,
    ),
    Claim(
        "transaction-index-missing",
        "",
        lambda: missing(name(0, ABORTS), partition=TXN),
        _aborts,
        (ABORTED_GIVEN,),
        checked=False,
    ),
    Claim(
        "transaction-index-entry-missing",
        "",
        lambda: aborts(lambda it: it[:5] + it[6:]),
        _aborts,
        (taken(ABORTS), ABORTED_GIVEN),
    ),
    Claim(
        "transaction-index-trailing-bytes",
        "",
        lambda: bytes_of(name(0, ABORTS), lambda it: it + b"abc", TXN),
        _aborts,
        _aborts_taken,
    ),
    Claim(
        "transaction-index-version",
        "",
        lambda: aborts(lambda it: [*it[:5], (3, *it[5][1:]), *it[6:]]),
        _aborts,
        _aborts_taken,
    ),
    Claim(
        "transaction-index-entries-not-increasing",
        "",
        lambda: aborts(swapped),
        _aborts,
        _aborts_taken,
    ),
    Claim(
        "transaction-index-not-a-marker",
        "",
        lambda: aborts(lambda it: [*it[:5], (*it[5][:3], it[5][3] - 3, it[5][4]), *it[6:]]),
        _aborts,
        _aborts_taken,
    ),
    Claim(
        "snapshot-crc-mismatch",
        "",
        lambda: bytes_of(name(736, ".snapshot"), lambda it: it[:-1] + bytes([it[-1] ^ 1]), TXN),
        (SNAPSHOT_ANEW, COMMITTED_RIGHT),
        (SNAPSHOT_ANEW, COMMITTED_RIGHT),
    ),
    Claim(
        "snapshot-malformed",
        "",
        lambda: bytes_of(name(736, ".snapshot"), lambda it: it[:5], TXN),
        (SNAPSHOT_ANEW, COMMITTED_RIGHT),
        (SNAPSHOT_ANEW, COMMITTED_RIGHT),
    ),
    Claim(
        "snapshot-malformed",
        "an older one",
        lambda: bytes_of(name(357, ".snapshot"), lambda it: it[:5], TXN),
        (COMMITTED_RIGHT,),
        (OLD_SNAPSHOT_KEPT, COMMITTED_RIGHT),
    ),
    Claim(
        "snapshot-trailing-bytes",
        "",
        lambda: bytes_of(name(736, ".snapshot"), lambda it: it + b"abc", TXN),
        (SNAPSHOT_ANEW, COMMITTED_RIGHT),
        (SNAPSHOT_ANEW, COMMITTED_RIGHT),
    ),
    *(
        Claim(
            "checkpoint-malformed",
            file,
            whole,
            (DOWN,),
            (DOWN,),
            instead={file: GARBAGE},
            checked=False,
        )
        for file in (
            "recovery-point-offset-checkpoint",
            "replication-offset-checkpoint",
            "log-start-offset-checkpoint",
        )
    ),
    Claim(
        "checkpoint-malformed",
        "leader-epoch-checkpoint",
        lambda: with_file(whole(), "leader-epoch-checkpoint", GARBAGE),
        (DOWN,),
        (DOWN,),
        checked=False,
    ),
    Claim(
        "checkpoint-malformed",
        "cleaner-offset-checkpoint",
        whole,
        (STARTS,),
        (STARTS,),
        instead={"cleaner-offset-checkpoint": GARBAGE},
        checked=False,
    ),
]

DIRECTORY_CLAIMS = [
    Claim(
        "swap-file",
        "",
        lambda: with_file(
            whole(), name(CLOSED) + ".swap", rearranged(CLOSED, [0, 1, 2, 3, 4, 7, 8, 9, 10, 11])
        ),
        (replaced(name(CLOSED)), lost(PASSED, 340, 379)),
        (replaced(name(CLOSED)), lost(PASSED, 340, 379), LOOKUPS_LATER),
        checked=False,
    ),
    *(
        Claim(
            "name-not-numeric",
            file,
            lambda file=file: with_file(whole(), file, b""),
            (DOWN,),
            (DOWN,),
            checked=False,
        )
        for file in ("abc.index", "backup-" + name(CLOSED))
    ),
    Claim(
        "directory-not-a-partition",
        "",
        whole,
        (DOWN,),
        (DOWN,),
        beside={"old/": b""},
        checked=False,
    ),
    Claim(
        "segments-overlap",
        "",
        lambda: changed(
            ORDERS, CLOSED, 10**6, 480, sample(ORDERS)[name(CLOSED)] + rearranged(480, [0, 1])
        ),
        (KEPT, ALL, SEEKS_RIGHT),
        (KEPT, ALL, SEEKS_RIGHT),
        checked=False,
    ),
    Claim(
        "segments-gap",
        "",
        lambda: missing(*(name(480, it) for it in (".log", OFFSETS, TIMES))),
        (KEPT, lost(PASSED, 480, 719)),
        (KEPT, lost(PASSED, 480, 719)),
        checked=False,
    ),
    Claim(
        "log-empty",
        "between others",
        lambda: bytes_of(name(CLOSED), lambda it: b""),
        (KEPT, lost(PASSED, 240, 479)),
        (KEPT, lost(PASSED, 240, 479)),
        checked=False,
    ),
    Claim(
        "log-empty",
        "the last one",
        lambda: bytes_of(name(LAST), lambda it: b""),
        (ENDS_AT_BASE,),
        (ENDS_AT_BASE,),
        checked=False,
    ),
]
