"""What the first bytes of a possible batch show, and which offsets it can have at its position."""

from __future__ import annotations

import struct

import pytest

from kfmt_cli.log.damage.batch_candidates import BatchCandidate, PossibleOffsets
from tests.support.samples import ORDERS
from tools.kafka import SAMPLES


def batch(base: int, delta: int = 9, codec: int = 0) -> BatchCandidate:
    """A header of magic 2."""
    header = struct.pack(">qiibIh i", base, 1000, 0, 2, 0, codec, delta)
    return BatchCandidate(0, header + bytes(61 - len(header)))


def message(offset: int, magic: int = 1, codec: int = 0) -> BatchCandidate:
    """A header of magic 0 or 1."""
    header = struct.pack(">qiIbb", offset, 100, 0, magic, codec)
    return BatchCandidate(0, header + bytes(34 - len(header)))


def test_real_headers_say_what_dump_says() -> None:
    candidate = BatchCandidate(7, ORDERS.read_bytes()[:61])
    assert (candidate.base_offset, candidate.declared_length, candidate.declared_size) == (
        0,
        2563,
        2575,
    )
    assert (candidate.magic, candidate.next_offset, candidate.is_compressed) == (2, 20, False)
    compressed = SAMPLES / "kafka-2.8.2/v1-gzip-0" / ORDERS.name
    candidate = BatchCandidate(0, compressed.read_bytes()[:34])
    assert (candidate.magic, candidate.base_offset, candidate.next_offset) == (1, 19, 20)
    assert candidate.is_compressed


def test_a_header_that_is_cut_short_has_no_magic_and_no_codec() -> None:
    data = batch(0, codec=4).header_bytes
    assert [BatchCandidate(0, data[:size]).magic for size in (12, 16, 17, 61)] == [-1, -1, 2, 2]
    assert [BatchCandidate(0, data[:size]).is_compressed for size in (22, 23)] == [False, True]
    assert [
        BatchCandidate(0, message(5, 1, 2).header_bytes[:n]).is_compressed for n in (17, 18)
    ] == [
        False,
        True,
    ]
    assert not batch(0, codec=0x18).is_compressed  # other bits than those of the codec


@pytest.mark.parametrize(
    ("base", "min_offset", "is_possible"),
    [
        *((0, None, True), (-1, None, False), ((1 << 48) - 1, None, True), (1 << 48, None, False)),
        *((60, 60, True), (59, 60, False), (60 + (1 << 31) - 1, 60, True)),
        (60 + (1 << 31), 60, False),
    ],
)
def test_the_offset_that_a_batch_could_have(
    base: int, min_offset: int | None, is_possible: bool
) -> None:
    assert batch(base).has_possible_offset(min_offset) == is_possible


@pytest.mark.parametrize(
    ("header", "min_offset", "may_have_sets", "window"),
    [
        (None, 60, False, PossibleOffsets(60, 99, (60,), False)),
        (None, None, True, PossibleOffsets(None, 99, (None,), True)),
        (batch(59), 60, False, PossibleOffsets(60, 99, (60,), False)),  # its offset is impossible
        (batch(60), 60, True, PossibleOffsets(61, 99, (60, 70), False)),
        (batch(64), 60, True, PossibleOffsets(60, 99, (60, 74), False)),
        (batch(64), None, False, PossibleOffsets(None, 99, (None, 74), False)),
        (message(60), 60, True, PossibleOffsets(61, 99, (60, 61), False)),
        (message(79, codec=1), 60, False, PossibleOffsets(60, 99, (60, 80), True, 80)),
    ],
)
def test_the_window_after_damage(
    header: BatchCandidate | None,
    min_offset: int | None,
    may_have_sets: bool,
    window: PossibleOffsets,
) -> None:
    assert PossibleOffsets.after_damage(header, min_offset, 99, may_have_sets) == window


@pytest.mark.parametrize(
    ("window", "header", "is_allowed"),
    [
        *((PossibleOffsets(60, 99), batch(60), True), (PossibleOffsets(60, 99), batch(59), False)),
        *((PossibleOffsets(60, 99), batch(90), True), (PossibleOffsets(60, 99), batch(91), False)),
        *(
            (PossibleOffsets(60, None), batch(90_000), True),
            (PossibleOffsets(None, 99), batch(500), True),
        ),
        *(
            (PossibleOffsets(None, 99), batch(-1), False),
            (PossibleOffsets(60, None), batch(60 + (1 << 31)), False),
        ),
        # A message that is not compressed can be one inside of a set.
        (PossibleOffsets(60, 99, min_offset_after_message_set=80), message(79), False),
        (PossibleOffsets(60, 99, min_offset_after_message_set=80), message(80), True),
        (PossibleOffsets(60, 99, min_offset_after_message_set=80), message(79, codec=1), True),
        (PossibleOffsets(60, 99, min_offset_after_message_set=80), batch(79), True),
    ],
)
def test_what_a_window_holds(
    window: PossibleOffsets, header: BatchCandidate, is_allowed: bool
) -> None:
    assert window.allows_header(header) == is_allowed


@pytest.mark.parametrize(
    ("min_offset", "header", "is_outside"),
    [
        *((100, message(100), True), (100, message(199), True), (100, message(200), False)),
        *((99, message(100), False), (101, message(100), False), (None, message(100), False)),
        *((100, message(100, magic=0), False), (100, batch(100), False)),
    ],
)
def test_a_message_with_a_large_offset_is_of_no_set(
    min_offset: int | None, header: BatchCandidate, is_outside: bool
) -> None:
    assert PossibleOffsets(min_offset, None).has_offset_outside_message_set(header) == is_outside
