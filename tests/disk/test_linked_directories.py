"""Links to directories: brokers follow them, so every command does, once."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tools.kafka import SAMPLES

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
def linked(tmp_path: Path) -> Path:
    """A log directory in which a partition is a link to another disk."""
    disk, other = tmp_path / "disk", tmp_path / "other"
    for folder, name in ((disk, "empty-0"), (disk, "codec-none-0"), (other, "orders-0")):
        shutil.copytree(BROKER / name, folder / name)
    (disk / "orders-0").symlink_to(other / "orders-0")
    (disk / "log-start-offset-checkpoint").write_text("0\n1\norders 0 300\n")
    return disk


@pytest.mark.parametrize("words", READERS, ids=[words[0] for words in READERS])
def test_a_partition_on_another_disk_is_read(words: tuple[str, ...], linked: Path) -> None:
    read = kfmt(*words, linked, "--json")
    assert '"topic":"orders"' in read.out
    (linked / "orders-0").unlink()
    shutil.copytree(BROKER / "orders-0", linked / "orders-0")
    assert kfmt(*words, linked, "--json").out == read.out


def test_salvage_and_export_take_it_with_them(linked: Path, tmp_path: Path) -> None:
    assert kfmt("salvage", linked, tmp_path / "saved").code == 0
    (log, *_) = sorted((BROKER / "orders-0").glob("*.log"))
    assert (tmp_path / "saved/orders-0" / log.name).read_bytes() == log.read_bytes()
    assert kfmt("export", linked, "--to", tmp_path / "x").code == 0
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "x")
    assert "orders" in table.column("topic").to_pylist()


@pytest.mark.parametrize("words", COUNTERS, ids=[words[0] for words in COUNTERS])
def test_a_link_beside_its_directory_counts_once(
    words: tuple[str, ...], linked: Path, tmp_path: Path
) -> None:
    before = kfmt(*words, linked, "--json").out
    (linked / "alias-0").symlink_to(tmp_path / "other" / "orders-0")
    (linked / "zalias-0").symlink_to("codec-none-0")
    (linked / "up-0").symlink_to(tmp_path)
    (linked / "round-0").symlink_to(linked)
    after = kfmt(*words, linked, "--json").out
    assert sorted(after.replace('"alias"', '"orders"').replace("alias-0", "orders-0")) == sorted(
        before
    )


def test_a_link_is_named_as_its_broker_names_it(linked: Path, tmp_path: Path) -> None:
    """Its topic, and the checkpoint next to it, whatever the name of what it leads to."""
    (tmp_path / "other" / "orders-0").rename(tmp_path / "other" / "moved")
    (linked / "orders-0").unlink()
    (linked / "orders-0").symlink_to(tmp_path / "other" / "moved")
    for path in (linked, linked / "orders-0"):
        done = kfmt("find", "--offset", "310", path, "--json")
        assert '"topic":"orders"' in done.out
        said = kfmt("find", "--offset", "310", path)
        assert "log start offset 300" in said.err


def test_a_packed_log_next_to_a_plain_one_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = folder / f"{0:020}.log"
    data = (BROKER / "orders-0" / log.name).read_bytes()
    (folder / f"{log.name}.gz").write_bytes(gzip.compress(data))
    whole = kfmt("cat", folder)
    assert whole.code == 0
    log.touch()
    for command in ("verify-crc", "cat"):
        done = kfmt(command, folder)
        assert done.code == 3
        assert f"{log.name}.gz: not read: {log.name} is next to it" in done.err


@pytest.mark.parametrize("words", COUNTERS, ids=[words[0] for words in COUNTERS])
def test_the_directory_above_a_links_target_is_what_the_system_takes(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    here, far = tmp_path / "here", tmp_path / "far"
    shutil.copytree(BROKER / "codec-none-0", here / "x-0")
    shutil.copytree(BROKER / "orders-0", far / "x-0")
    (far / "sub").mkdir()
    (here / "l").symlink_to(far / "sub")
    one, two = (kfmt(*words, path, "--json").out for path in (here / "x-0", far / "x-0"))
    both = kfmt(*words, "x-0", "l/../x-0", "--json", cwd=here).out
    assert both.count('"topic":"x"') == (one + two).count('"topic":"x"')
    assert kfmt("check", "l/..", "--json", cwd=here).of("partition")[0]["file"].startswith(str(far))


@pytest.mark.parametrize("target", ["/nowhere/orders-0", "orders-0"], ids=["gone", "loop"])
@pytest.mark.parametrize("words", READERS, ids=[words[0] for words in READERS])
def test_a_partition_that_cannot_be_followed_is_unread(
    words: tuple[str, ...], target: str, linked: Path
) -> None:
    (linked / "orders-0").unlink()
    (linked / "orders-0").symlink_to(target)
    done = kfmt(*words, linked, "--json")
    assert done.code == 3, done.err
    assert "orders-0: " in done.err


def test_merge_says_that_a_replica_is_out_of_reach(linked: Path, tmp_path: Path) -> None:
    (linked / "orders-0").unlink()
    (linked / "orders-0").symlink_to("/nowhere/orders-0")
    other = shutil.copytree(BROKER / "orders-0", tmp_path / "b2" / "orders-0").parent
    done = kfmt("merge", linked, other, "--to", tmp_path / "to")
    assert done.code == 3
    assert "links to /nowhere/orders-0, which does not exist" in done.err


def test_of_two_links_the_one_named_like_a_partition_counts(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "far" / "blob")
    for i in range(8):
        folder = tmp_path / str(i)
        folder.mkdir()
        for name in ("orders-0", f"{i}", f"a{i}", f"z{i}"):
            (folder / name).symlink_to("../far/blob")
        (row,) = kfmt("stat", folder, "--json").of("stat")
        assert row["topic"] == "orders"


def test_what_a_linked_directory_frees_is_that_of_its_partitions(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "b" / "orders-0")
    shutil.copytree(BROKER / "codec-none-0", tmp_path / "a" / "pay-0")
    (tmp_path / "a" / "more").symlink_to(tmp_path / "b")
    alone = kfmt("stat", "b", "--json", cwd=tmp_path).of("disk_usage")
    both = kfmt("stat", "a", "b", "--json", cwd=tmp_path).of("disk_usage")
    assert alone
    assert [row for row in both if row["file"] == "b"] == alone


def test_a_link_in_a_loop_does_not_hide_the_files_next_to_it(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = shutil.copytree(BROKER / "orders-0", tmp_path / "d" / "orders-0")
    (folder / "loop").symlink_to("loop")
    done = kfmt("export", tmp_path / "d", "--to", tmp_path / "x", "--format", "csv")
    assert done.code == 3
    assert "Too many levels of symbolic links" in done.err
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
    one, two = (path.format(tmp_path) for path in paths)
    done = kfmt("cat", one, two, "--json", cwd=tmp_path)
    assert done.out == kfmt("cat", one, "--json", cwd=tmp_path).out


@pytest.mark.parametrize("target", ["../..", ".", "../far/notes"])
def test_a_link_in_the_way_is_moved_itself(target: str, tmp_path: Path) -> None:
    """Not the log directory that it leads to or is in, and not to a place that it leads to."""
    disk = shutil.copytree(BROKER, tmp_path / "d" / "disk")
    (tmp_path / "d" / "far" / "notes").mkdir(parents=True)
    (disk / "backups").symlink_to(target)
    steps = [row["command"] for row in kfmt("check", disk, "--json").of("next")]
    assert f"mv {disk / 'backups'} {tmp_path / 'd' / 'backups.aside'}" in steps
    assert not any(f"mv {disk} " in step for step in steps)


def test_links_of_other_programs_are_no_trouble(tmp_path: Path) -> None:
    disk = shutil.copytree(BROKER, tmp_path / "d" / "disk")
    (tmp_path / "d" / "app").mkdir()
    (tmp_path / "d" / "app" / "jdk-17").symlink_to("/nowhere/jdk")
    (disk / f"x-1.{'a' * 32}-delete").symlink_to("/nowhere/x-1")
    before = kfmt("verify-crc", disk, "--json")
    done = kfmt("verify-crc", tmp_path / "d", "--json")
    assert (done.code, done.err) == (before.code, before.err)
    for name in ("z-1", "a-1", "m-1"):
        (disk / name).symlink_to("/nowhere")
    errors = kfmt("verify-crc", tmp_path / "d").err.splitlines()
    assert [line.split(": ")[1][-3:] for line in errors if "/nowhere" in line] == [
        *("a-1", "m-1", "z-1")
    ]


def test_log_directories_behind_links_free_what_they_free(tmp_path: Path) -> None:
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
def test_a_dot_at_the_end_changes_nothing(path: str, linked: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "orders-0").rename(tmp_path / "other" / "moved")
    (linked / "orders-0").unlink()
    (linked / "orders-0").symlink_to(tmp_path / "other" / "moved")
    for words in (("retention", "--now", "0"), ("stat",), ("txn",)):
        want = kfmt(*words, "disk/orders-0", "--json", cwd=tmp_path).rows
        for row in (rows := kfmt(*words, path, "--json", cwd=tmp_path).rows):
            row.pop("file", None)
        for row in want:
            row.pop("file", None)
        assert rows == want, words
