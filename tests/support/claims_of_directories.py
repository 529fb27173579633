"""Claims about brokers on damaged .txnindex and .snapshot files, checkpoints and directories."""

from __future__ import annotations

from functools import partial

from tests.support.broken_directories import (
    changed_file,
    missing,
    mixed_transaction,
    swapped,
    transaction_index,
    undamaged,
    with_file,
)
from tests.support.broken_partitions import (
    CLOSED,
    LAST,
    ORDERS,
    TXN,
    name,
    rearranged,
    sample,
    with_log,
)
from tests.support.claim_facts import (
    ABORTED_DELIVERED,
    ALL_DELIVERED,
    COMMITTED_RIGHT,
    DOWN,
    ENDS_AT_BASE,
    LOOKUPS_LATER,
    NOTHING_LEFT,
    OLD_SNAPSHOT_UNCHANGED,
    SEEKS_RIGHT,
    SKIPPED,
    SNAPSHOT_REWRITTEN,
    STARTS,
    UNCHANGED,
    Claim,
    deleted,
    offsets_lost,
    rebuilt,
    replaced,
    used_as_is,
)

OFFSETS, TIMES, TRANSACTIONS = ".index", ".timeindex", ".txnindex"
_rebuilt = (rebuilt(TRANSACTIONS), COMMITTED_RIGHT)
_used_as_is = (used_as_is(TRANSACTIONS), COMMITTED_RIGHT)
GARBAGE = b"\0no checkpoint\n"

DIRECTORY_CLAIMS = [
    Claim(
        "index-missing",
        "the offset index and the transaction index",
        lambda: missing(name(0, OFFSETS), name(0, TRANSACTIONS), partition=TXN),
        (rebuilt(OFFSETS), *_rebuilt[:1]),
        (rebuilt(OFFSETS), *_rebuilt[:1]),
    ),
    Claim(
        "transaction-index-missing",
        "",
        lambda: missing(name(0, TRANSACTIONS), partition=TXN),
        _rebuilt,
        (ABORTED_DELIVERED,),
        checked=False,
    ),
    Claim(
        "transaction-index-entry-missing",
        "",
        lambda: transaction_index(lambda entries: entries[:5] + entries[6:]),
        _rebuilt,
        (used_as_is(TRANSACTIONS), ABORTED_DELIVERED),
    ),
    Claim(
        "transaction-index-misleading",
        "",
        lambda: transaction_index(lambda entries: [(*entries[0][:4], 10**6), *entries[1:]]),
        _rebuilt,
        (used_as_is(TRANSACTIONS), ABORTED_DELIVERED),
    ),
    Claim(
        "transaction-index-stable-offset-low",
        "",
        lambda: transaction_index(lambda entries: [(*entries[0][:4], 0), *entries[1:]]),
        _rebuilt,
        _used_as_is,
    ),
    Claim(
        "transaction-index-trailing-bytes",
        "",
        lambda: changed_file(name(0, TRANSACTIONS), lambda data: data + b"abc", TXN),
        _rebuilt,
        _used_as_is,
    ),
    Claim(
        "transaction-index-version",
        "",
        lambda: transaction_index(
            lambda entries: [*entries[:5], (3, *entries[5][1:]), *entries[6:]]
        ),
        _rebuilt,
        _used_as_is,
    ),
    Claim(
        "transaction-index-version",
        "256",
        lambda: transaction_index(
            lambda entries: [*entries[:5], (256, *entries[5][1:]), *entries[6:]]
        ),
        (DOWN,),
        (DOWN,),
    ),
    Claim(
        "transaction-index-entries-not-increasing",
        "",
        lambda: transaction_index(swapped),
        _rebuilt,
        _used_as_is,
    ),
    Claim(
        "transaction-index-not-a-marker",
        "",
        lambda: transaction_index(
            lambda entries: [*entries[:5], (0, 999, *entries[5][2:]), *entries[6:]]
        ),
        _rebuilt,
        (used_as_is(TRANSACTIONS), ABORTED_DELIVERED),
    ),
    Claim(
        "snapshot-crc-mismatch",
        "",
        lambda: changed_file(
            name(736, ".snapshot"), lambda data: data[:-1] + bytes([data[-1] ^ 1]), TXN
        ),
        (SNAPSHOT_REWRITTEN, COMMITTED_RIGHT),
        (SNAPSHOT_REWRITTEN, COMMITTED_RIGHT),
    ),
    Claim(
        "snapshot-malformed",
        "",
        lambda: changed_file(name(736, ".snapshot"), lambda data: data[:5], TXN),
        (SNAPSHOT_REWRITTEN, COMMITTED_RIGHT),
        (SNAPSHOT_REWRITTEN, COMMITTED_RIGHT),
    ),
    Claim(
        "snapshot-malformed",
        "an older snapshot",
        lambda: changed_file(name(357, ".snapshot"), lambda data: data[:5], TXN),
        (COMMITTED_RIGHT,),
        (OLD_SNAPSHOT_UNCHANGED, COMMITTED_RIGHT),
    ),
    Claim(
        "snapshot-trailing-bytes",
        "",
        lambda: changed_file(name(736, ".snapshot"), lambda data: data + b"abc", TXN),
        (SNAPSHOT_REWRITTEN, COMMITTED_RIGHT),
        (SNAPSHOT_REWRITTEN, COMMITTED_RIGHT),
    ),
    *(
        Claim(
            "checkpoint-malformed",
            file,
            undamaged,
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
        undamaged,
        (DOWN,),
        (DOWN,),
        instead={"meta.properties": GARBAGE},
        checked=False,
    ),
    Claim(
        "checkpoint-malformed",
        "leader-epoch-checkpoint",
        lambda: with_file(undamaged(), "leader-epoch-checkpoint", GARBAGE),
        (DOWN,),
        (DOWN,),
        checked=False,
    ),
    Claim(
        "checkpoint-malformed",
        "cleaner-offset-checkpoint",
        undamaged,
        (STARTS,),
        (STARTS,),
        instead={"cleaner-offset-checkpoint": GARBAGE},
        checked=False,
    ),
    Claim(
        "transaction-mixed",
        "",
        mixed_transaction,
        (DOWN,),
        (UNCHANGED,),
        checked=False,
    ),
    Claim(
        "log-start-above-end",
        "",
        undamaged,
        (NOTHING_LEFT,),
        (NOTHING_LEFT,),
        beside={"log-start-offset-checkpoint": b"0\n1\ngiven 0 9000\n"},
        checked=False,
    ),
    *(
        Claim(
            "left-over-file",
            file,
            partial(with_file, undamaged(), file, b"abc"),
            (deleted(file),),
            (deleted(file),),
            checked=False,
        )
        for file in (name(CLOSED) + ".deleted", name(CLOSED) + ".cleaned")
    ),
    Claim(
        "swap-file",
        "",
        lambda: with_file(
            undamaged(),
            name(CLOSED) + ".swap",
            rearranged(CLOSED, [0, 1, 2, 3, 4, 7, 8, 9, 10, 11]),
        ),
        (replaced(name(CLOSED)), offsets_lost(SKIPPED, 340, 379)),
        (replaced(name(CLOSED)), offsets_lost(SKIPPED, 340, 379), LOOKUPS_LATER),
        checked=False,
    ),
    *(
        Claim(
            "name-not-numeric",
            file,
            partial(with_file, undamaged(), file, b""),
            (DOWN,),
            (DOWN,),
            checked=False,
        )
        for file in ("abc.index", "backup-" + name(CLOSED))
    ),
    Claim(
        "directory-not-a-partition",
        "",
        undamaged,
        (DOWN,),
        (DOWN,),
        beside={"old/": b""},
        checked=False,
    ),
    Claim(
        "segments-overlap",
        "",
        lambda: with_log(
            ORDERS, CLOSED, 10**6, 480, sample(ORDERS)[name(CLOSED)] + rearranged(480, [0, 1])
        ),
        (UNCHANGED, ALL_DELIVERED, SEEKS_RIGHT),
        (UNCHANGED, ALL_DELIVERED, SEEKS_RIGHT),
        checked=False,
    ),
    Claim(
        "segments-gap",
        "",
        lambda: missing(*(name(480, suffix) for suffix in (".log", OFFSETS, TIMES))),
        (UNCHANGED, offsets_lost(SKIPPED, 480, 719)),
        (UNCHANGED, offsets_lost(SKIPPED, 480, 719)),
        checked=False,
    ),
    Claim(
        "log-empty",
        "between other segments",
        lambda: changed_file(name(CLOSED), lambda _: b""),
        (UNCHANGED, offsets_lost(SKIPPED, 240, 479)),
        (UNCHANGED, offsets_lost(SKIPPED, 240, 479)),
        checked=False,
    ),
    Claim(
        "log-empty",
        "the last segment",
        lambda: changed_file(name(LAST), lambda _: b""),
        (ENDS_AT_BASE,),
        (ENDS_AT_BASE,),
        checked=False,
    ),
]
