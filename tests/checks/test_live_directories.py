"""Commands read a directory while each file operation of a broker falls between two of theirs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kfmt_cli.core import source
from tests.support.live_writer import LiveWriter
from tests.support.samples import Done, kfmt
from tests.support.segments import int32, with_bytes

N_FIRST_STEPS = 330  # until both partitions have deleted and cleaned segments
COMMANDS = (
    ("index-check", "D"),
    ("verify-crc", "D", "--deep"),
    ("check", "D/deleted-0"),
    ("check", "D/compacted-0"),
    ("stat", "D"),
    ("txn", "D"),
    ("find", "D", "--timestamp", "2023-11-14T22:13:20"),
    ("find", "D", "--key", "k1"),
    ("dump", "D"),
    ("cat", "D"),
    ("retention", "D"),
    ("diff", "D", "D"),
    ("compaction", "D/compacted-0"),
    ("salvage", "D", "OUT"),
    ("rebuild-index", "D", "OUT"),
    ("replicas", "D"),
)


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveWriter:
    monkeypatch.setattr(source, "MAX_WRITE_NS", 100_000_000)
    writer = LiveWriter(tmp_path / "data")
    while writer.n_steps < N_FIRST_STEPS:
        writer.step()
    writer.rest()
    return writer


def run(command: tuple[str, ...], data: Path, scratch: Path) -> Done:
    out = scratch / f"out-{len(list(scratch.iterdir()))}"
    paths = {"D": str(data), "OUT": str(out)}
    arguments = [paths.get(text) or text.replace("D/", f"{data}/") for text in command]
    return kfmt(*arguments, *(() if command[0] in ("cat", "rebuild-index") else ("--json",)))


def problems(result: Done) -> list[str]:
    return [
        f"{row['code']} {Path(row['file']).name} {row['position']}: {row['message']}"
        for row in (result.of("finding") if result.out.startswith("{") else ())
        if row["severity"] != "note"
    ]


@pytest.mark.parametrize("phase", range(12))
def test_check_finds_nothing_in_a_directory_that_is_written(
    phase: int, writer: LiveWriter, tmp_path: Path
) -> None:
    for _ in range(phase * 7):
        writer.step()
    with writer.stepping():
        result = run(("check", "D"), writer.data, tmp_path)
    assert problems(result) == []
    assert (result.code, "kfmt: " in result.err) == (0, False), result.err
    assert all(row["starts"] for row in result.of("broker_start"))
    assert writer.n_steps > N_FIRST_STEPS + 50


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_finds_what_a_quiet_directory_does_not_have(
    command: tuple[str, ...], writer: LiveWriter, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert run(command, writer.data, scratch).code == 0
    for _ in range(4):
        with writer.stepping():
            result = run(command, writer.data, scratch)
        assert not problems(result), problems(result)
        assert result.code == 0, result.out + result.err
        assert "kfmt: " not in result.err
        for _ in range(11):
            writer.step()


def test_a_deleted_segment_is_named_once(writer: LiveWriter, tmp_path: Path) -> None:
    lines = Counter[str]()
    for _ in range(6):
        with writer.stepping():
            result = run(("check", "D"), writer.data, tmp_path)
        lines = Counter(line for line in result.err.splitlines() if "deleted while" in line)
        assert set(lines.values()) <= {1}


@pytest.mark.parametrize(
    "command", [("check", "D"), ("check", "D/deleted-0"), ("index-check", "D")], ids=" ".join
)
def test_damage_in_a_directory_that_is_written_is_found(
    command: tuple[str, ...], writer: LiveWriter, tmp_path: Path
) -> None:
    partition = writer.partitions[0]
    partition.max_segments = 100
    log, index = (
        partition.directory / f"{partition.base_offsets[-2]:020}{suffix}"
        for suffix in (".log", ".index")
    )
    log.write_bytes(with_bytes(log.read_bytes(), 300, b"\xff"))
    index.write_bytes(with_bytes(index.read_bytes(), 12, int32(2_000)))
    with writer.stepping():
        result = run(command, writer.data, tmp_path)
    found = {(Path(row["file"]).name, row["code"]) for row in result.of("finding")}
    assert {(log.name, "crc-mismatch"), (index.name, "index-entry-not-at-batch")} <= found
    assert result.code == 1
