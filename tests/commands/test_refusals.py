"""What commands refuse, instead of doing something else than they were asked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kfmt_cli
from kfmt_cli.errors import UsageError
from tests.support.samples import ORDERS, kfmt
from tools.kafka import SAMPLES

PARTITION = ORDERS.parent


@pytest.mark.parametrize(
    "words", [("merge", "-", "--to"), ("salvage", "-"), ("convert-v0-to-v2", "-")]
)
def test_standard_input_is_no_directory(words: tuple[str, ...], tmp_path: Path) -> None:
    done = kfmt(*words, tmp_path / "to", stdin=ORDERS.read_bytes())
    assert (done.code, done.out) == (2, "")
    assert done.err == "kfmt: -: this command cannot read standard input\n"


def test_partitions_of_one_name_are_not_rebuilt_into_each_other(tmp_path: Path) -> None:
    for disk in ("one", "two"):
        shutil.copytree(PARTITION, tmp_path / disk / "orders-0")
    paths = [tmp_path / disk / "orders-0" for disk in ("one", "two")]
    done = kfmt("rebuild-index", *paths, tmp_path / "to")
    assert (done.code, done.out) == (2, "")
    assert f"{paths[1]}: is written to orders-0, and so is {paths[0]}" in done.err
    assert not (tmp_path / "to").exists()
    assert kfmt("rebuild-index", tmp_path / "one", tmp_path / "two", tmp_path / "to").code == 0
    assert (tmp_path / "to/two/orders-0" / ORDERS.with_suffix(".index").name).exists()


@pytest.mark.parametrize("command", ["retention", "compaction"])
def test_cleanup_policies_are_those_of_kafka(command: str) -> None:
    done = kfmt(command, PARTITION, "--cleanup-policy", "compact,remove")
    assert (done.code, done.out) == (2, "")
    assert "no cleanup policy named 'remove'; choose from compact, delete" in done.err
    function = getattr(kfmt_cli, command)
    with pytest.raises(UsageError, match="no cleanup policy named 'foo'"):
        function(PARTITION, cleanup_policy="foo")
    assert function(PARTITION, cleanup_policy="compact").rows


def test_a_table_that_is_not_of_logs_is_written() -> None:
    done = kfmt("dump", PARTITION, "--format", "csv", "--table", "offset_index_entry")
    entries = kfmt("dump", PARTITION, "--json").of("offset_index_entry")
    assert len(done.out.splitlines()) == 1 + len(entries) > 60
    done = kfmt("dump", PARTITION, "--format", "csv", "--table", "offset_index_entry", "--records")
    assert (done.code, done.out) == (2, "")


def test_damaged_checkpoints_are_not_copied_and_told(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1/orders-0", tmp_path / "disk/orders-0")
    (tmp_path / "disk/orders-0/leader-epoch-checkpoint").write_text("garbage\n")
    (tmp_path / "disk/log-start-offset-checkpoint").write_text("0\n1\norders 0 x\n")
    done = kfmt("salvage", tmp_path / "disk", tmp_path / "to")
    assert done.code == 1
    assert done.err.count("not copied: ") == 2
    assert ", 2 damaged" in done.out
    assert "no damage" not in done.out
    rows = kfmt("salvage", tmp_path / "disk", tmp_path / "again", "--json")
    assert {row["file"] for row in rows.of("finding")} == {
        str(tmp_path / "disk/orders-0/leader-epoch-checkpoint"),
        str(tmp_path / "disk/log-start-offset-checkpoint"),
    }
    (summary,) = rows.of("summary")
    assert summary["errors"] == len(rows.of("finding"))


WRITING = [
    ("export", "disk", "--to"),
    ("rebuild-index", "disk"),
    ("rebuild-index", "disk/orders-0"),
    ("rebuild-index", f"disk/orders-0/{ORDERS.name}"),
    ("salvage", "disk"),
    ("merge", "disk", "--to"),
    ("convert-v0-to-v2", "disk"),
    ("report", "disk", "--to"),
]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    shutil.copytree(PARTITION, tmp_path / "disk/orders-0")
    for index in (tmp_path / "disk/orders-0").glob("*index"):
        index.unlink()
    return tmp_path / "disk"


def every_path(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_nothing_is_written_into_an_input(words: tuple[str, ...], disk: Path) -> None:
    """No broker starts with a directory in its log directory that is no partition."""
    before = every_path(disk)
    done = kfmt(*words, "disk/orders-0/new", cwd=disk.parent)
    assert (done.code, done.out) == (2, "")
    assert "is inside" in done.err
    assert every_path(disk) == before


@pytest.mark.parametrize("words", [*WRITING, ("build", "-")], ids=" ".join)
def test_an_empty_path_is_no_place(words: tuple[str, ...], disk: Path) -> None:
    """As of a variable of the shell that is not set."""
    before = every_path(disk.parent)
    done = kfmt(*words, "", cwd=disk.parent)
    assert (done.code, done.out) == (2, "")
    assert "a path cannot be empty" in done.err
    assert every_path(disk.parent) == before


def test_indexes_next_to_their_logs_are_asked_for(disk: Path) -> None:
    before = every_path(disk)
    for words in (("disk/orders-0", "disk/orders-0"), ("disk", "disk")):
        done = kfmt("rebuild-index", *words, cwd=disk.parent)
        assert (done.code, done.out) == (2, "")
        assert "has the logs; use --in-place" in done.err
    assert every_path(disk) == before


def test_old_segments_do_not_stay_next_to_new_ones(tmp_path: Path) -> None:
    rows = kfmt("dump", PARTITION, "--records", "--json").out.encode()
    to = tmp_path / "orders-0"
    assert kfmt("build", "-", to, "--segment-bytes", "20000", stdin=rows).code == 0
    before = {path: path.read_bytes() for path in every_path(to)}
    done = kfmt("build", "-", to, "--segment-bytes", "100000", "--force", stdin=rows)
    assert done.code == 2
    assert "is of another segment, which --force does not replace" in done.err
    assert {path: path.read_bytes() for path in every_path(to)} == before
    done = kfmt("build", "-", to, "--segment-bytes", "20000", "--force", stdin=rows)
    assert done.code == 0
    assert {path: path.read_bytes() for path in every_path(to)} == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cat", PARTITION, "--json", "-f", "%o"), "--json cannot be combined with --form"),
        (("find", PARTITION, "--offset", "5", "--timestamp", "3"), "cannot be combined"),
        (("find", PARTITION), "give --offset, --timestamp or a record filter"),
        (("hex", ORDERS, "--position", "-1"), "-1 is not in the range"),
        (("retention", PARTITION, "--retention-ms", "-5"), "-5 is not in the range"),
    ],
    ids=lambda item: item[0] if isinstance(item, tuple) else "",
)
def test_options_that_contradict_each_other(words: tuple[str | Path, ...], said: str) -> None:
    done = kfmt(*words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_the_table_of_records_has_records() -> None:
    done = kfmt("dump", PARTITION, "--format", "csv", "--table", "record")
    assert done.out == kfmt("dump", PARTITION, "--format", "csv", "--records").out.replace("\r", "")
    assert len(done.out.splitlines()) > 1500
