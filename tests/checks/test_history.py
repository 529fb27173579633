"""What the logs of a partition show of their producers, within a log and from one to the next."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kfmt_cli.checks.history.log_history import LogFingerprint
from kfmt_cli.checks.index.checker import IndexChecker
from kfmt_cli.checks.log.checker import LogChecker, collect_check_outcome
from kfmt_cli.checks.segment_checker import SegmentChecker, SegmentCheckResult
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.directory_listing import list_directory
from tests.support.rebuild import batch_of, record, with_crc
from tests.support.samples import kfmt
from tests.support.segments import with_bytes, write

START, OUTSIDE = "broker_start", "offset-out-of-segment"
PRODUCER_POSITION = 43  # of the producer id, the producer epoch and the base sequence
MAX_INT32 = (1 << 31) - 1  # the largest sequence: 0 follows


def batch(offset: int, sequence: int, producer: int = 7) -> bytes:
    """A batch of a producer with one record."""
    data = batch_of(record(b"k", b"v"), 0, 1, offset)
    return with_crc(with_bytes(data, PRODUCER_POSITION, struct.pack(">qhi", producer, 0, sequence)))


def sequence_codes(directory: Path) -> list[str]:
    """The findings of check about sequences."""
    codes = kfmt("check", directory, "--json").codes
    return [code.removeprefix("producer-sequence-") for code in codes if "producer" in code]


@pytest.mark.parametrize(
    ("first_sequence", "second_sequence", "codes"),
    [
        *((10, 0, ["repeated"]), (10, 9, ["repeated"]), (10, 10, ["repeated"])),
        *((10, 11, []), (10, 12, ["gap"]), (10, 500, ["gap"])),
        *((MAX_INT32, MAX_INT32, ["repeated"]), (MAX_INT32, 0, []), (MAX_INT32, 1, ["gap"])),
    ],
)
def test_only_missing_offsets_excuse_a_sequence_and_never_one_that_is_repeated(
    first_sequence: int, second_sequence: int, codes: list[str], tmp_path: Path
) -> None:
    """Compaction removes batches; it never repeats one."""
    compacted = [code for code in codes if code == "repeated"]
    # The offset of the second batch, after that of the first, 20.
    for offset, expected in ((21, codes), (22, compacted), (900, compacted)):
        first, second = batch(20, first_sequence), batch(offset, second_sequence)
        one_segment, two_segments = (
            tmp_path / f"{name}-{offset}" for name in ("together", "apart")
        )
        write(one_segment, first + second, f"{20:020}.log")
        write(two_segments, first, f"{20:020}.log")
        write(two_segments, second, f"{offset:020}.log")
        assert [sequence_codes(one_segment), sequence_codes(two_segments)] == [
            expected,
            expected,
        ], offset


def test_segments_that_overlap_excuse_no_gap_of_a_sequence(tmp_path: Path) -> None:
    write(tmp_path / "t-0", batch(0, 10) + batch(1, 11), f"{0:020}.log")
    write(tmp_path / "t-0", batch(1, 20), f"{1:020}.log")
    assert sequence_codes(tmp_path / "t-0") == ["gap"]


def test_equal_batches_have_equal_fingerprints(tmp_path: Path) -> None:
    def fingerprint(
        name: str, *batches: bytes, has_fingerprints: bool = True
    ) -> LogFingerprint | None:
        write(tmp_path / name, b"".join(batches), f"{0:020}.log")
        indexes = IndexChecker(DecompressionLimit())
        checker = SegmentChecker(
            LogChecker(True, DecompressionLimit(), 0), indexes, has_fingerprints
        )
        (segment,) = list_directory(str(tmp_path / name)).segments
        (grouped,) = checker.check_segment_group([segment])
        assert grouped is not None
        assert grouped.history is not None
        collected = collect_check_outcome(checker.iter_findings(segment))
        assert collected is not None
        assert isinstance(collected[0], SegmentCheckResult)
        assert collected[0].history is not None
        assert collected[0].history.log_fingerprint == grouped.history.log_fingerprint
        return grouped.history.log_fingerprint

    first, second = batch(0, 10), batch(1, 11)
    assert (
        fingerprint("a-0", first, second)
        == fingerprint("b-0", first, second)
        != fingerprint("c-0", first)
    )
    assert fingerprint("d-0", first, has_fingerprints=False) is None
    assert fingerprint("e-0", first, batch(1, 12)) != fingerprint("f-0", first, second)


def test_a_batch_that_is_there_twice_stops_a_start_that_indexes_it(tmp_path: Path) -> None:
    """An index accepts only greater offsets. Of two equal ones, the second needs an entry."""
    first, second, third = batch(0, 10), batch(1, 11), batch(2, 12)
    write(tmp_path / "t-0", first + second + third + third, f"{0:020}.log")
    dense, sparse = (
        kfmt("check", tmp_path / "t-0", *options, "--json").of(START)
        for options in (("--index-interval-bytes", "10"), ())
    )
    reason = f"byte {3 * len(first)}: an offset not greater than the last index entry's"
    assert [row["starts"] for row in dense + sparse] == [False, False, True, True]
    assert all(row["reason"].endswith(reason) for row in dense)


def test_a_producer_is_known_from_before_a_segment_without_it(tmp_path: Path) -> None:
    for offset, sequence, producer in ((0, 10, 7), (1, 0, 8), (2, 10, 7)):
        write(tmp_path / "t-0", batch(offset, sequence, producer), f"{offset:020}.log")
    assert sequence_codes(tmp_path / "t-0") == ["repeated"]


def test_a_segment_takes_offsets_that_fit_into_31_bits(tmp_path: Path) -> None:
    for name, offset, codes in (("a-0", MAX_INT32, []), ("b-0", MAX_INT32 + 1, [OUTSIDE])):
        write(tmp_path / name, batch(0, 10) + batch(offset, 11), f"{0:020}.log")
        assert kfmt("verify-crc", tmp_path / name, "--json").codes == codes
