"""`kfmt replicas` and `kfmt check` of a cluster that died with open transactions.

What its broker had after a start was observed with Kafka 3.9.1 and 4.4.0, there with transactions
of both versions: the coordinator aborted `open` within seven seconds, as its timeout of 20 s had
passed, and left `long`, of 600 s. Without the last record of __transaction_state, CompleteCommit of
`commit-2`, it wrote the marker in b again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.test_replicas import archive, unpacked
from tests.support.samples import kfmt
from tests.support.segments import positions

OPEN_UNTIL_MS, LONG_UNTIL_MS = 1795915157971, 1795915738071
LOG = "00000000000000000000.log"
COORDINATOR = ("__transaction_state", 0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time, in milliseconds."""
    now = [OPEN_UNTIL_MS + 1000]
    monkeypatch.setattr("kfmt_cli.broker.state.unfinished_transactions.now_ms", lambda: now[0])
    return now


def ends(*paths: Path) -> dict[tuple[str, int], list[int]]:
    """The possible log end offsets of each partition."""
    rows = kfmt("replicas", *paths, "--json").of("start_order")
    for row in rows:
        assert row["certain"] is (len(row["alternatives"]) == 0)
        assert row["leader"] == 1
    return {
        (row["topic"], row["partition"]): [
            end["log_end_offset"] for end in row["alternatives"] or [row]
        ]
        for row in rows
    }


def test_open_transactions_are_aborted_after_their_timeout(clock: list[int]) -> None:
    name = archive("open-transactions")
    assert ends(name) == {("a", 0): [11, 12], ("b", 0): [12], ("u", 0): [6], COORDINATOR: [15, 17]}
    clock[0] = OPEN_UNTIL_MS - 1
    assert ends(name) == {
        ("a", 0): [10, 11, 12],
        ("b", 0): [12],
        ("u", 0): [5, 6],
        COORDINATOR: [13, 15, 17],
    }
    clock[0] = LONG_UNTIL_MS + 1
    assert ends(name) == {("a", 0): [12], ("b", 0): [12], ("u", 0): [6], COORDINATOR: [17]}


def test_the_screen_says_who_ends_a_transaction_and_when(clock: list[int]) -> None:
    text = " ".join(kfmt("replicas", archive("open-transactions"), "--all").out.split())
    assert clock
    assert (
        "transactions that the coordinator ends open: aborted, as its timeout passed at "
        "2026-11-29 01:19:17.971: an ABORT marker in u-0, a-0" in text
    )
    assert "long: aborted at 2026-11-29 01:28:58.071, unless its producer ends it before" in text
    assert "11 or 12" in text


def test_decided_transactions_are_completed(clock: list[int], tmp_path: Path) -> None:
    directories = unpacked("open-transactions", tmp_path)
    log = tmp_path / "broker1/__transaction_state-0" / LOG
    data = log.read_bytes()
    log.write_bytes(data[: positions(data)[-2]])
    assert clock
    assert ends(*directories) == {
        ("a", 0): [11, 12],
        ("b", 0): [13],
        ("u", 0): [6],
        COORDINATOR: [15, 17],
    }
    text = " ".join(kfmt("replicas", *directories, "--all").out.split())
    assert "commit-2: committed, as decided: a COMMIT marker in b-0" in text


def test_check_notes_what_the_coordinator_ends(clock: list[int], tmp_path: Path) -> None:
    directories = unpacked("open-transactions", tmp_path)
    assert clock
    notes = [
        row
        for row in kfmt("check", *directories, "--notes", "--json").of("finding")
        if row["code"] == "transaction-unfinished"
    ]
    open_end = "as its timeout passed at 2026-11-29 01:19:17.971: an ABORT marker in u-0, a-0"
    long_end = "unless its producer ends it before: a marker in a-0"
    assert [(row["severity"], row["offset"], row["message"]) for row in notes] == [
        ("note", 6, f"open: aborted, {open_end}"),
        ("note", 8, f"long: aborted at 2026-11-29 01:28:58.071, {long_end}"),
    ]
    log = tmp_path / "broker1/__transaction_state-0" / LOG
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    assert "transaction-unfinished" not in kfmt("check", *directories, "--notes", "--json").codes
