"""What the logs of a partition tell of their producers, within a log and from one to the next."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kfmt_cli.checks.history.log_history import LogFingerprint
from kfmt_cli.checks.index.checker import IndexChecker
from kfmt_cli.checks.log.checker import LogChecker, collect_check
from kfmt_cli.checks.segment_checker import SegmentChecker, SegmentCheckResult
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.directory_listing import list_directory
from tests.support.rebuild import batch_of, record, with_crc
from tests.support.samples import kfmt
from tests.support.segments import with_bytes, write

START, OUTSIDE = "broker_start", "offset-out-of-segment"
PRODUCER_AT = 43  # its id, its epoch and the base sequence
LARGEST = (1 << 31) - 1  # sequence; 0 follows


def batch(offset: int, sequence: int, producer: int = 7) -> bytes:
    """A batch of a producer with one record."""
    data = batch_of(record(b"k", b"v"), 0, 1, offset)
    return with_crc(with_bytes(data, PRODUCER_AT, struct.pack(">qhi", producer, 0, sequence)))


def of_producers(folder: Path) -> list[str]:
    """What check finds about sequences."""
    codes = kfmt("check", folder, "--json").codes
    return [code.removeprefix("producer-sequence-") for code in codes if "producer" in code]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        *((10, 0, ["repeated"]), (10, 9, ["repeated"]), (10, 10, ["repeated"])),
        *((10, 11, []), (10, 12, ["gap"]), (10, 500, ["gap"])),
        *((LARGEST, LARGEST, ["repeated"]), (LARGEST, 0, []), (LARGEST, 1, ["gap"])),
    ],
)
def test_only_missing_offsets_excuse_a_sequence_and_never_one_that_is_repeated(
    before: int, after: int, found: list[str], tmp_path: Path
) -> None:
    """Compaction takes batches away; it writes none again."""
    compacted = [code for code in found if code == "repeated"]
    # The offset of the second batch, after that of the first, 20.
    for offset, expected in ((21, found), (22, compacted), (900, compacted)):
        one, other = batch(20, before), batch(offset, after)
        together, apart = (tmp_path / f"{name}-{offset}" for name in ("together", "apart"))
        write(together, one + other, f"{20:020}.log")
        write(apart, one, f"{20:020}.log")
        write(apart, other, f"{offset:020}.log")
        assert [of_producers(together), of_producers(apart)] == [expected, expected], offset


def test_segments_that_overlap_excuse_no_gap_of_a_sequence(tmp_path: Path) -> None:
    write(tmp_path / "t-0", batch(0, 10) + batch(1, 11), f"{0:020}.log")
    write(tmp_path / "t-0", batch(1, 20), f"{1:020}.log")
    assert of_producers(tmp_path / "t-0") == ["gap"]


def test_equal_batches_have_equal_prints(tmp_path: Path) -> None:
    def print_of(name: str, *batches: bytes, prints: bool = True) -> LogFingerprint | None:
        write(tmp_path / name, b"".join(batches), f"{0:020}.log")
        indexes = IndexChecker(DecompressionLimit())
        checker = SegmentChecker(LogChecker(True, DecompressionLimit(), 0), indexes, prints)
        (segment,) = list_directory(str(tmp_path / name)).segments
        (small,) = checker.check_group([segment])
        assert small is not None
        assert small.history is not None
        done = collect_check(checker.iter_findings(segment))
        assert done is not None
        assert isinstance(done[0], SegmentCheckResult)
        assert done[0].history is not None
        assert done[0].history.log_fingerprint == small.history.log_fingerprint
        return small.history.log_fingerprint

    one, two = batch(0, 10), batch(1, 11)
    assert print_of("a-0", one, two) == print_of("b-0", one, two) != print_of("c-0", one)
    assert print_of("d-0", one, prints=False) is None


def test_a_batch_that_is_there_twice_stops_a_start_that_indexes_it(tmp_path: Path) -> None:
    """An index takes greater offsets only. Of two equal ones, the second needs an entry."""
    one, two, three = batch(0, 10), batch(1, 11), batch(2, 12)
    write(tmp_path / "t-0", one + two + three + three, f"{0:020}.log")
    often, rarely = (
        kfmt("check", tmp_path / "t-0", *options, "--json").of(START)
        for options in (("--index-interval-bytes", "10"), ())
    )
    place = f"byte {3 * len(one)}: an offset not greater than the last index entry's"
    assert [row["starts"] for row in often + rarely] == [False, False, True, True]
    assert all(row["reason"].endswith(place) for row in often)


def test_a_producer_is_known_from_before_a_segment_without_it(tmp_path: Path) -> None:
    for offset, sequence, producer in ((0, 10, 7), (1, 0, 8), (2, 10, 7)):
        write(tmp_path / "t-0", batch(offset, sequence, producer), f"{offset:020}.log")
    assert of_producers(tmp_path / "t-0") == ["repeated"]


def test_a_segment_takes_offsets_that_fit_into_31_bits(tmp_path: Path) -> None:
    for name, offset, codes in (("a-0", LARGEST, []), ("b-0", LARGEST + 1, [OUTSIDE])):
        write(tmp_path / name, batch(0, 10) + batch(offset, 11), f"{0:020}.log")
        assert kfmt("verify-crc", tmp_path / name, "--json").codes == codes
