"""No state is lost between blocks: the findings do not depend on what a block contains."""

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
from tests.support.samples import ORDERS, TXN, UPGRADED, every_log, kfmt, sample_name
from tests.support.segments import DAMAGES, positions, with_bytes, write
from tools.kafka import SAMPLES

FindFindings = Callable[[Path], list[Finding]]
WRAPPERS = SAMPLES / "kafka-2.8.2/v1-gzip-0/00000000000000000000.log"


def find_findings(file: Path, workers: int) -> list[Finding]:
    """The findings of `verify-crc --deep`, in its order."""
    findings: list[Finding] = []
    verifier = LogChecker(True, DecompressionLimit(), workers)
    findings += verifier.iter_findings(classify_file(str(file), file.name))
    return findings


@pytest.fixture(params=["each batch a block", "a few batches a block"])
def in_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FindFindings:
    """The findings with 1 and 2 workers, which must be equal, in blocks as small as can be."""
    size = 64 if request.param == "each batch a block" else 7000

    def find_in_blocks(file: Path) -> list[Finding]:
        with monkeypatch.context() as patch:
            patch.setattr(log, "FIRST_BLOCK_BYTES", size)
            patch.setattr(log, "MAX_BLOCK_BYTES", size)
            patch.setattr(log_opening, "MIN_LARGE_LOG_BYTES", 0)
            findings = [find_findings(file, workers) for workers in (1, 2)]
        assert findings[0] == findings[1]
        return findings[0]

    return find_in_blocks


def in_one_block(file: Path, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """The findings when the first block contains the entire file."""
    with monkeypatch.context() as patch:
        patch.setattr(log, "FIRST_BLOCK_BYTES", 1 << 24)
        patch.setattr(log, "MAX_BLOCK_BYTES", 1 << 24)
        return find_findings(file, 0)


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("source", [ORDERS, TXN, UPGRADED, WRAPPERS], ids=sample_name)
def test_each_damage_is_found_the_same_in_small_blocks(
    name: str,
    source: Path,
    tmp_path: Path,
    in_blocks: FindFindings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    damage = DAMAGES[name][0]
    data = source.read_bytes()
    starts = positions(data)
    for batch in {1, len(starts) // 2, len(starts) - 3}:
        file = write(tmp_path, damage(data, starts[batch], starts[batch + 1]))
        assert in_blocks(file) == in_one_block(file, monkeypatch)


@pytest.mark.parametrize("source", every_log(), ids=sample_name)
def test_undamaged_logs_have_no_findings_in_small_blocks(
    source: Path, in_blocks: FindFindings
) -> None:
    assert in_blocks(source) == []


def moved_back(data: bytes, position: int, decrement: int) -> bytes:
    """The log with a batch's offset, which no checksum covers, decremented."""
    offset = struct.unpack_from(">q", data, position)[0]
    return with_bytes(data, position, struct.pack(">q", offset - decrement))


def test_overlapping_wrappers_at_every_border(
    tmp_path: Path, in_blocks: FindFindings, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = WRAPPERS.read_bytes()
    starts = positions(data)
    for start in starts[1:-1]:
        file = write(tmp_path, moved_back(data, start, 3))
        findings = in_one_block(file, monkeypatch)
        assert [finding.code.name for finding in findings] == ["offsets-backwards"]
        assert findings[0].position == start
        assert in_blocks(file) == findings


def test_a_wrapper_over_what_comes_before_it_of_another_magic(
    tmp_path: Path, in_blocks: FindFindings, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = WRAPPERS.read_bytes(), ORDERS.read_bytes()
    end = positions(new)[1]
    start = next(
        position for position in positions(old) if struct.unpack_from(">q", old, position)[0] > 20
    )
    file = write(tmp_path, new[:end] + moved_back(old[start:], 0, 3))
    findings = in_one_block(file, monkeypatch)
    assert [
        (finding.code.name, finding.position, finding.expected, finding.found)
        for finding in findings
    ] == [("offsets-backwards", end, 20, 17)]
    assert in_blocks(file) == findings


def test_overlapping_wrappers_at_the_first_border_of_a_real_read(tmp_path: Path) -> None:
    """Blocks of 64 KiB, 128 KiB …, as by default."""
    data = WRAPPERS.read_bytes()
    starts = positions(data)
    wrapper = data[starts[0] : starts[1]]
    step = struct.unpack_from(">q", wrapper)[0] + 1
    n = 4 * 65536 // len(wrapper)
    logs = [struct.pack(">q", step * (i + 1) - 1) + wrapper[8:] for i in range(n)]
    border = 65536 // len(wrapper)
    for i in (border - 1, border, border + 1):
        damaged = [*logs]
        damaged[i] = struct.pack(">q", step * (i + 1) - 4) + wrapper[8:]
        result = kfmt("verify-crc", "--deep", write(tmp_path, b"".join(damaged)), "--json")
        assert (result.code, result.codes) == (1, ["offsets-backwards"])
        assert result.of("finding")[0]["position"] == i * len(wrapper)


def test_random_bytes_have_the_same_findings_in_small_blocks(
    tmp_path: Path, in_blocks: FindFindings, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(zlib.crc32(b"borders"))
    for source in (ORDERS, UPGRADED):
        data = source.read_bytes()
        for _ in range(30):
            damaged = bytearray(data)
            for _ in range(rng.randrange(1, 5)):
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            file = write(tmp_path, bytes(damaged))
            assert in_blocks(file) == in_one_block(file, monkeypatch)
