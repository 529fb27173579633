"""Where blocks meet, nothing is forgotten: the same findings whatever a block holds."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from kfmt_cli.checks.log.checker import LogChecker
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log import log_opening
from kfmt_cli.log import reader as log
from tests.support.samples import ORDERS, TXN, UPGRADED, every_log, kfmt, name_of
from tests.support.segments import DAMAGES, positions, with_bytes, write
from tools.kafka import SAMPLES

Look = Callable[[Path], list[Finding]]
WRAPPERS = SAMPLES / "kafka-2.8.2/v1-gzip-0/00000000000000000000.log"


def findings_of(file: Path, workers: int) -> list[Finding]:
    """What `verify-crc --deep` finds, in its order, and how much it counts."""
    found: list[Finding] = []
    verifier = LogChecker(True, DecompressionLimit(), workers)
    found += verifier.iter_findings(classify_file(str(file), file.name))
    return found


@pytest.fixture(params=["each batch a block", "a few batches a block"])
def in_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Look:
    """The findings with 1 and 2 workers, which must be equal, in blocks as small as can be."""
    size = 64 if request.param == "each batch a block" else 7000

    def look(file: Path) -> list[Finding]:
        with monkeypatch.context() as small:
            small.setattr(log, "FIRST_BLOCK_BYTES", size)
            small.setattr(log, "BLOCK_BYTES", size)
            small.setattr(log_opening, "LARGE_BYTES", 0)
            both = [findings_of(file, workers) for workers in (1, 2)]
        assert both[0] == both[1]
        return both[0]

    return look


def in_one_block(file: Path, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """The findings when the first block holds the whole file."""
    with monkeypatch.context() as large:
        large.setattr(log, "FIRST_BLOCK_BYTES", 1 << 24)
        large.setattr(log, "BLOCK_BYTES", 1 << 24)
        return findings_of(file, 0)


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("source", [ORDERS, TXN, UPGRADED, WRAPPERS], ids=name_of)
def test_each_damage_is_found_the_same_in_small_blocks(
    name: str, source: Path, tmp_path: Path, in_blocks: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage = DAMAGES[name][0]
    data = source.read_bytes()
    places = positions(data)
    for batch in {1, len(places) // 2, len(places) - 3}:
        file = write(tmp_path, damage(data, places[batch], places[batch + 1]))
        assert in_blocks(file) == in_one_block(file, monkeypatch)


@pytest.mark.parametrize("source", every_log(), ids=name_of)
def test_undamaged_logs_have_no_findings_in_small_blocks(source: Path, in_blocks: Look) -> None:
    assert in_blocks(source) == []


def moved_back(data: bytes, at: int, by: int) -> bytes:
    """The log with a batch's own offset, which no checksum covers, `by` less."""
    offset = struct.unpack_from(">q", data, at)[0]
    return with_bytes(data, at, struct.pack(">q", offset - by))


def test_overlapping_wrappers_at_every_border(
    tmp_path: Path, in_blocks: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = WRAPPERS.read_bytes()
    places = positions(data)
    for at in places[1:-1]:
        file = write(tmp_path, moved_back(data, at, 3))
        found = in_one_block(file, monkeypatch)
        assert [finding.code.name for finding in found] == ["offsets-backwards"]
        assert found[0].position == at
        assert in_blocks(file) == found


def test_a_wrapper_over_what_comes_before_it_of_another_magic(
    tmp_path: Path, in_blocks: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = WRAPPERS.read_bytes(), ORDERS.read_bytes()
    end = positions(new)[1]
    at = next(
        position for position in positions(old) if struct.unpack_from(">q", old, position)[0] > 20
    )
    file = write(tmp_path, new[:end] + moved_back(old[at:], 0, 3))
    found = in_one_block(file, monkeypatch)
    assert [
        (finding.code.name, finding.position, finding.expected, finding.found) for finding in found
    ] == [("offsets-backwards", end, 20, 17)]
    assert in_blocks(file) == found


def test_overlapping_wrappers_at_the_first_border_of_a_real_read(tmp_path: Path) -> None:
    """Blocks of 64 KiB, 128 KiB …, as they are."""
    data = WRAPPERS.read_bytes()
    places = positions(data)
    wrapper = data[places[0] : places[1]]
    step = struct.unpack_from(">q", wrapper)[0] + 1
    n = 4 * 65536 // len(wrapper)
    logs = [struct.pack(">q", step * (i + 1) - 1) + wrapper[8:] for i in range(n)]
    border = 65536 // len(wrapper)
    for i in (border - 1, border, border + 1):
        wrong = [*logs]
        wrong[i] = struct.pack(">q", step * (i + 1) - 4) + wrapper[8:]
        done = kfmt("verify-crc", "--deep", write(tmp_path, b"".join(wrong)), "--json")
        assert (done.code, done.codes) == (1, ["offsets-backwards"])
        assert done.of("finding")[0]["position"] == i * len(wrapper)


def test_random_bytes_are_judged_the_same_in_small_blocks(
    tmp_path: Path, in_blocks: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(zlib.crc32(b"borders"))
    for source in (ORDERS, UPGRADED):
        data = source.read_bytes()
        for _ in range(30):
            bad = bytearray(data)
            for _ in range(chance.randrange(1, 5)):
                bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
            file = write(tmp_path, bytes(bad))
            assert in_blocks(file) == in_one_block(file, monkeypatch)
