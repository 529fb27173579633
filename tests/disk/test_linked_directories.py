"""Links to directories: brokers follow them, so every command does, and reads each target once."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from kfmt_cli.rows.column import LOCATION_COLUMNS
from tests.support.samples import kfmt
from tools.kafka import ROOT, SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
READERS = (
    ("verify-crc",),
    ("check",),
    ("stat",),
    ("index-check",),
    ("find", "--offset", "3"),
    ("dump",),
    ("txn",),
    ("retention",),
    ("compaction",),
    ("cat",),
    ("sql", "select topic from records"),
)

COUNTERS = (("verify-crc",), ("stat",), ("cat",), ("sql", "select topic from records"))


@pytest.fixture
def linked_disk(tmp_path: Path) -> Path:
    """A log directory in which a partition is a link to another disk."""
    disk, other = tmp_path / "disk", tmp_path / "other"
    for directory, name in ((disk, "empty-0"), (disk, "codec-none-0"), (other, "orders-0")):
        shutil.copytree(BROKER / name, directory / name)
    (disk / "orders-0").symlink_to(other / "orders-0")
    (disk / "log-start-offset-checkpoint").write_text("0\n1\norders 0 300\n")
    return disk


@pytest.mark.parametrize("command", READERS, ids=[command[0] for command in READERS])
def test_a_partition_on_another_disk_is_read(command: tuple[str, ...], linked_disk: Path) -> None:
    result = kfmt(*command, linked_disk, "--json")
    assert '"topic":"orders"' in result.out
    (linked_disk / "orders-0").unlink()
    shutil.copytree(BROKER / "orders-0", linked_disk / "orders-0")
    assert kfmt(*command, linked_disk, "--json").out == result.out


def test_salvage_and_export_include_a_linked_partition(linked_disk: Path, tmp_path: Path) -> None:
    assert kfmt("salvage", linked_disk, tmp_path / "saved").code == 0
    (log, *_) = sorted((BROKER / "orders-0").glob("*.log"))
    assert (tmp_path / "saved/orders-0" / log.name).read_bytes() == log.read_bytes()
    assert kfmt("export", linked_disk, "--to", tmp_path / "x").code == 0
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "x")
    assert "orders" in table.column("topic").to_pylist()


@pytest.mark.parametrize("command", COUNTERS, ids=[command[0] for command in COUNTERS])
def test_a_link_beside_its_directory_counts_once(
    command: tuple[str, ...], linked_disk: Path, tmp_path: Path
) -> None:
    output_before = kfmt(*command, linked_disk, "--json").out
    (linked_disk / "alias-0").symlink_to(tmp_path / "other" / "orders-0")
    (linked_disk / "zalias-0").symlink_to("codec-none-0")
    (linked_disk / "up-0").symlink_to(tmp_path)
    (linked_disk / "round-0").symlink_to(linked_disk)
    output_after = kfmt(*command, linked_disk, "--json").out
    assert sorted(
        output_after.replace('"alias"', '"orders"').replace("alias-0", "orders-0")
    ) == sorted(output_before)


def test_a_link_is_named_as_its_broker_names_it(linked_disk: Path, tmp_path: Path) -> None:
    """The name of the link decides its topic and checkpoint entry, whatever its target's name."""
    (tmp_path / "other" / "orders-0").rename(tmp_path / "other" / "moved")
    (linked_disk / "orders-0").unlink()
    (linked_disk / "orders-0").symlink_to(tmp_path / "other" / "moved")
    for path in (linked_disk, linked_disk / "orders-0"):
        result = kfmt("find", "--offset", "310", path, "--json")
        assert '"topic":"orders"' in result.out
        text_result = kfmt("find", "--offset", "310", path)
        assert "log start offset 300" in text_result.err


def test_a_finding_in_a_linked_log_has_the_partition_of_its_target(tmp_path: Path) -> None:
    directory = ROOT / "damaged_segments/flipped-bit-0"
    (link := tmp_path / "link.log").symlink_to(directory / f"{0:020}.log")
    (finding,) = kfmt("verify-crc", link, "--json").of("finding")
    assert finding["file"] == str(link)
    assert [finding[name] for name in LOCATION_COLUMNS] == [
        *("flipped-bit", 0, str(directory.parent))
    ]


def test_a_packed_log_next_to_a_plain_one_is_named(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    log = directory / f"{0:020}.log"
    data = (BROKER / "orders-0" / log.name).read_bytes()
    (directory / f"{log.name}.gz").write_bytes(gzip.compress(data))
    compressed_result = kfmt("cat", directory)
    assert compressed_result.code == 0
    log.touch()
    for command in ("verify-crc", "cat"):
        result = kfmt(command, directory)
        assert result.code == 3
        assert f"{log.name}.gz: not read: {log.name} is next to it" in result.err


@pytest.mark.parametrize("command", COUNTERS, ids=[command[0] for command in COUNTERS])
def test_dot_dot_after_a_link_is_the_parent_of_its_target(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    local, linked = tmp_path / "here", tmp_path / "far"
    shutil.copytree(BROKER / "codec-none-0", local / "x-0")
    shutil.copytree(BROKER / "orders-0", linked / "x-0")
    (linked / "sub").mkdir()
    (local / "l").symlink_to(linked / "sub")
    local_output, linked_output = (
        kfmt(*command, path, "--json").out for path in (local / "x-0", linked / "x-0")
    )
    output = kfmt(*command, "x-0", "l/../x-0", "--json", cwd=local).out
    assert output.count('"topic":"x"') == (local_output + linked_output).count('"topic":"x"')
    assert (
        kfmt("check", "l/..", "--json", cwd=local)
        .of("partition")[0]["file"]
        .startswith(str(linked))
    )


@pytest.mark.parametrize("target", ["/nowhere/orders-0", "orders-0"], ids=["gone", "loop"])
@pytest.mark.parametrize("command", READERS, ids=[command[0] for command in READERS])
def test_a_partition_with_a_broken_link_is_not_read(
    command: tuple[str, ...], target: str, linked_disk: Path
) -> None:
    (linked_disk / "orders-0").unlink()
    (linked_disk / "orders-0").symlink_to(target)
    result = kfmt(*command, linked_disk, "--json")
    assert result.code == 3, result.err
    assert "orders-0: " in result.err


def test_merge_says_that_a_replica_is_out_of_reach(linked_disk: Path, tmp_path: Path) -> None:
    (linked_disk / "orders-0").unlink()
    (linked_disk / "orders-0").symlink_to("/nowhere/orders-0")
    other = shutil.copytree(BROKER / "orders-0", tmp_path / "b2" / "orders-0").parent
    result = kfmt("merge", linked_disk, other, "--to", tmp_path / "to")
    assert result.code == 3
    assert "links to /nowhere/orders-0, which does not exist" in result.err


def test_of_two_links_the_one_named_like_a_partition_counts(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "far" / "blob")
    for i in range(8):
        directory = tmp_path / str(i)
        directory.mkdir()
        for name in ("orders-0", f"{i}", f"a{i}", f"z{i}"):
            (directory / name).symlink_to("../far/blob")
        (row,) = kfmt("stat", directory, "--json").of("stat")
        assert row["topic"] == "orders"


def test_a_linked_directory_has_the_disk_usage_of_its_partitions(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "b" / "orders-0")
    shutil.copytree(BROKER / "codec-none-0", tmp_path / "a" / "pay-0")
    (tmp_path / "a" / "more").symlink_to(tmp_path / "b")
    expected = kfmt("stat", "b", "--json", cwd=tmp_path).of("disk_usage")
    rows = kfmt("stat", "a", "b", "--json", cwd=tmp_path).of("disk_usage")
    assert expected
    assert [row for row in rows if row["file"] == "b"] == expected


def test_a_link_in_a_loop_does_not_hide_the_files_next_to_it(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    directory = shutil.copytree(BROKER / "orders-0", tmp_path / "d" / "orders-0")
    (directory / "loop").symlink_to("loop")
    result = kfmt("export", tmp_path / "d", "--to", tmp_path / "x", "--format", "csv")
    assert result.code == 3
    assert "Too many levels of symbolic links" in result.err
    n_lines = sum(path.read_text().count("\n") for path in (tmp_path / "x").rglob("*.csv"))
    assert n_lines > 1500


@pytest.mark.parametrize(
    "paths", [(".", "{}"), ("{}", "orders-0/.."), ("b.tar", "./b.tar"), ("gz", "gz/orders-0")]
)
def test_the_same_records_at_two_paths_count_once(paths: tuple[str, str], tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "orders-0")
    shutil.copytree(BROKER / "orders-0", tmp_path / "in" / "orders-0")
    shutil.make_archive(str(tmp_path / "b"), "tar", tmp_path / "in")
    gz = tmp_path / "gz" / "orders-0"
    gz.mkdir(parents=True)
    log = min((BROKER / "orders-0").glob("*.log"))
    (gz / f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
    first, second = (path.format(tmp_path) for path in paths)
    result = kfmt("cat", first, second, "--json", cwd=tmp_path)
    assert result.out == kfmt("cat", first, "--json", cwd=tmp_path).out


@pytest.mark.parametrize("target", ["../..", ".", "../far/notes"])
def test_a_link_in_the_way_is_moved_itself(target: str, tmp_path: Path) -> None:
    """The advice moves the link, not its target or its log directory, and not into its target."""
    disk = shutil.copytree(BROKER, tmp_path / "d" / "disk")
    (tmp_path / "d" / "far" / "notes").mkdir(parents=True)
    (disk / "backups").symlink_to(target)
    steps = [row["command"] for row in kfmt("check", disk, "--json").of("next")]
    assert f"mv {disk / 'backups'} {tmp_path / 'd' / 'backups.aside'}" in steps
    assert not any(f"mv {disk} " in step for step in steps)


def test_links_of_other_programs_are_ignored(tmp_path: Path) -> None:
    disk = shutil.copytree(BROKER, tmp_path / "d" / "disk")
    (tmp_path / "d" / "app").mkdir()
    (tmp_path / "d" / "app" / "jdk-17").symlink_to("/nowhere/jdk")
    (disk / f"x-1.{'a' * 32}-delete").symlink_to("/nowhere/x-1")
    expected = kfmt("verify-crc", disk, "--json")
    result = kfmt("verify-crc", tmp_path / "d", "--json")
    assert (result.code, result.err) == (expected.code, expected.err)
    for name in ("z-1", "a-1", "m-1"):
        (disk / name).symlink_to("/nowhere")
    errors = kfmt("verify-crc", tmp_path / "d").err.splitlines()
    assert [line.split(": ")[1][-3:] for line in errors if "/nowhere" in line] == [
        *("a-1", "m-1", "z-1")
    ]


def test_linked_log_directories_have_the_same_disk_usage(tmp_path: Path) -> None:
    shutil.copytree(BROKER, tmp_path / "data")
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "d1").symlink_to("../data")
    names = ("purpose", "bytes", "freed_now", "freed_later", "freed_odd")
    rows = [
        [[row[name] for name in names] for row in kfmt("stat", path, "--json").of("disk_usage")]
        for path in (tmp_path / "data", tmp_path / "top")
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("path", ["disk/orders-0/.", "disk/orders-0/./"])
def test_a_dot_at_the_end_changes_nothing(path: str, linked_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "orders-0").rename(tmp_path / "other" / "moved")
    (linked_disk / "orders-0").unlink()
    (linked_disk / "orders-0").symlink_to(tmp_path / "other" / "moved")
    for command in (("retention", "--now", "0"), ("stat",), ("txn",)):
        expected = kfmt(*command, "disk/orders-0", "--json", cwd=tmp_path).rows
        for row in (rows := kfmt(*command, path, "--json", cwd=tmp_path).rows):
            row.pop("file", None)
        for row in expected:
            row.pop("file", None)
        assert rows == expected, command
