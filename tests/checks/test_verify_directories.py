"""What verify-crc reports about a directory: invalid names, and segments that do not fit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kfmt_cli.checks.log.offset_range import OffsetRange
from kfmt_cli.checks.partition.base import SegmentFacts
from kfmt_cli.checks.partition.directory_names import DirectoryNamesCheck
from kfmt_cli.checks.partition.segment_offsets import SegmentOffsetsCheck
from kfmt_cli.disk.directory_listing import walk_directories
from tests.support.samples import ORDERS, kfmt
from tests.support.segments import positions
from tools.kafka import SAMPLES

SWAP = ORDERS.name + ".swap"


def name(offset: int) -> str:
    return f"{offset:020}.log"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """orders-0 in a log directory: seven segments at 0, 240 … 1440."""
    directory = tmp_path / "data" / "orders-0"
    shutil.copytree(ORDERS.parent, directory)
    return directory


@pytest.mark.parametrize("options", [[], ["--deep"]])
def test_what_healthy_brokers_leave_is_not_accused(options: list[str]) -> None:
    result = kfmt("verify-crc", SAMPLES, *options, "--json")
    assert (result.code, result.codes) == (0, [])
    assert all(row["kind"] in ("log", "kraft_snapshot") for row in result.of("file"))


def test_a_log_that_will_replace_another_is_reported(partition: Path) -> None:
    shutil.copy(ORDERS, partition / SWAP)
    file = str(partition / SWAP)
    for path in (partition, partition.parent):
        result = kfmt("verify-crc", path, "--json")
        assert (result.code, result.codes) == (1, ["swap-file"])
        finding = result.of("finding")[0]
        assert (finding["file"], finding["severity"], finding["offset"]) == (file, "error", 0)
    assert kfmt("verify-crc", partition, "--strict").code == 1


def test_a_swap_file_that_a_start_deletes_is_not_called_a_replacement(partition: Path) -> None:
    shutil.copy(ORDERS, partition / (name(240) + ".swap"))
    (partition / (ORDERS.stem + ".index.cleaned")).write_bytes(b"")
    assert kfmt("verify-crc", partition, "--json").codes == []


@pytest.mark.parametrize(
    "invalid_name",
    ["abc.index", "abc.timeindex", "abc.txnindex", "abc.snapshot", "notes.log", "backup-0.log"],
)
def test_a_name_without_an_offset_is_an_error(invalid_name: str, partition: Path) -> None:
    shutil.copy(ORDERS, partition / invalid_name)
    result = kfmt("verify-crc", partition, "--json")
    assert result.code == 1
    assert result.codes == [
        *["log-not-checked"] * invalid_name.endswith(".log"),
        "name-not-numeric",
    ]
    assert result.of("finding")[-1]["file"] == str(partition / invalid_name)
    assert result.of("summary")[0]["errors"] == 1
    text_result = kfmt("verify-crc", partition)
    assert "1 directory with errors" in text_result.out


def test_names_that_a_broker_does_not_parse_are_not_reported(
    partition: Path,
) -> None:
    for file_name in ("README", "notes.txt", "abc.log.deleted", "00000000000000000000.log.bak"):
        (partition / file_name).write_bytes(b"x")
    assert kfmt("verify-crc", partition, "--json").codes == []


def test_files_that_are_in_no_partition_may_have_any_name(tmp_path: Path) -> None:
    shutil.copy(ORDERS, tmp_path / "saved.log")
    assert kfmt("verify-crc", tmp_path, "--json").codes == []


@pytest.mark.parametrize(
    "invalid_name", ["lost+found", "backup", "orders", "orders-", "a-0.old", "a-9999999999"]
)
def test_a_directory_that_is_no_partition_is_an_error_in_a_log_directory(
    invalid_name: str, partition: Path
) -> None:
    (partition.parent / invalid_name).mkdir()
    # Nothing identifies it as a log directory.
    assert kfmt("verify-crc", partition.parent, "--json").codes == []
    (partition.parent / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    result = kfmt("verify-crc", partition.parent, "--json")
    assert (result.code, result.codes) == (1, ["directory-not-a-partition"])
    assert result.of("finding")[0]["file"] == str(partition.parent / invalid_name)


def test_directories_of_a_broker_are_partitions(partition: Path) -> None:
    root = partition.parent
    (root / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    unique_id = "0123456789abcdef0123456789abcdef"
    for directory_name in (
        *("remote-log-index-cache", "a.b_c-d-12", "__cluster_metadata-0"),
        *(f"a-0.{unique_id}-{suffix}" for suffix in ("delete", "future", "stray")),
    ):
        (root / directory_name).mkdir()
    assert kfmt("verify-crc", root, "--json").codes == []


def test_overlapping_segments_are_reported_with_the_offsets_counted_twice(partition: Path) -> None:
    data = (partition / name(240)).read_bytes()
    (partition / name(400)).write_bytes(data[positions(data)[8] :])
    result = kfmt("verify-crc", partition, "--json")
    assert result.codes == ["segments-overlap"]
    finding = result.of("finding")[0]
    assert (finding["file"], finding["offset"]) == (str(partition / name(400)), 400)
    assert (finding["expected"], finding["found"]) == (480, 400)
    assert "offsets 400–479 are counted twice" in finding["message"]
    assert result.of("summary")[0]["records"] == 1500 + 80


def test_a_missing_segment_is_a_note(partition: Path) -> None:
    (partition / name(480)).unlink()
    result = kfmt("verify-crc", partition, "--json")
    assert (result.code, result.codes) == (0, ["segments-gap"])
    finding = result.of("finding")[0]
    assert (finding["severity"], finding["offset"]) == ("note", 480)
    assert finding["file"] == str(partition / name(720))
    assert "offsets 480–719" in finding["message"]


def test_a_gap_in_what_was_compacted_is_none(tmp_path: Path) -> None:
    source = SAMPLES / "kafka-3.9.1-broker1/compacted-0"
    directory = tmp_path / "compacted-0"
    shutil.copytree(source, directory)
    logs = sorted(directory.glob("*.log"))
    shift = 100_000
    data = bytearray(logs[-1].read_bytes())
    starts = positions(bytes(data))
    for start in starts[:-1]:  # the checksum does not cover the offset
        offset = int.from_bytes(data[start : start + 8], "big") + shift
        data[start : start + 8] = offset.to_bytes(8, "big")
    logs[-1].unlink()
    (directory / name(int(logs[-1].stem) + shift)).write_bytes(data)
    assert kfmt("verify-crc", directory, "--json").codes == []


def test_an_empty_log_is_noted_unless_it_is_the_last(partition: Path) -> None:
    (partition / name(1440)).write_bytes(b"")
    assert kfmt("verify-crc", partition, "--json").codes == []
    (partition / name(480)).write_bytes(b"")
    result = kfmt("verify-crc", partition, "--json")
    assert (result.code, result.codes) == (0, ["log-empty"])
    assert result.of("finding")[0]["file"] == str(partition / name(480))


def test_no_gap_is_reported_across_a_segment_that_could_not_be_read(partition: Path) -> None:
    (partition / name(480)).unlink()
    (partition / name(480)).symlink_to("gone")
    result = kfmt("verify-crc", partition, "--json")
    assert (result.code, result.codes) == (3, [])


def test_files_that_are_given_one_by_one_are_no_partition(partition: Path) -> None:
    (partition / name(480)).unlink()
    (partition / "abc.index").write_bytes(b"")
    assert kfmt("verify-crc", *sorted(partition.glob("*.log")), "--json").codes == []


def test_worker_processes_report_the_same(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfmt_cli.cli.click_command import create_run
    from kfmt_cli.cli.command_output import CommandOutput
    from kfmt_cli.commands.verify_crc.command import VerifyCrcCommand
    from kfmt_cli.commands.verify_crc.options import VerifyCrcOptions
    from kfmt_cli.execution import processes

    (partition / name(480)).unlink()
    (partition / name(720)).write_bytes(b"")
    (partition / "abc.index").write_bytes(b"")
    texts: list[str] = []
    monkeypatch.setattr(CommandOutput, "write_text", lambda _, text: texts.append(text))

    def run(jobs: int) -> list[str]:
        texts.clear()
        options = VerifyCrcOptions(
            paths=(str(partition),), jobs=jobs, color="never", format_="json"
        )
        assert VerifyCrcCommand(create_run(options), options).execute() == 1
        return [line for text in texts for line in text.splitlines()]

    sequential = run(1)
    monkeypatch.setattr(processes, "MIN_PARALLEL_BYTES", 0)
    assert run(2) == sequential
    codes = [row["code"] for row in map(json.loads, sequential) if row["type"] == "finding"]
    assert codes == ["name-not-numeric", "segments-gap", "log-empty"]


def segment_facts(base: int, offset_range: OffsetRange, size: int = 1000) -> SegmentFacts:
    return SegmentFacts(name(base), base, size, offset_range)


def segment_findings(*segments: SegmentFacts) -> list[tuple[str, str]]:
    check = SegmentOffsetsCheck()
    for segment in segments:
        check.add_segment(segment)
    return [(finding.code.name, finding.file) for finding in check.finish()]


def test_a_segment_within_one_that_is_longer() -> None:
    segments = (
        segment_facts(0, OffsetRange(0, 79)),
        segment_facts(10, OffsetRange(10, 20)),
        segment_facts(30, OffsetRange(30, 90)),
    )
    assert segment_findings(*segments) == [
        ("segments-overlap", name(10)),
        ("segments-overlap", name(30)),
    ]


def test_an_empty_segment_below_the_end_of_the_one_before_it() -> None:
    assert segment_findings(
        segment_facts(0, OffsetRange(0, 79)), segment_facts(10, OffsetRange(), 0)
    ) == [("segments-overlap", name(10))]


def test_an_impossible_offset_does_not_make_overlaps_of_all_that_follows() -> None:
    impossible = OffsetRange(0, 1 << 60)
    assert (
        segment_findings(
            segment_facts(0, impossible),
            segment_facts(80, OffsetRange(80, 90)),
            segment_facts(91, OffsetRange(91, 99)),
        )
        == []
    )


def test_no_name_is_checked_twice(partition: Path) -> None:
    (partition / "abc.index").write_bytes(b"")
    directories = walk_directories(str(partition.parent), pytest.fail)
    assert [
        finding.file
        for directory in directories
        for finding in DirectoryNamesCheck().check_names(directory)
    ] == [str(partition / "abc.index")]
