"""What is claimed of brokers on .txnindex and .snapshot files, checkpoints and directories."""

from __future__ import annotations

from functools import partial

from tests.support.broken_directories import (
    aborts,
    bytes_of,
    missing,
    mixed,
    swapped,
    whole,
    with_file,
)
from tests.support.broken_partitions import (
    CLOSED,
    LAST,
    ORDERS,
    TXN,
    changed,
    name,
    rearranged,
    sample,
)
from tests.support.claim_facts import (
    ABORTED_GIVEN,
    ALL,
    COMMITTED_RIGHT,
    DOWN,
    ENDS_AT_BASE,
    KEPT,
    LOOKUPS_LATER,
    NOTHING_LEFT,
    OLD_SNAPSHOT_KEPT,
    PASSED,
    SEEKS_RIGHT,
    SNAPSHOT_ANEW,
    STARTS,
    Claim,
    gone,
    lost,
    rebuilt,
    replaced,
    taken,
)

OFFSETS, TIMES, ABORTS = ".index", ".timeindex", ".txnindex"
_aborts = (rebuilt(ABORTS), COMMITTED_RIGHT)
_aborts_taken = (taken(ABORTS), COMMITTED_RIGHT)
GARBAGE = b"\0no checkpoint\n"

DIRECTORY_CLAIMS = [
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
        lambda: aborts(lambda row: row[:5] + row[6:]),
        _aborts,
        (taken(ABORTS), ABORTED_GIVEN),
    ),
    Claim(
        "transaction-index-misleading",
        "",
        lambda: aborts(lambda row: [(*row[0][:4], 10**6), *row[1:]]),
        _aborts,
        (taken(ABORTS), ABORTED_GIVEN),
    ),
    Claim(
        "transaction-index-trailing-bytes",
        "",
        lambda: bytes_of(name(0, ABORTS), lambda data: data + b"abc", TXN),
        _aborts,
        _aborts_taken,
    ),
    Claim(
        "transaction-index-version",
        "",
        lambda: aborts(lambda row: [*row[:5], (3, *row[5][1:]), *row[6:]]),
        _aborts,
        _aborts_taken,
    ),
    Claim(
        "transaction-index-version",
        "256",
        lambda: aborts(lambda row: [*row[:5], (256, *row[5][1:]), *row[6:]]),
        (DOWN,),
        (DOWN,),
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
        lambda: aborts(lambda row: [*row[:5], (0, 999, *row[5][2:]), *row[6:]]),
        _aborts,
        (taken(ABORTS), ABORTED_GIVEN),
    ),
    Claim(
        "snapshot-crc-mismatch",
        "",
        lambda: bytes_of(
            name(736, ".snapshot"), lambda data: data[:-1] + bytes([data[-1] ^ 1]), TXN
        ),
        (SNAPSHOT_ANEW, COMMITTED_RIGHT),
        (SNAPSHOT_ANEW, COMMITTED_RIGHT),
    ),
    Claim(
        "snapshot-malformed",
        "",
        lambda: bytes_of(name(736, ".snapshot"), lambda data: data[:5], TXN),
        (SNAPSHOT_ANEW, COMMITTED_RIGHT),
        (SNAPSHOT_ANEW, COMMITTED_RIGHT),
    ),
    Claim(
        "snapshot-malformed",
        "an older snapshot",
        lambda: bytes_of(name(357, ".snapshot"), lambda data: data[:5], TXN),
        (COMMITTED_RIGHT,),
        (OLD_SNAPSHOT_KEPT, COMMITTED_RIGHT),
    ),
    Claim(
        "snapshot-trailing-bytes",
        "",
        lambda: bytes_of(name(736, ".snapshot"), lambda data: data + b"abc", TXN),
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
        "meta-properties-malformed",
        "",
        whole,
        (DOWN,),
        (DOWN,),
        instead={"meta.properties": GARBAGE},
        checked=False,
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
    Claim(
        "transaction-mixed",
        "",
        mixed,
        (DOWN,),
        (KEPT,),
        checked=False,
    ),
    Claim(
        "log-start-above-end",
        "",
        whole,
        (NOTHING_LEFT,),
        (NOTHING_LEFT,),
        beside={"log-start-offset-checkpoint": b"0\n1\ngiven 0 9000\n"},
        checked=False,
    ),
    *(
        Claim(
            "left-over-file",
            file,
            partial(with_file, whole(), file, b"abc"),
            (gone(file),),
            (gone(file),),
            checked=False,
        )
        for file in (name(CLOSED) + ".deleted", name(CLOSED) + ".cleaned")
    ),
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
            partial(with_file, whole(), file, b""),
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
        lambda: missing(*(name(480, text) for text in (".log", OFFSETS, TIMES))),
        (KEPT, lost(PASSED, 480, 719)),
        (KEPT, lost(PASSED, 480, 719)),
        checked=False,
    ),
    Claim(
        "log-empty",
        "between other segments",
        lambda: bytes_of(name(CLOSED), lambda item: b""),
        (KEPT, lost(PASSED, 240, 479)),
        (KEPT, lost(PASSED, 240, 479)),
        checked=False,
    ),
    Claim(
        "log-empty",
        "the last segment",
        lambda: bytes_of(name(LAST), lambda item: b""),
        (ENDS_AT_BASE,),
        (ENDS_AT_BASE,),
        checked=False,
    ),
]
